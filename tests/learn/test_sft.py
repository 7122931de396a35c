"""Supervised fine-tuning: the optimizer, the rows, the checkpoint kept, stopping early, going on after a kill."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import torch

from tests.learn import tiny
from tests.learn.tiny import FakeDev, Killed, same, weights
from text2sql_rl.content import Content
from text2sql_rl.errors import DataError, PolicyError
from text2sql_rl.learn.checkpoints import load, newest_state
from text2sql_rl.learn.optimizer import MuonAdamW
from text2sql_rl.learn.pairs import Pair, build_rows, unexpressed
from text2sql_rl.learn.sft import Schedule, fine_tune
from text2sql_rl.policy.hf import Policy, encode
from text2sql_rl.runs import StageFolder

pytestmark = tiny.THIRD_PARTY
MASKED = -100


# ---- the optimizer -------------------------------------------------------------------------------------------


def small_model(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))


def advance(model: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    torch.manual_seed(seed)
    optimizer.zero_grad()
    model(torch.randint(0, 5, (8,))).square().sum().add(model[1].weight.sum()).backward()  # type: ignore[index]
    optimizer.step()


def test_matrices_go_to_muon_and_all_else_to_adamw() -> None:
    model = small_model()
    optimizer = MuonAdamW(model, 0.02)
    muon, adamw = optimizer.param_groups
    assert [tuple(weight.shape) for weight in muon["params"]] == [(3, 4)]
    assert sorted(tuple(weight.shape) for weight in adamw["params"]) == [(3,), (3,), (3,), (5, 4)]
    assert (muon["lr"], adamw["lr"]) == (0.02, pytest.approx(0.003))


def test_a_scheduler_sets_the_rates_of_both() -> None:
    model = small_model()
    optimizer = MuonAdamW(model, 0.02)
    optimizer.load_state_dict(optimizer.state_dict())  # accelerate does so when a run begins
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0 if step else 1.0)
    advance(model, optimizer, 1)
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.0, 0.0]
    before = weights(model)
    advance(model, optimizer, 2)
    assert same(before, weights(model))


def test_the_optimizers_state_comes_back_whole(tmp_path: Path) -> None:
    model = small_model()
    optimizer = MuonAdamW(model, 0.02)
    for seed in range(3):
        advance(model, optimizer, seed)
    optimizer.param_groups[0]["lr"] = 0.01
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    other = small_model(seed=9)
    other.load_state_dict(model.state_dict())
    restored = MuonAdamW(other, 0.02)
    restored.load_state_dict(torch.load(tmp_path / "optimizer.pt"))
    assert [group["lr"] for group in restored.param_groups] == [0.01, pytest.approx(0.003)]
    for seed in range(3, 6):
        advance(model, optimizer, seed)
        advance(other, restored, seed)
    assert same(weights(model), weights(other))


# ---- the rows ------------------------------------------------------------------------------------------------


def pairs(content: Content, role: str = "rl") -> list[Pair]:
    return [Pair(question, database, question.gold_sql) for question, database in tiny.items(content, role)]


def rows_of(content: Content, policy: Policy, given: list[Pair] | None = None, **changes: Any) -> list[dict[str, Any]]:
    how = {"rows": 24, "batch": 4, "longest": 80, "seed": 1, "augment": False, "curriculum": False}
    asked = pairs(content) if given is None else given
    return build_rows(asked, tiny.style(), policy.tokenizer, **{**how, **changes}).to_list()


@pytest.fixture(scope="module")
def policy(model_folder: Path) -> Policy:
    return Policy(model_folder)


def test_a_row_is_prompt_answer_and_end(content: Content, policy: Policy) -> None:
    style, tokenizer = tiny.style(), policy.tokenizer
    expected = []
    for pair in pairs(content):
        prompt = style.prompt(pair.question, pair.database)
        (start,) = encode(tokenizer, [prompt], 80)
        answer = style.completion(prompt, pair.database, pair.sql) or ""
        end = [*tokenizer(answer)["input_ids"], tokenizer.eos_token_id]
        assert tokenizer.unk_token_id not in end
        expected.append({"input_ids": start + end, "labels": [MASKED] * len(start) + end})
    rows = rows_of(content, policy)
    assert len(rows) == 24
    for row in expected:  # every pair comes equally often
        assert rows.count(row) == 6


@pytest.mark.parametrize("augment", [False, True])
def test_rows_depend_on_the_seed_alone(content: Content, policy: Policy, augment: bool) -> None:
    first = rows_of(content, policy, augment=augment, curriculum=augment)
    random.seed(99)
    torch.manual_seed(99)
    assert rows_of(content, policy, augment=augment, curriculum=augment) == first
    assert rows_of(content, policy, augment=augment, curriculum=augment, seed=2) != first


def test_variants_differ_and_keep_the_end(content: Content, policy: Policy) -> None:
    rows = rows_of(content, policy, augment=True)
    assert len({tuple(row["input_ids"]) for row in rows}) > 12
    for row in rows:
        start = row["labels"].count(MASKED)
        assert row["labels"] == [MASKED] * start + row["input_ids"][start:]
        assert row["labels"][-1] == policy.tokenizer.eos_token_id
        assert row["labels"].count(policy.tokenizer.eos_token_id) == 1


def test_a_curriculum_begins_with_small_schemas(content: Content, policy: Policy) -> None:
    """Rows are sorted by length in windows of 16 batches, so the windows are compared."""
    long = {"rows": 1280, "batch": 4, "augment": True}
    means = []
    for curriculum in (True, False):
        lengths = [row["labels"].count(MASKED) for row in rows_of(content, policy, curriculum=curriculum, **long)]
        means.append((sum(lengths[:128]) / 128, sum(lengths[-640:]) / 640))
    (early, late), (early_without, late_without) = means
    assert early < late - 1
    assert early_without == pytest.approx(late_without, abs=0.5)
    assert late == pytest.approx(late_without, abs=0.5)


def test_rows_of_a_batch_have_like_lengths(content: Content, policy: Policy) -> None:
    rows = rows_of(content, policy, rows=64, augment=True)
    lengths = [len(row["input_ids"]) for row in rows]
    inside = [max(lengths[at : at + 4]) - min(lengths[at : at + 4]) for at in range(0, 64, 4)]
    assert sum(inside) / len(inside) < (max(lengths) - min(lengths)) / 2


def test_what_the_style_cannot_say_is_counted_and_left_out(content: Content, policy: Policy) -> None:
    good, *_ = pairs(content)
    bad = Pair(good.question, good.database, "WITH t AS (SELECT 1) SELECT * FROM t")
    assert unexpressed([good, bad], tiny.style()) == [bad]
    assert rows_of(content, policy, [good, bad], rows=4) == rows_of(content, policy, [good], rows=4)
    with pytest.raises(DataError, match="none of 1 pairs can be written in prompt style slot"):
        rows_of(content, policy, [bad])


def test_a_prompt_that_does_not_fit_is_refused(content: Content, policy: Policy) -> None:
    with pytest.raises(PolicyError, match=r"more than sampling\.max_prompt_tokens = 5"):
        rows_of(content, policy, longest=5)


# ---- fine-tuning ---------------------------------------------------------------------------------------------


def tune(
    content: Content, model_folder: Path, folder: Path, dev: FakeDev | None, **changes: Any
) -> tuple[Policy, StageFolder, dict[str, Any]]:
    how = {
        "steps": 4, "batch": 4, "learning_rate": 0.02, "rise": 1, "eval_every": 1, "patience": None, "muon": True,
        "seed": 3,
    }  # fmt: skip
    schedule = Schedule(**{**how, **changes})
    policy, stage = Policy(model_folder), StageFolder(folder, 0.0)
    stage.start()
    rows = build_rows(
        pairs(content, "sft"), tiny.style(), policy.tokenizer,
        rows=schedule.steps * 4, batch=4, longest=80, seed=3, augment=True, curriculum=True,
    )  # fmt: skip
    try:
        result = fine_tune(policy, tiny.style(), rows, schedule, stage, dev)  # type: ignore[arg-type]
    except Killed:
        stage._lock.release()  # as the system does when a process ends
        raise
    return policy, stage, result


def test_the_best_on_dev_is_kept_the_first_among_equals(content: Content, model_folder: Path, tmp_path: Path) -> None:
    dev = FakeDev([0.25, 0.5, 0.5, 0.25])
    policy, stage, result = tune(content, model_folder, tmp_path, dev)
    assert result == {"steps": 4, "dev_accuracy": 0.5, "best_step": 2}
    kept, style = load(stage.path / "checkpoint", "float32")
    assert same(weights(kept.model), dev.seen[1])
    assert not same(weights(policy.model), dev.seen[1])
    assert style.name == "slot"
    assert style.vocabulary == tiny.style().vocabulary  # type: ignore[attr-defined]
    assert [row["dev_accuracy"] for row in stage.metrics() if "dev_accuracy" in row] == [0.25, 0.5, 0.5, 0.25]
    assert not (stage.path / "trainer").exists()


def test_training_stops_when_dev_has_stopped_rising(content: Content, model_folder: Path, tmp_path: Path) -> None:
    dev = FakeDev([0.1, 0.3, 0.3, 0.2])
    _, _, result = tune(content, model_folder, tmp_path, dev, steps=20, eval_every=2, patience=2)
    assert result == {"steps": 8, "dev_accuracy": 0.3, "best_step": 4}


@pytest.mark.parametrize("muon", [True, False])
def test_a_killed_run_goes_on_as_if_it_had_not_been(
    content: Content, model_folder: Path, tmp_path: Path, muon: bool
) -> None:
    how: dict[str, Any] = {"steps": 6, "eval_every": 2, "muon": muon}
    whole_dev = FakeDev([0.5, 0.25, 0.75])
    whole, whole_stage, whole_result = tune(content, model_folder, tmp_path / "whole", whole_dev, **how)
    with pytest.raises(Killed):
        tune(content, model_folder, tmp_path / "killed", FakeDev([0.5, None]), **how)
    assert newest_state(tmp_path / "killed" / "trainer") == tmp_path / "killed" / "trainer" / "checkpoint-2"
    dev = FakeDev([0.25, 0.75])
    policy, stage, result = tune(content, model_folder, tmp_path / "killed", dev, **how)
    assert same(weights(whole.model), weights(policy.model))
    assert all(same(one, other) for one, other in zip(dev.seen, whole_dev.seen[1:], strict=True))
    assert result == whole_result
    checks = [[(row["step"], row["dev_accuracy"]) for row in one.metrics() if "dev_accuracy" in row]
              for one in (stage, whole_stage)]  # fmt: skip
    assert checks[0] == checks[1] == [(2, 0.5), (4, 0.25), (6, 0.75)]


def test_a_torn_state_is_not_the_newest(tmp_path: Path) -> None:
    for step, text in {2: "{}", 10: "{}", 12: '{"global_st', 14: None}.items():
        (tmp_path / f"checkpoint-{step}").mkdir()
        if text is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(text)
    assert newest_state(tmp_path) == tmp_path / "checkpoint-10"
    assert newest_state(tmp_path / "nothing") is None


def test_a_loss_that_is_no_number_is_one_clear_error(content: Content, model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"loss became nan at step \d+. Lower the learning rate"):
        tune(content, model_folder, tmp_path, None, steps=30, eval_every=30, muon=False, learning_rate=1e30)
    assert not (tmp_path / "done.json").exists()
    assert not (tmp_path / "checkpoint").exists()


def test_a_checkpoint_without_its_style_is_refused(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="has no prompt style"):
        load(model_folder, "float32")
    (tmp_path / "prompt_style.json").write_text(json.dumps({"style": "slot"}))
    with pytest.raises(PolicyError, match="has no prompt style"):
        load(tmp_path, "float32")

"""The stages of a run: what they may read, what they choose, and all of them one after the other."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

from tests.learn import tiny
from tests.learn.tiny import make_rollout
from text2sql_rl.canaries import watch_over
from text2sql_rl.config import RunConfig
from text2sql_rl.content import Content
from text2sql_rl.errors import ConfigError, DataError, LeakError
from text2sql_rl.group import AdvantageRule, describe, make_group
from text2sql_rl.learn import material, reinforce, stages
from text2sql_rl.learn.checkpoints import load
from text2sql_rl.learn.reporters import reporters
from text2sql_rl.policy.hf import Policy
from text2sql_rl.questions import QuestionSet
from text2sql_rl.records import Group, Question
from text2sql_rl.rollout_log import read_rollouts
from text2sql_rl.runs import RunFolder

pytestmark = tiny.THIRD_PARTY
CHAIN = ("base", "sft", "difficulty", "warmup", "difficulty_warm", "grpo", "control")
CONFIG: dict[str, Any] = {
    "name": "tiny",
    "seed": 1,
    "prompt_style": "slot",
    "policy": {"kind": "scratch", "hidden_size": 32, "layers": 1, "heads": 2},
    "sampling": {"max_prompt_tokens": 80, "max_completion_tokens": 8, "batch": 64},
    "judge": {"rule": "bound-v1"},
    "sft": {"steps": 4, "batch": 4, "learning_rate": 0.02, "eval_every": 2, "patience": 3, "augment": True},
    "difficulty": {"questions": 3, "samples": 2, "low": -1, "high": 1},
    "warmup": {"steps": 2, "batch": 4, "learning_rate": 0.01, "per_question": 2, "measure": 3},
    "grpo": {
        "steps": 2,
        "questions_per_step": 2,
        "generations": 2,
        "learning_rate": 0.001,
        "advantage": {"scale": "population", "floor": 0.25},
        "save_every": 1,
        "canaries": {"rate": 0.5, "stop": True},
        "held_in": 1,
    },
    "control": {"steps": 2, "learning_rate": 0.01},
    "evaluate": {"roles": ["heldout"], "samples": 1},
}


def with_role(content: Content, role: str, questions: Sequence[Question]) -> Content:
    return Content(content.store, QuestionSet({**content.questions.by_role, role: tuple(questions)}))


# ---- what may be read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["sft", "rl", "dev"])
def test_a_heldout_question_in_any_training_set_is_refused(content: Content, role: str) -> None:
    stray = content.questions.role("heldout")[0]
    assert len(material.asked(content, role)) == len(content.questions.role(role))
    with pytest.raises(LeakError, match=f"{role}: held-out question heldout-0"):
        material.asked(with_role(content, role, [*content.questions.role(role), stray]), role)
    with pytest.raises(LeakError):
        material.asked(content, "heldout")


def test_an_empty_set_is_one_clear_error(content: Content) -> None:
    with pytest.raises(DataError, match="'rl' is empty"):
        material.asked(with_role(content, "rl", []), "rl")


def test_the_vocabulary_reads_no_gold_but_sfts(content: Content) -> None:
    words, answers = material.vocabulary(content)
    assert set(words) <= {"how", "many", "are", "there", "list", "the", "of", "every", "what", "is", "highest"}
    assert {"many", "highest"} <= set(words)
    assert {"SELECT", "COUNT", "*"} <= set(answers)
    assert "MAX" not in answers  # only an rl gold has it
    blind = content
    for role in ("rl", "dev", "heldout"):
        hidden = [dataclasses.replace(one, gold_sql="SELECT hidden") for one in content.questions.role(role)]
        blind = with_role(blind, role, hidden)
    assert material.vocabulary(blind) == (words, answers)


PRETRAINED = {"kind": "pretrained", "model": "none"}


@pytest.mark.parametrize(("style", "policy"), [("ddl", CONFIG["policy"]), ("slot", PRETRAINED)])
def test_a_style_that_the_policy_cannot_read_is_refused(
    root: Path, tmp_path: Path, style: str, policy: dict[str, Any]
) -> None:
    config, run = open_run(root, tmp_path, prompt_style=style, policy=policy)
    with pytest.raises(ConfigError, match=f"prompt_style: a {policy['kind']} policy cannot read prompt style {style}"):
        stages.base(config, run)
    assert not run.stage("base").path.exists()


# ---- what is chosen ------------------------------------------------------------------------------------------


def group(question_id: str, *answers: tuple[str | None, float | None]) -> Group:
    rollouts = [make_rollout(question_id, total, sql=sql) for sql, total in answers]
    return make_group(rollouts, AdvantageRule("none", 0.0))


def test_solved_takes_distinct_matching_candidates_the_most_frequent_first(content: Content) -> None:
    by_id = {question.id: (question, database) for question, database in tiny.items(content, "rl")}
    groups = [
        group("rl-0", ("b", 1.0), ("a", 1.0), ("b", 1.0), ("c", 0.0), ("c", 0.0), ("c", 0.0), ("d", 1.0)),
        group("rl-1", ("x", 0.05), (None, 0.0), ("y", None)),
        group("rl-2", ("z", 1.0)),
    ]
    solved = material.solved_pairs(groups, by_id, most=2)
    assert [(pair.question.id, pair.sql) for pair in solved] == [("rl-0", "b"), ("rl-0", "a"), ("rl-2", "z")]
    assert [pair.database.name for pair in solved] == ["stable"] * 3
    assert len(material.solved_pairs(groups, by_id, most=9)) == 4


def test_the_order_of_rl_questions_is_fixed_by_the_seed(content: Content) -> None:
    def order(seed: int) -> list[str]:
        return [question.id for question, _ in material.shuffled(content, seed)]

    assert order(1) == order(1)
    assert sorted(order(1)) == ["rl-0", "rl-1", "rl-2", "rl-3"]
    assert len({tuple(order(seed)) for seed in range(6)}) > 1


def test_training_order_takes_each_question_equally_often() -> None:
    kept = [f"q{number}" for number in range(5)]
    order = material.training_order(kept, 13, seed=1)
    assert len(order) == 13
    assert sorted(order[:5]) == sorted(order[5:10]) == kept
    assert len(set(order[10:])) == 3
    assert order == material.training_order(kept, 13, seed=1)
    assert order != material.training_order(kept, 13, seed=2)


def test_an_empty_band_is_one_clear_error() -> None:
    with pytest.raises(DataError, match=r"no question lies in the band.*Widen the band"):
        material.training_order([], 4, seed=1)


# ---- the whole chain -----------------------------------------------------------------------------------------


def open_run(root: Path, folder: Path, **changes: Any) -> tuple[RunConfig, RunFolder]:
    config = RunConfig.model_validate({**CONFIG, **changes})
    run = RunFolder(folder / config.name)
    run.create_or_open(config.model_dump(mode="json"))
    return config, run


@pytest.fixture(scope="module")
def chain(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, RunFolder]:
    config, run = open_run(root, tmp_path_factory.mktemp("runs"))
    for name in CHAIN:
        getattr(stages, name)(config, run)
    return config, run


def test_every_stage_of_the_chain_is_done(chain: tuple[RunConfig, RunFolder]) -> None:
    _, run = chain
    assert all(run.stage(name).is_done() for name in CHAIN)
    results = {name: run.stage(name).result() for name in CHAIN}
    assert results["sft"]["pairs"] == 2
    assert results["sft"]["unexpressed"] == []
    assert (results["difficulty"]["questions"], results["difficulty"]["samples"]) == (3, 2)
    assert set(results["difficulty"]["kept_ids"]) <= {f"rl-{number}" for number in range(4)}
    assert results["warmup"]["labelled_pairs"] == 2
    assert results["warmup"]["pairs"] == 2 + results["warmup"]["old_policy_pairs"]
    assert [results[name]["steps"] for name in ("sft", "warmup", "grpo", "control")] == [4, 2, 2, 2]
    for name in ("sft", "warmup", "grpo", "control"):
        assert 0.0 <= results[name]["dev_accuracy"] <= 1.0
        assert load(run.stage(name).path / "checkpoint", "float32")[1].name == "slot"


def test_grpos_result_says_in_words_what_was_declared_and_what_looks_wrong(chain: tuple[RunConfig, RunFolder]) -> None:
    config, run = chain
    result = run.stage("grpo").result()
    assert result["advantage"] == describe(AdvantageRule(config.grpo.advantage.scale, config.grpo.advantage.floor))
    assert "every token counts the same" in result["loss"]
    assert all(isinstance(sign, str) for sign in result["signs"])


def test_a_child_asks_all_questions_that_would_have_been_measured(
    root: Path, chain: tuple[RunConfig, RunFolder]
) -> None:
    _, run = chain
    changes = {"parent": run.name, "parent_stage": "warmup", "grpo": {**CONFIG["grpo"], "questions": "all", "steps": 4}}
    config, child = open_run(root, run.path.parent, name="all", **changes)
    stages.grpo(config, child)
    result = child.stage("grpo").result()
    assert not child.stage("difficulty_warm").path.exists()
    assert child.source("warmup").path == run.stage("warmup").path
    asked = {row.question_id for row in read_rollouts(child.stage("grpo").path / "rollouts")}
    measured = {row.question_id for row in read_rollouts(run.stage("difficulty_warm").path / "rollouts")}
    assert asked == measured
    assert (result["questions"], result["too_long"], result["databases"]) == (3, [], ["stable"])
    assert "every question without a band equally often" in result["sampling"]


def test_curves_go_to_tensorboard_and_what_was_fine_tuned_is_asked_again(chain: tuple[RunConfig, RunFolder]) -> None:
    _, run = chain
    stage = run.stage("grpo")
    rows = stage.metrics()
    assert [row["step"] for row in rows if "held_in_accuracy" in row] == [1, 2]
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = event_accumulator.EventAccumulator(str(stage.path / "tensorboard"))
    events.Reload()
    logged = [row["reward"] for row in rows if "reward" in row]
    assert [one.value for one in events.Scalars("train/reward")] == pytest.approx(logged)
    assert any(tag.startswith("train/by/hardness/") for tag in events.Tags()["scalars"])
    for name in ("dev_accuracy", "held_in_accuracy"):
        curve = [(one.step, one.value) for one in events.Scalars(f"eval/{name}")]
        assert curve == [(row["step"], pytest.approx(row[name])) for row in rows if name in row]


def test_a_reporter_that_is_not_installed_is_named() -> None:
    assert reporters(()) == ()
    assert reporters(None) == (("tensorboard",) if importlib.util.find_spec("tensorboard") else ())
    missing = next(name for name in ("trackio", "wandb") if importlib.util.find_spec(name) is None)
    with pytest.raises(ConfigError, match=f"grpo.report_to: the package {missing} is not installed"):
        reporters((missing,))


def test_what_informative_groups_cost_is_in_the_result(chain: tuple[RunConfig, RunFolder]) -> None:
    _, run = chain
    result, rows = run.stage("grpo").result(), read_rollouts(run.stage("grpo").path / "rollouts")
    assert result["completions"] == len(rows)
    informative = {row.group_id for row in rows if row.group_kind == "informative"}
    assert result["informative_groups"] == len(informative)
    assert result["sampling"].startswith("every question of the band equally often")
    assert result["truncated"] == "a completion cut at the token limit counts like any other"
    assert {len(row.conditions_sha256) for row in rows} == {64}


def test_dynamic_sampling_starts_from_the_measured_pass_rates(
    root: Path, chain: tuple[RunConfig, RunFolder], tmp_path: Path
) -> None:
    _, first = chain
    shutil.copytree(first.path, tmp_path / "tiny")
    shutil.rmtree(tmp_path / "tiny" / "stages" / "grpo")
    (tmp_path / "tiny" / "run.json").unlink()
    settings = {**CONFIG["grpo"], "dynamic": {"rounds": 2, "half_life": 4}}
    config, run = open_run(root, tmp_path, grpo=settings)
    stages.grpo(config, run)
    result, rows = run.stage("grpo").result(), read_rollouts(run.stage("grpo").path / "rollouts")
    assert result["completions"] == len(rows) >= 2 * 2 * 2
    assert result["sampling"].endswith("others asked, in at most 2 rounds")
    assert {row.question_id for row in rows} <= set(run.stage("difficulty_warm").result()["kept_ids"])
    assert result["questions"] == len({row.question_id for row in rows})
    for step in (1, 2):
        asked = [row.group_id for row in rows if row.step == step]
        assert len(asked) in (4, 6, 8)


def test_the_benchmarks_of_grpo_start_where_a_run_did(
    chain: tuple[RunConfig, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = chain
    monkeypatch.syspath_prepend(str(tiny.REPOSITORY / "bench"))
    monkeypatch.setenv("TEXT2SQL_BENCH_RUN", str(run.path))
    monkeypatch.setenv("TEXT2SQL_BENCH_SHARE", "0.01")
    monkeypatch.setattr(importlib.import_module("from_run"), "open_judge", lambda _: tiny.ScriptedJudge())
    # A scripted judge has no rule to make canaries for.
    monkeypatch.setattr(reinforce, "watch_over", lambda asked, judge, _, stage: watch_over(asked, judge, None, stage))
    before = sorted(path for path in run.path.rglob("*"))
    step = importlib.import_module("step_time").measure()
    assert (step.name, step.baseline, step.n) == ("grpo.step_time_over_stock_trl", 1.05, 4)
    assert step.value > 0
    price = importlib.import_module("informative_groups").measure()
    assert price.value * price.n == pytest.approx(round(price.value * price.n), abs=0.05)  # whole completions
    assert price.baseline > 0
    assert sorted(path for path in run.path.rglob("*")) == before


def test_canaries_are_judged_beside_the_policy_and_leave_no_rollout(chain: tuple[RunConfig, RunFolder]) -> None:
    config, run = chain
    stage, rows = run.stage("grpo"), read_rollouts(run.stage("grpo").path / "rollouts")
    size = config.grpo.steps * config.grpo.questions_per_step * config.grpo.generations
    found = stage.result()["canaries"]
    # Each once before the first step, then one for every second completion.
    assert found["paid"] == 0
    assert found["asked"] > size // 2
    assert len(rows) == size
    assert {row.role for row in rows} == {"rl"}
    assert not (stage.path / "alarms.jsonl").exists()


def test_a_heldout_database_appears_nowhere(chain: tuple[RunConfig, RunFolder]) -> None:
    _, run = chain
    for name in CHAIN:
        assert set(run.stage(name).result()["databases"]) <= {"stable"}
    logged = [row for name in CHAIN for row in read_rollouts(run.stage(name).path / "rollouts")]
    assert {row.database for row in logged} == {"stable"}
    texts = [path.read_text(errors="replace") for path in run.path.rglob("*.json*") if path.name != "run.json"]
    assert len(texts) > 20
    assert not any("heldout-" in text or "orchard" in text for text in texts)


def test_every_rollout_tells_where_it_comes_from(chain: tuple[RunConfig, RunFolder]) -> None:
    config, run = chain
    sizes = {"difficulty": 3 * 2, "difficulty_warm": 3 * 2, "grpo": 2 * 2 * 2}
    sources = {"difficulty": "sft", "difficulty_warm": "warmup", "grpo": "warmup"}
    for name, size in sizes.items():
        rows = read_rollouts(run.stage(name).path / "rollouts")
        assert len(rows) == size
        for row in rows:
            assert (row.run, row.stage, row.checkpoint, row.role) == ("tiny", name, sources[name], "rl")
            assert len(row.prompt_sha256) == len(row.instance_sha256) == len(row.rule_sha256) == 64
            assert json.loads(row.sampling)["max_completion_tokens"] == config.sampling.max_completion_tokens
            assert row.gold_sql


def test_a_stage_begun_again_measures_no_chunk_twice(
    root: Path, chain: tuple[RunConfig, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, run = chain
    stage = run.stage("difficulty")
    before = stage.result()
    (stage.path / "done.json").unlink()  # as if killed between its last chunk and its end
    monkeypatch.setattr(Policy, "sample", lambda *_, **__: pytest.fail("sampled again"))
    stages.difficulty(config, run)
    after = run.stage("difficulty").result()
    del before["seconds"], after["seconds"]
    assert after == before


def test_the_same_config_gives_the_same_run(root: Path, chain: tuple[RunConfig, RunFolder], tmp_path: Path) -> None:
    _, first = chain
    config, second = open_run(root, tmp_path)
    for name in CHAIN[:3]:
        getattr(stages, name)(config, second)
        assert load_weights(second, name) == load_weights(first, name)
    rows = [read_rollouts(run.stage("difficulty").path / "rollouts") for run in (first, second)]
    assert [row.raw for row in rows[0]] == [row.raw for row in rows[1]]
    assert second.stage("difficulty").result()["kept_ids"] == first.stage("difficulty").result()["kept_ids"]


def load_weights(run: RunFolder, name: str) -> bytes | None:
    path = run.stage(name).path / "checkpoint" / "model.safetensors"
    return path.read_bytes() if path.exists() else None

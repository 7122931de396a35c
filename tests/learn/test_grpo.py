"""GRPO: rewards and groups, the rows that teach, what one run changes, and going on after a kill."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import torch
from trl import GRPOTrainer

from tests.learn import tiny
from tests.learn.tiny import LIMITS, FakeDev, Killed, ScriptedJudge, grpo_settings, same, weights
from text2sql_rl.content import Content
from text2sql_rl.errors import ConfigError, PolicyError, RunError
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.judge import Judge
from text2sql_rl.learn.asking import GroupJudge, Task
from text2sql_rl.learn.grpo import arguments, make_trainer, tasks_needed, train
from text2sql_rl.learn.trainer import DeclaredGRPOTrainer, Sampled
from text2sql_rl.learn.watch import DevCheck
from text2sql_rl.policy.hf import Policy
from text2sql_rl.records import Completion, Finish, Group, GroupKind
from text2sql_rl.rollout_log import Lineage, part_path, read_rollouts, write_groups
from text2sql_rl.runs import StageFolder
from text2sql_rl.scoring import load_rule

pytestmark = tiny.THIRD_PARTY
G = 4
RULE = AdvantageRule("population", floor=0.25)
Mark = Callable[[Completion], float | None]


def grouped(tasks: Sequence[Task], policy: Policy, judge: Any, generations: int = G) -> GroupJudge:
    return GroupJudge(tasks, judge, policy, tiny.style(), RULE, generations)


def answer_ids(policy: Policy, task: Task, sql: str) -> list[int]:
    answer = tiny.style().completion(task.prompt, task.database, sql)
    assert answer is not None
    return [*policy.tokenizer(answer)["input_ids"], policy.tokenizer.eos_token_id]


# ---- the reward function -------------------------------------------------------------------------------------


def test_rewards_come_in_order_with_their_groups(content: Content, model_folder: Path) -> None:
    policy, (count, names) = Policy(model_folder), tiny.tasks(content, 2)
    right = "SELECT COUNT(*) FROM horse"
    good, other = answer_ids(policy, count, right), answer_ids(policy, names, "SELECT horse.name FROM horse")
    endless = good[:-1] * 4
    with Judge(load_rule("bound-v1")) as judge:
        reward = grouped([count, names], policy, judge, generations=2)
        totals = reward([good, endless, other, good], [0, 0, 1, 1], prompts=["ignored"])
    assert totals == [rollout.reward.total for group in reward.groups for rollout in group.rollouts]
    assert [group.question_id for group in reward.groups] == ["rl-0", "rl-1"]
    assert [[one.equivalent for one in group.rollouts] for group in reward.groups] == [[True, False], [True, False]]
    assert totals[0] == totals[2] == 1.0
    assert [one.completion.finish for one in reward.groups[0].rollouts] == [Finish.STOP, Finish.LENGTH]
    assert reward.groups[0].rollouts[0].completion.text == right
    assert reward.seconds > 0


def test_unscored_is_none_and_not_zero(content: Content, model_folder: Path) -> None:
    policy, tasks = Policy(model_folder), tiny.tasks(content, 1)
    reward = grouped(tasks, policy, ScriptedJudge(tiny.in_turn(None, 1.0, 0.0, 1.0)))
    assert reward([[5], [6], [7], [8]], [0] * 4) == [None, 1.0, 0.0, 1.0]
    assert reward.groups[0].advantages[0] == 0.0
    assert reward.groups[0].mean == pytest.approx(2 / 3)


def test_a_group_has_the_hash_of_its_conditions_and_a_mixed_one_stops_the_run(
    content: Content, model_folder: Path
) -> None:
    policy, (one,) = Policy(model_folder), tiny.tasks(content, 1)
    judge: Any = ScriptedJudge(tiny.in_turn(1.0, 0.0))

    def hash_under(task: Task, sampling: str = "{}") -> str:
        reward = GroupJudge([task], judge, policy, tiny.style(), RULE, 2, sampling)
        reward([[5], [6]], [0, 0])
        return reward.groups[0].conditions_sha256

    other_rows = replace(one.database, instances=(replace(one.database.instances[0], sha256="0"),))
    same_question_other_prompt = replace(one, prompt=replace(one.prompt, text=f"{one.prompt.text} please"))
    variants = [replace(one, database=other_rows), same_question_other_prompt]
    hashes = [hash_under(one), hash_under(one, '{"temperature": 2}'), *map(hash_under, variants)]
    assert len(set(hashes)) == 4
    assert hash_under(one) == hashes[0]
    for variant, field in zip(variants, ("instances", "prompt"), strict=True):
        mixed = GroupJudge([one, variant], judge, policy, tiny.style(), RULE, 2)
        with pytest.raises(RunError, match=f"conditions.{field}: one group of question rl-0 mixes"):
            mixed([[5], [6]], [0, 1])


# ---- the rows that teach -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trainer(content: Content, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> DeclaredGRPOTrainer:
    policy, tasks = Policy(model_folder), tiny.tasks(content, 4)
    made = make_trainer(
        policy,
        tasks,
        grouped(tasks, policy, ScriptedJudge()),
        grpo_settings(questions_per_step=4),
        LIMITS,
        tmp_path_factory.mktemp("trainer"),
        seed=1,
    )
    made.model.train()
    made.current_gradient_accumulation_steps = 1  # the training loop sets it
    return made


@pytest.fixture(scope="module")
def block(trainer: DeclaredGRPOTrainer) -> dict[str, Any]:
    """TRL's output for four groups of four."""
    torch.manual_seed(4)
    rows = [row for row in trainer.train_dataset for _ in range(G)]
    return GRPOTrainer._generate_and_score_completions(trainer, rows)


def groups_of(*totals: tuple[float | None, ...]) -> list[Group]:
    return [
        make_group([tiny.make_rollout(f"rl-{number}", total) for total in group], RULE)
        for number, group in enumerate(totals)
    ]


RIGHT, WRONG = (1.0,) * G, (0.0,) * G
MIXED = groups_of(RIGHT, (1.0, 0.0, None, 0.5), WRONG, (0.0, 0.05, 0.0, 0.0))
TEACHING = [4, 5, 12, 13, 14, 15]  # 1.0, 0.0 around their mean 0.5; 0.5 and None move nothing


def teaching_rows(trainer: DeclaredGRPOTrainer, block: dict[str, Any], groups: list[Group]) -> dict[str, Any]:
    trainer._block = Sampled(1, groups)
    return trainer._teaching_rows(block, groups, range(len(groups)))


def test_exactly_the_rows_that_move_the_policy_stay(trainer: DeclaredGRPOTrainer, block: dict[str, Any]) -> None:
    kept = teaching_rows(trainer, dict(block), MIXED)
    assert kept["completion_ids"].equal(block["completion_ids"][TEACHING])
    assert kept["prompt_ids"].equal(block["prompt_ids"][TEACHING])
    declared = [value for group in MIXED for value in group.advantages]
    assert kept["advantages"].tolist() == pytest.approx([declared[row] for row in TEACHING])
    assert kept["tool_mask"].equal(torch.ones_like(kept["completion_mask"]))
    assert kept["num_items_in_batch"] == kept["completion_mask"].sum()


@pytest.mark.parametrize(("steps", "size"), [(1, 6), (4, 8), (5, 10), (16, 16)])
def test_fillers_make_equal_steps_and_carry_no_loss(
    trainer: DeclaredGRPOTrainer, block: dict[str, Any], monkeypatch: pytest.MonkeyPatch, steps: int, size: int
) -> None:
    monkeypatch.setattr(trainer.args, "steps_per_generation", steps)
    kept = teaching_rows(trainer, dict(block), MIXED)
    assert {len(value) for value in kept.values() if value.ndim} == {size}
    assert kept["tool_mask"].any(dim=1).tolist() == [True] * 6 + [False] * (size - 6)
    assert kept["num_items_in_batch"] == (kept["completion_mask"][:6]).sum()


def test_with_a_kl_penalty_every_scored_row_stays(
    trainer: DeclaredGRPOTrainer, block: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "beta", 0.1)
    kept = teaching_rows(trainer, dict(block), MIXED)
    assert kept["completion_ids"].equal(block["completion_ids"][[row for row in range(16) if row != 6]])


def gradients(trainer: DeclaredGRPOTrainer, inputs: dict[str, Any]) -> list[torch.Tensor]:
    trainer.model.zero_grad()
    trainer._compute_loss(trainer.model, inputs).backward()
    return [weight.grad.clone() for weight in trainer.model.parameters()]


@pytest.mark.parametrize("steps", [1, 4])
def test_leaving_rows_out_changes_no_gradient(
    trainer: DeclaredGRPOTrainer, block: dict[str, Any], monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The full block with the declared advantages, under the denominator of the kept rows, gives the same."""
    monkeypatch.setattr(trainer.args, "steps_per_generation", steps)
    kept = teaching_rows(trainer, dict(block), MIXED)
    declared = torch.tensor([value for group in MIXED for value in group.advantages])
    full = {**block, "advantages": declared, "num_items_in_batch": kept["num_items_in_batch"]}
    ours, theirs = gradients(trainer, kept), gradients(trainer, full)
    assert max(gradient.abs().max() for gradient in ours) > 0
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_plain_k3_clipping_and_entropy_are_means_over_the_tokens_of_each_completion(
    trainer: DeclaredGRPOTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worked by hand: k3 = exp(d) - d - 1 is 0 for d = 0 and e - 2 for d = 1; a ratio of e is clipped."""
    monkeypatch.setattr(trainer, "beta", 0.1)
    monkeypatch.setattr(trainer, "_metrics", {"train": defaultdict(list)})
    trainer._block = Sampled(1, groups_of((1.0, 0.0, 0.0, 0.0)))
    trainer._seen = torch.zeros(3, 2), torch.tensor([[1.0, 3.0], [5.0, 9.0], [7.0, 7.0]])
    trainer._measure(
        {
            "completion_mask": torch.tensor([[1, 1], [1, 0], [1, 1]]),
            "tool_mask": torch.tensor([[1, 1], [1, 1], [0, 0]]),  # the third is a filler
            "ref_per_token_logps": torch.tensor([[0.0, 1.0], [1.0, 5.0], [9.0, 9.0]]),
            "old_per_token_logps": torch.tensor([[-1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]),
            "advantages": torch.tensor([1.0, -1.0, 0.0]),
            "place": torch.tensor([[0, 0], [0, 1], [0, 2]]),
        }
    )
    told = trainer._block.updates
    assert told.keys() == {(0, 0), (0, 1)}
    k3 = math.e - 2
    assert [told[0, index].kl for index in (0, 1)] == pytest.approx([k3 / 2, k3])
    assert [told[0, index].clip_share for index in (0, 1)] == [0.5, 0.0]  # a loss does not clip where it may fall
    found = trainer._metrics["train"]
    assert found["kl_k3"] == pytest.approx([(k3 / 2 + k3) / 2])  # over tokens, as TRL means it: 2 / 3 of k3
    assert found["by/hardness/unknown/entropy"] == [(2.0 + 5.0) / 2]


@pytest.mark.parametrize(
    ("truncated", "rows", "first"),
    [
        ("count", [0, 1, 2, 3], 0.75),
        ("exclude_from_loss", [0, 1, 2], 0.75),
        ("exclude_from_statistics", [0, 1, 2], 2 / 3),
    ],
)
def test_completions_that_the_limit_cut_leave_loss_or_statistics_as_declared(
    trainer: DeclaredGRPOTrainer,
    block: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    truncated: Any,
    rows: list[int],
    first: float,
) -> None:
    rule = AdvantageRule("none", 0.0, truncated=truncated)
    monkeypatch.setattr(trainer.judge, "rule", rule)
    members = [tiny.make_rollout("rl-0", total) for total in (1.0, 0.0, 0.0, 0.0)]
    members[3] = replace(members[3], completion=replace(members[3].completion, finish=Finish.LENGTH))
    kept = teaching_rows(trainer, dict(block), [make_group(members, rule), *groups_of(RIGHT, RIGHT, RIGHT)])
    assert kept["completion_ids"].equal(block["completion_ids"][rows])
    assert kept["advantages"][0] == pytest.approx(first)
    assert kept["num_items_in_batch"] == kept["completion_mask"].sum()
    assert trainer._block.updates.keys() == {(0, index) for index in rows}


def test_a_block_that_teaches_nothing_has_no_gradient(trainer: DeclaredGRPOTrainer, block: dict[str, Any]) -> None:
    kept = teaching_rows(trainer, dict(block), groups_of(RIGHT, WRONG, (None,) * G, RIGHT))
    assert len(kept["completion_ids"]) == 1
    assert kept["num_items_in_batch"] == 1
    assert all((gradient == 0).all() for gradient in gradients(trainer, kept))


# ---- whole runs ----------------------------------------------------------------------------------------------


def run(
    content: Content,
    model_folder: Path,
    folder: Path,
    *,
    mark: Mark = tiny.by_chance,
    die_at: int = 0,
    dev: Any = None,
    **changes: Any,
) -> tuple[Policy, StageFolder, dict[str, Any]]:
    """Train; `die_at` is the sampled block at which the process ends before the block is logged."""
    settings = grpo_settings(**changes)
    policy, stage = Policy(model_folder), StageFolder(folder, 0.0)
    stage.start()

    def log(block: Sampled) -> None:
        if block.step == die_at:
            raise Killed
        path, lineage = part_path(folder / "rollouts", block.step), Lineage(run="tiny", stage="grpo")
        write_groups(path, block.groups, lineage, step=block.step, updates=block.updates)

    judge: Any = ScriptedJudge(mark)
    asked = tiny.tasks(content, tasks_needed(settings))
    check = dev or DevCheck(tiny.items(content, "dev"), tiny.style(), LIMITS, judge, seed=1)
    try:
        result = train(
            policy, tiny.style(), asked, settings, LIMITS, judge, stage, check, seed=7, log_block=log
        )  # fmt: skip
    except Killed:
        stage._lock.release()  # as the system does when a process ends
        raise
    return policy, stage, result


def test_weights_move_when_groups_teach_and_only_then(content: Content, model_folder: Path, tmp_path: Path) -> None:
    before = weights(Policy(model_folder).model)
    still, stage, _ = run(content, model_folder, tmp_path / "still", mark=tiny.in_turn(0.05), steps=2, save_every=2)
    assert same(before, weights(still.model))
    (first, *_) = stage.metrics()
    assert first["groups/all_wrong"] == 1.0
    moved, _, result = run(content, model_folder, tmp_path / "moved", mark=tiny.in_turn(1.0, 0.0, 0.05, 0.0), steps=2)
    assert not same(before, weights(moved.model))
    assert result["steps"] == 2


def numbers(stage: StageFolder) -> list[dict[str, Any]]:
    """The measurements that do not tell the time."""
    timed = ("_s", "time", "_runtime", "per_second")
    return [{key: value for key, value in row.items() if not key.endswith(timed)} for row in stage.metrics()]


@pytest.mark.parametrize(("steps_per_generation", "save_every"), [(1, 2), (2, 1)])
def test_a_killed_run_goes_on_as_if_it_had_not_been(
    content: Content, model_folder: Path, tmp_path: Path, steps_per_generation: int, save_every: int
) -> None:
    how = {"steps_per_generation": steps_per_generation, "save_every": save_every}
    whole, whole_stage, whole_result = run(content, model_folder, tmp_path / "whole", **how)
    with pytest.raises(Killed):
        run(content, model_folder, tmp_path / "killed", die_at=4 - (steps_per_generation == 2), **how)
    policy, stage, result = run(content, model_folder, tmp_path / "killed", **how)
    assert same(weights(whole.model), weights(policy.model))
    assert result == whole_result
    assert numbers(stage) == numbers(whole_stage)
    assert len([row for row in stage.metrics() if "loss" in row]) == 4
    logs = [read_rollouts(one.path / "rollouts") for one in (stage, whole_stage)]
    assert [row.raw for row in logs[0]] == [row.raw for row in logs[1]]
    assert sorted({row.step for row in logs[0]}) == list(range(1, 5, steps_per_generation))
    assert len(logs[0]) == 4 * 2 * G
    assert not (stage.path / "trainer").exists()
    loaded = Policy(stage.path / "checkpoint")
    assert result["best_step"] in (2, 4)
    if result["best_step"] == 4:
        assert same(weights(loaded.model), weights(policy.model))


def test_the_best_on_dev_is_kept(content: Content, model_folder: Path, tmp_path: Path) -> None:
    dev = FakeDev([0.5, 0.75, 0.25, 0.75])
    policy, stage, result = run(content, model_folder, tmp_path / "run", dev=dev, save_every=1)
    assert (result["dev_accuracy"], result["best_step"]) == (0.75, 2)
    assert same(weights(Policy(stage.path / "checkpoint").model), dev.seen[1])
    assert not same(dev.seen[1], weights(policy.model))


def test_metrics_tell_what_the_groups_were(content: Content, model_folder: Path, tmp_path: Path) -> None:
    _, stage, _ = run(content, model_folder, tmp_path / "run", steps=1, save_every=1)
    row = next(row for row in stage.metrics() if "loss" in row)
    logged = read_rollouts(stage.path / "rollouts")
    assert sum(row[f"groups/{kind.value}"] for kind in GroupKind) == pytest.approx(1.0)
    assert row["accuracy"] == sum(one.equivalent for one in logged) / len(logged)
    assert row["causes/wrong"] == sum(one.cause == "wrong" for one in logged) / len(logged)
    assert row["reward"] == pytest.approx(sum(one.total or 0.0 for one in logged) / len(logged))
    assert row["judge_s"] >= 0
    assert row["sample_s"] > 0


def test_metrics_and_log_tell_kl_clipping_and_rewards_by_bucket(
    content: Content, model_folder: Path, tmp_path: Path
) -> None:
    _, stage, _ = run(content, model_folder, tmp_path / "run", beta=0.1, steps=4, steps_per_generation=2)
    rows = [row for row in stage.metrics() if "loss" in row]
    logged = read_rollouts(stage.path / "rollouts")
    for row in (rows[0], rows[2]):  # the steps that sampled
        block = [one for one in logged if one.step == row["step"]]
        buckets = [key for key in row if key.startswith("by/kind/") and key.endswith("/reward")]
        assert {key.split("/")[2] for key in buckets} == {one.group_kind for one in block}
        (hardness,) = [key for key in row if key.startswith("by/hardness/") and key.endswith("/reward")]
        assert row[hardness] == pytest.approx(row["reward"])
        lengths = {key.split("/")[2] for key in row if key.startswith("by/length/")}
        assert ("cut" in lengths) is any(one.finish == "length" for one in block)
    measured = [one for one in logged if one.in_loss]
    assert 0 < len(measured) <= len(logged)
    assert all((one.kl is not None) is (one.clip_share is not None) is bool(one.in_loss) for one in logged)
    assert rows[-1]["kl_k3"] > 0


@pytest.mark.parametrize("changes", [{"aggregation": "grpo"}, {"aggregation": "dr_grpo"}, {"beta": 0.1}])
def test_micro_batches_make_the_same_update(
    content: Content, model_folder: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    steps = {}
    for size in (None, 2):
        how = {"mark": tiny.by_chance, "steps": 2, "save_every": 2, "micro_batch": size, **changes}
        _, stage, _ = run(content, model_folder, tmp_path / str(size), **how)
        steps[size] = [row for row in stage.metrics() if "loss" in row]
    assert len(steps[None]) == len(steps[2]) == 2
    assert all(row["grad_norm"] > 0 for row in steps[None])
    for whole, parts in zip(steps[None], steps[2], strict=True):
        assert parts["grad_norm"] == pytest.approx(whole["grad_norm"], rel=1e-4)
        assert parts["reward"] == whole["reward"]


def test_completions_that_do_not_go_into_micro_batches_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="the 8 completions of a step do not go into parts of 3"):
        grpo_settings(micro_batch=3)
    settings = grpo_settings(questions_per_step=6, micro_batch=8)
    assert arguments(settings, LIMITS, "unused", 1).gradient_accumulation_steps == 3
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"grpo\.micro_batch: 12 completions.* parts of 8"):
        arguments(settings, LIMITS, "unused", 1)


def test_a_kl_penalty_is_to_the_policy_it_started_from(content: Content, model_folder: Path, tmp_path: Path) -> None:
    mark = tiny.in_turn(1.0, 0.0, 0.05, 0.0)
    _, stage, _ = run(content, model_folder, tmp_path / "run", mark=mark, beta=0.1, steps=3, learning_rate=0.05)
    penalties = [row["kl"] for row in stage.metrics() if "kl" in row]
    assert penalties[:2] == [0.0, 0.0]  # the rate rises from 0, so the first step moves nothing
    assert penalties[2] > 0


def test_weights_that_blow_up_are_one_clear_error(content: Content, model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="Lower the learning rate"):
        run(content, model_folder, tmp_path / "run", learning_rate=1e30, dev=FakeDev([0.0] * 4))
    assert not (tmp_path / "run" / "done.json").exists()

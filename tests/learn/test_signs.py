"""Early signs: each is told where it shows, nothing is told of a healthy run, and files alone decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.inspection.logged_run import log_kinds
from text2sql_rl.learn.signs import Signs, Step, count, tell, tell_forgetting, tell_jump
from text2sql_rl.rollout_log import read_rollouts

HEALTHY = Step(groups=10, lost=0, still=4, rollouts=80, formed=78, faults=Counter(), reward=0.4)
DEV = (0.5, 0.52)


def run(first: Step = HEALTHY, last: Step = HEALTHY, steps: int = 20) -> list[Step]:
    return [first if step < steps // 2 else last for step in range(steps)]


def told(steps: Sequence[Step], dev: Sequence[float] = DEV) -> list[str]:
    return list(tell(steps, dev))


def test_a_healthy_run_has_no_sign() -> None:
    assert told(run(last=replace(HEALTHY, reward=0.6, lost=1))) == []
    assert told([]) == []


def test_a_form_that_gets_lost_sends_back_to_sft() -> None:
    (sign,) = told(run(last=replace(HEALTHY, lost=3)))
    assert sign.startswith("In 30 % of the groups nobody gives one whole SQL answer (0 % at the start)")
    assert "Go back to SFT" in sign
    assert told(run(first=replace(HEALTHY, lost=3), last=replace(HEALTHY, lost=3))) == []  # not rising
    assert told(run(last=replace(HEALTHY, lost=3), steps=9)) == []  # too few steps to call it a trend


def test_a_form_that_begins_to_get_lost_is_told_before_whole_groups_lose_it() -> None:
    (sign,) = told(run(last=replace(HEALTHY, formed=73)))
    assert sign.startswith("91 % of the completions hold one whole SQL answer, 98 % at the start")
    assert told(run(last=replace(HEALTHY, formed=75))) == []
    assert len(told(run(last=replace(HEALTHY, formed=40, lost=3)))) == 1  # the graver one only


def test_accuracy_on_what_was_fine_tuned_is_not_to_fall() -> None:
    (sign,) = tell_forgetting([0.8, 0.9, 0.77])
    assert sign.startswith("Accuracy on questions of SFT fell from 80.0 % to 77.0 %")
    assert list(tell_forgetting([0.8, 0.79])) == list(tell_forgetting([0.8])) == list(tell_forgetting([])) == []


def kl_rows(easy: tuple[float, float], hard: tuple[float, float], steps: int = 20) -> list[dict[str, float]]:
    """KL of two buckets, before and in the last tenth."""
    return [
        {"step": step, "loss": 0.0, "by/hardness/easy/kl_k3": easy[late], "by/hardness/hard/kl_k3": hard[late]}
        for step in range(1, steps + 1)
        for late in (int(step > 0.9 * steps),)
    ]


def test_a_jump_of_kl_in_one_bucket_is_a_sign() -> None:
    (sign,) = tell_jump(kl_rows(easy=(0.1, 0.12), hard=(0.1, 0.3)))
    assert sign.startswith("KL to the start went from 0.10 to 0.30 among completions of hardness hard")
    assert list(tell_jump(kl_rows(easy=(0.1, 0.12), hard=(0.1, 0.19)))) == []
    assert list(tell_jump(kl_rows(easy=(0.001, 0.04), hard=(0.0, 0.0)))) == []  # still small
    assert list(tell_jump(kl_rows(easy=(0.1, 9.0), hard=(0.1, 9.0), steps=9))) == []
    assert list(tell_jump([{"step": step, "loss": 0.0} for step in range(20)])) == []


def test_faults_say_fix_the_environment_from_the_first_step_on() -> None:
    faulty = replace(HEALTHY, faults=Counter({"the worker died": 3, "the gold timed out": 1}))
    expected = "5 % of the rollouts could not be judged, most often: the worker died. Fix the environment."
    assert told([faulty]) == told(run(last=faulty)) == [expected]
    assert told([replace(HEALTHY, faults=Counter({"the worker died": 1}))]) == []


@pytest.mark.parametrize(("dev", "signs"), [((0.5, 0.5), 1), ((0.5, 0.4), 1), ((0.5, 0.51), 0), ((0.5,), 0), ((), 0)])
def test_a_reward_that_rises_alone_is_a_sign(dev: tuple[float, ...], signs: int) -> None:
    found = told(run(last=replace(HEALTHY, reward=0.6)), dev)
    assert len(found) == signs
    assert all("rose by 0.20 while dev accuracy went from 50.0 % to" in sign for sign in found)
    assert told(run(last=replace(HEALTHY, reward=0.44)), dev) == []


def test_too_many_groups_without_a_gradient_are_a_sign() -> None:
    (sign,) = told(run(last=replace(HEALTHY, still=7)))
    assert sign.startswith("70 % of the groups of the last 2 steps have equal rewards")
    assert told(run(last=replace(HEALTHY, still=6))) == []


def test_a_step_is_counted_from_its_rollouts(tmp_path: Path) -> None:
    folder = log_kinds(tmp_path).stage("grpo").path / "rollouts"
    first, second = (count(read_rollouts(part)) for part in sorted(folder.glob("*.parquet")))
    # one-right, shaped, solved, broken; the last has three rollouts that could not be judged.
    assert (first.groups, first.still, first.lost, first.rollouts, first.formed) == (4, 1, 0, 16, 11)
    assert first.faults == {"no worker": 3}
    assert first.reward == pytest.approx((1 + 0.05 + 4 + 1) / 13)
    assert (second.still, second.faults) == (1, {})
    rows = [replace(row, group_kind="all_wrong", group_cause="truncated") for row in read_rollouts(folder)]
    assert count(rows).lost == 8


def test_a_look_is_logged_when_it_is_due(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = log_kinds(tmp_path).stage("grpo")
    (stage.path / "alarms.jsonl").write_text('{"step": 1}\n')
    signs = Signs(stage, every=2)
    for step in (1, 2, 3, 4):
        signs.after(step)
    assert [record.message.partition(":")[0] for record in caplog.records] == ["step 2", "step 4"]


def test_signs_come_from_the_files_of_the_stage_up_to_a_step(tmp_path: Path) -> None:
    stage = log_kinds(tmp_path).stage("grpo")
    assert Signs(stage, every=1).now(1) == [
        "19 % of the rollouts could not be judged, most often: no worker. Fix the environment."
    ]
    assert Signs(stage, every=1).now(2) == []
    (stage.path / "alarms.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    assert Signs(stage, every=1).now(2) == [
        "2 known-wrong answers were paid. Do not trust the reward before alarms.jsonl is understood."
    ]

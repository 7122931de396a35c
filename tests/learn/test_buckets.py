"""Buckets: which a completion is in, and means by hand. No torch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.learn.test_reserve import group
from text2sql_rl.learn.buckets import Buckets, means
from text2sql_rl.records import Finish, Group, Item, Reward, Rollout

BUCKETS = Buckets({"q1": "easy", "q2": "hard"}, longest=8)


def rollout(one: Rollout, tokens: int, total: float | None, right: float, finish: Finish = Finish.STOP) -> Rollout:
    items = (
        Item(name="correct", kind="component", value=right, weight=0.9, points=0.9 * right, why=""),
        Item(name="empty", kind="penalty", value=1.0, weight=0.1, points=-0.1, why=""),
    )
    said = replace(one.completion, tokens=tokens, finish=finish)
    return replace(one, completion=said, reward=Reward(total=total, items=items if total is not None else ()))


def example() -> list[Group]:
    first, second = group("q1", True, False), group("q2", None, False)
    return [
        replace(
            first, rollouts=(rollout(first.rollouts[0], 2, 1.0, 1.0), rollout(first.rollouts[1], 8, 0.25, 0.0))
        ),
        replace(
            second,
            rollouts=(
                rollout(second.rollouts[0], 8, None, 0.0, Finish.LENGTH),
                rollout(second.rollouts[1], 3, 0.0, 0.0),
            ),
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tokens", "finish", "bucket"),
    [
        (1, Finish.STOP, "to-quarter"),
        (2, Finish.STOP, "to-quarter"),
        (3, Finish.STOP, "to-half"),
        (8, Finish.STOP, "to-limit"),
        (8, Finish.LENGTH, "cut"),
    ],
)
def test_a_completion_is_in_three_buckets(tokens: int, finish: Finish, bucket: str) -> None:
    one = group("q1", True, False)
    found = BUCKETS.of(one, rollout(one.rollouts[0], tokens, 1.0, 1.0, finish))
    assert found == ("hardness/easy", f"length/{bucket}", "kind/informative")
    assert BUCKETS.of(replace(one, question_id="other"), one.rollouts[0])[0] == "hardness/unknown"


def test_rewards_and_components_by_bucket_worked_by_hand() -> None:
    told = BUCKETS.of_rewards(example())
    assert told["components/correct"] == pytest.approx(1 / 3)
    assert told["by/hardness/easy/reward"] == 0.625
    assert told["by/hardness/hard/reward"] == 0.0  # the unscored one is no zero
    assert told["by/hardness/hard/tokens"] == 5.5
    assert told["by/length/to-quarter/correct"] == 1.0
    assert told["by/kind/informative/correct"] == 0.5
    assert "by/length/cut/reward" not in told
    assert told["by/length/cut/tokens"] == 8.0
    assert not any("empty" in name for name in told)


def test_no_completions_have_no_means() -> None:
    assert BUCKETS.of_rewards([]) == {}
    assert dict(means([])) == {}

"""Groups: worked examples, properties of advantages, and refused mixtures."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.errors import ConfigError, RunError
from text2sql_rl.group import (
    AdvantageRule,
    Scale,
    Truncated,
    advantages,
    describe,
    describe_truncated,
    in_loss,
    make_group,
    over_step,
    step_spread,
)
from text2sql_rl.records import Candidate, Completion, Conditions, Finish, GroupKind, Reward, Rollout

SCALES: tuple[Scale, ...] = ("population", "sample", "batch", "none", "leave_one_out")
CONDITIONS = Conditions(prompt="p", instances="i", limits="l", rule="s", sampling="{}")


def rollout(total: float | None, cause: str = "wrong", question: str = "q1") -> Rollout:
    return Rollout(
        question_id=question,
        database="db",
        completion=Completion(question_id=question, text="", raw="", finish=Finish.STOP, tokens=1),
        candidate=Candidate(sql="SELECT 1", answers=1),
        execution=None,
        verdict=None,
        reward=Reward(total=total, unscored="" if total is not None else "fault", rule="r-v1", rule_sha256="s"),
        cause=cause,
        equivalent=cause == "equivalent",
        gold_rows=1,
        rows=1,
    )


@pytest.mark.parametrize(
    ("scale", "rewards", "expected"),
    [
        ("population", (1, 1, 0, 0), (1, 1, -1, -1)),
        ("none", (1, 1, 0, 0), (0.5, 0.5, -0.5, -0.5)),
        ("sample", (1, 1, 0, 0), (0.8660254, 0.8660254, -0.8660254, -0.8660254)),
        ("batch", (1, 1, 0, 0), (0.8660254, 0.8660254, -0.8660254, -0.8660254)),
        ("leave_one_out", (1, 1, 0, 0), (2 / 3, 2 / 3, -2 / 3, -2 / 3)),
        ("population", (1, 0, 0, 0), (1.7320508, -0.5773503, -0.5773503, -0.5773503)),
        ("leave_one_out", (1, 0, 0, 0), (1, -1 / 3, -1 / 3, -1 / 3)),
        ("population", (1, 1, 1), (0, 0, 0)),
        ("population", (1, None, 0), (1, 0, -1)),
        ("population", (None, 1, None), (0, 0, 0)),
        ("population", (None, None), (0, 0)),
        ("population", (), ()),
    ],
)
def test_worked_examples(scale: Scale, rewards: tuple[float | None, ...], expected: tuple[float, ...]) -> None:
    assert advantages(rewards, AdvantageRule(scale, floor=0.0)) == pytest.approx(expected)


def test_batch_divides_by_the_deviation_of_the_whole_step() -> None:
    """Rewards 1, 0, 0, 0 and 1, 1, 1, unscored: mean 4/7, squares 12/7, and S = sqrt(12/7 / 6) = sqrt(2/7)."""
    rule = AdvantageRule("batch", floor=0.0)
    one = make_group([rollout(1.0, "equivalent"), *[rollout(0.0)] * 3], rule)
    other = make_group([*[rollout(1.0, "equivalent")] * 3, rollout(None, "unscored")], rule)
    assert step_spread([one, other], rule) == pytest.approx(math.sqrt(2 / 7))
    first, second = over_step([one, other], rule)
    assert first.advantages == pytest.approx((1.4031215, -0.4677072, -0.4677072, -0.4677072))
    assert second.advantages == (0.0,) * 4  # equal rewards, whatever the others did
    assert replace(first, advantages=one.advantages) == one
    assert over_step([one], rule) == [one]
    assert make_group(one.rollouts, rule, step_spread=math.sqrt(2 / 7)).advantages == pytest.approx(first.advantages)
    for scale in SCALES:
        if scale != "batch":
            alone = [make_group(group.rollouts, AdvantageRule(scale)) for group in (one, other)]
            assert over_step(alone, AdvantageRule(scale)) == alone


def test_in_a_step_where_nobody_is_right_the_floor_keeps_shaping_small() -> None:
    rule = AdvantageRule("batch", floor=0.25)
    groups = [make_group([rollout(0.05, "near"), rollout(0.0), rollout(0.0)], rule) for _ in range(4)]
    assert over_step(groups, rule)[0].advantages[0] == pytest.approx((0.05 - 0.05 / 3) / 0.25)


def test_the_floor_keeps_a_shaping_difference_small() -> None:
    shaping = (0.05, 0.0, 0.0, 0.0)
    assert advantages(shaping, AdvantageRule(floor=0.0))[0] == pytest.approx(1.7320508)
    assert advantages(shaping, AdvantageRule(floor=0.25))[0] == pytest.approx(0.0375 / 0.25)
    assert advantages((1.0, 0.0), AdvantageRule(floor=0.25)) == advantages((1.0, 0.0), AdvantageRule(floor=0.0))
    assert advantages((1.0, 0.0), AdvantageRule(floor=0.0, epsilon=0.5)) == (0.5, -0.5)


rewards_lists = st.lists(st.none() | st.floats(min_value=-2, max_value=2), min_size=2, max_size=12)
rules = st.builds(AdvantageRule, st.sampled_from(SCALES), st.sampled_from((0.01, 0.25)), st.sampled_from((0.0, 1e-4)))


@given(rewards_lists, rules)
@settings(max_examples=100, deadline=None)
def test_advantages_sum_to_zero_and_keep_the_order(rewards: list[float | None], rule: AdvantageRule) -> None:
    values = advantages(rewards, rule)
    assert len(values) == len(rewards)
    assert math.fsum(values) == pytest.approx(0.0, abs=1e-9)
    scored = [(reward, value) for reward, value in zip(rewards, values, strict=True) if reward is not None]
    assert all(value == 0.0 for reward, value in zip(rewards, values, strict=True) if reward is None)
    by_reward = [value for _, value in sorted(scored)]
    assert by_reward == sorted(by_reward)


@given(st.lists(st.integers(min_value=-64, max_value=64), min_size=2, max_size=12), rules, st.integers(-8, 8))
@settings(max_examples=100, deadline=None)
def test_a_constant_shift_changes_nothing(parts: list[int], rule: AdvantageRule, shift: int) -> None:
    rewards = [part / 64 for part in parts]
    shifted = advantages([reward + shift for reward in rewards], rule)
    assert shifted == pytest.approx(advantages(rewards, rule), abs=1e-9)


@given(st.floats(min_value=-2, max_value=2), st.integers(min_value=1, max_value=12), rules)
@settings(max_examples=60, deadline=None)
def test_equal_rewards_give_exactly_zero(reward: float, count: int, rule: AdvantageRule) -> None:
    assert advantages([reward] * count, rule) == (0.0,) * count


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("noise", [5e-10, 1e-12, 2**-53])
def test_rewards_that_only_rounding_tells_apart_give_exactly_zero(scale: Scale, noise: float) -> None:
    rule = AdvantageRule(scale, floor=0.0)
    assert 0.1 + 0.2 != 0.3
    assert advantages((0.1 + 0.2, 0.3, 0.3, 0.3), rule) == (0.0,) * 4
    assert advantages((0.05 + noise / 2, 0.05, None, 0.05 - noise / 2), rule) == (0.0,) * 4
    group = make_group([rollout(0.05 + noise, "near"), rollout(0.05), rollout(0.05)], rule)
    assert (group.kind, group.spread, group.advantages) == (GroupKind.ALL_WRONG, 0.0, (0.0,) * 3)
    both = make_group([rollout(1.0, "equivalent"), rollout(1.0 - noise)], rule)
    assert (both.kind, both.advantages) == (GroupKind.LOW_SPREAD, (0.0, 0.0))


@pytest.mark.parametrize("floor", [0.0, 0.01])
def test_a_difference_that_a_rule_makes_is_no_rounding(floor: float) -> None:
    assert advantages((0.001, 0.0), AdvantageRule(floor=floor)) == pytest.approx(
        (1.0, -1.0) if not floor else (0.05, -0.05)
    )


@pytest.mark.parametrize("reward", [1.0, 100.0])
@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_one_outlier_is_bounded_as_declared(reward: float, size: int) -> None:
    rewards = (reward, *(0.0,) * (size - 1))
    # What the formulas give for one reward r among zeros: the two normalised ones do not depend on r.
    bounds = {
        "population": math.sqrt(size - 1),
        "sample": (size - 1) / math.sqrt(size),
        "batch": (size - 1) / math.sqrt(size),
        "none": reward * (size - 1) / size,
        "leave_one_out": reward,
    }
    for scale, bound in bounds.items():
        assert advantages(rewards, AdvantageRule(scale, floor=0.0))[0] == pytest.approx(bound)  # type: ignore[arg-type]


@given(rewards_lists, st.sampled_from((0.0, 0.25)))
@settings(max_examples=100, deadline=None)
def test_no_advantage_is_larger_than_its_scale_allows(rewards: list[float | None], floor: float) -> None:
    scored = [reward for reward in rewards if reward is not None]
    size, width = max(2, len(scored)), (max(scored) - min(scored) if scored else 0.0)
    bounds = {
        "population": math.sqrt(size - 1),
        "sample": (size - 1) / math.sqrt(size),
        "batch": (size - 1) / math.sqrt(size),
        "none": width * (size - 1) / size,
        "leave_one_out": width,
    }
    for scale, bound in bounds.items():
        values = advantages(rewards, AdvantageRule(scale, floor=floor))  # type: ignore[arg-type]
        assert max(map(abs, values)) <= bound * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize(
    ("rollouts", "kind", "cause"),
    [
        ([rollout(1.0, "equivalent"), rollout(0.0)], GroupKind.INFORMATIVE, ""),
        ([rollout(1.0, "equivalent"), rollout(0.9, "equivalent")], GroupKind.ALL_CORRECT, ""),
        ([rollout(0.05, "near"), rollout(0.0), rollout(-0.05, "error"), rollout(-0.05, "error")], "all_wrong", "error"),
        ([rollout(0.0), rollout(-0.05, "error")], GroupKind.ALL_WRONG, "error"),
        ([rollout(1.0, "equivalent"), rollout(1.0)], GroupKind.LOW_SPREAD, ""),
        ([rollout(1.0, "equivalent"), rollout(0.9)], GroupKind.LOW_SPREAD, ""),
        ([rollout(1.0, "equivalent"), rollout(None, "unscored")], GroupKind.UNSCORED, ""),
        ([rollout(None, "unscored")] * 2, GroupKind.UNSCORED, ""),
        ([rollout(1.0, "equivalent"), rollout(0.0), rollout(None, "unscored")], GroupKind.INFORMATIVE, ""),
        ([rollout(1.0, "equivalent")] + [rollout(0.0)] * 15, GroupKind.INFORMATIVE, ""),
    ],
)
def test_kinds_and_main_cause(rollouts: list[Rollout], kind: str, cause: str) -> None:
    group = make_group(rollouts, AdvantageRule())
    assert (group.kind, group.cause) == (kind, cause)
    assert group.rollouts == tuple(rollouts)
    assert group.advantages == advantages([one.reward.total for one in rollouts], AdvantageRule())


def test_statistics_are_those_of_the_scored_rollouts() -> None:
    rollouts = [rollout(1.0, "equivalent"), rollout(0.0), rollout(None, "unscored")]
    population = make_group(rollouts, AdvantageRule("population"))
    sample = make_group(rollouts, AdvantageRule("sample"))
    assert (population.mean, population.spread) == (0.5, 0.5)
    assert sample.spread == pytest.approx(math.sqrt(0.5))


def test_mixtures_are_refused_by_name() -> None:
    one, other = rollout(1.0, "equivalent"), rollout(0.0)
    elsewhere = replace(other, database="other")
    ruled = replace(other, reward=replace(other.reward, rule_sha256="t"))
    for second, field in ((rollout(0.0, question="q2"), "question_id"), (elsewhere, "database"), (ruled, "rule_sha")):
        with pytest.raises(RunError, match=field):
            make_group([one, second], AdvantageRule())
    with pytest.raises(RunError, match="conditions: 1 conditions for 2 rollouts"):
        make_group([one, other], AdvantageRule(), [CONDITIONS])
    with pytest.raises(RunError, match="without rollouts"):
        make_group([], AdvantageRule())
    group = make_group([one, other], AdvantageRule(), [CONDITIONS] * 2)
    assert (group.kind, group.conditions_sha256) == (GroupKind.INFORMATIVE, CONDITIONS.sha256)
    assert make_group([one, other], AdvantageRule()).conditions_sha256 == ""


@pytest.mark.parametrize("name", ["prompt", "instances", "limits", "rule", "sampling"])
def test_a_group_under_two_conditions_is_refused_and_they_have_two_hashes(name: str) -> None:
    changed = replace(CONDITIONS, **{name: "other"})
    assert changed.sha256 != CONDITIONS.sha256
    with pytest.raises(RunError, match=f"conditions.{name}: one group of question q1 mixes"):
        make_group([rollout(1.0, "equivalent"), rollout(0.0)], AdvantageRule(), [CONDITIONS, changed])


# ---- completions that the token limit cut --------------------------------------------------------------------


def cut(total: float | None, cause: str = "truncated") -> Rollout:
    whole = rollout(total, cause)
    return replace(whole, completion=replace(whole.completion, finish=Finish.LENGTH))


@pytest.mark.parametrize(
    ("truncated", "mean", "expected", "may_move"),
    [
        ("count", 0.25, (0.75, -0.25, -0.25, -0.25), (True, True, True, True)),
        ("exclude_from_loss", 0.25, (0.75, -0.25, -0.25, -0.25), (True, True, False, False)),
        ("exclude_from_statistics", 0.5, (0.5, -0.5, 0.0, 0.0), (True, True, False, False)),
    ],
)
def test_cut_completions_are_treated_as_declared(
    truncated: Truncated, mean: float, expected: tuple[float, ...], may_move: tuple[bool, ...]
) -> None:
    rule = AdvantageRule("none", 0.0, truncated=truncated)
    group = make_group([rollout(1.0, "equivalent"), rollout(0.0), cut(0.0), cut(0.0)], rule)
    assert group.mean == mean
    assert group.advantages == pytest.approx(expected)
    assert tuple(in_loss(one, rule) for one in group.rollouts) == may_move
    assert group.kind is GroupKind.INFORMATIVE
    assert describe_truncated(rule).startswith("a completion cut at the token limit")
    assert (describe_truncated(rule) in describe(rule)) is (truncated != "count")


@pytest.mark.parametrize(
    ("rollouts", "kind", "cause"),
    [
        ([cut(0.0), cut(0.0), rollout(0.0)], GroupKind.ALL_WRONG, "truncated"),
        ([cut(0.0), cut(0.0), rollout(1.0, "equivalent")], GroupKind.LOW_SPREAD, ""),
        ([cut(None, "unscored"), cut(None, "unscored"), rollout(0.0)], GroupKind.UNSCORED, ""),
    ],
)
def test_a_group_that_is_nearly_all_cut_is_no_fault_of_the_environment(
    rollouts: list[Rollout], kind: GroupKind, cause: str
) -> None:
    group = make_group(rollouts, AdvantageRule(truncated="exclude_from_statistics"))
    assert (group.kind, group.cause) == (kind, cause)
    assert group.advantages == (0.0, 0.0, 0.0)


def test_wrong_settings_and_rewards_are_refused() -> None:
    with pytest.raises(ConfigError, match="scale"):
        AdvantageRule("std")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"advantage.truncated: unknown truncated 'punish'"):
        AdvantageRule(truncated="punish")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="floor"):
        AdvantageRule(floor=-0.1)
    with pytest.raises(ConfigError, match="epsilon"):
        AdvantageRule(epsilon=math.nan)
    with pytest.raises(RunError, match="finite"):
        advantages([1.0, math.nan], AdvantageRule())


def test_each_definition_has_its_words() -> None:
    assert [describe(AdvantageRule(scale, floor=0.25)) for scale in SCALES] == [
        "(reward - group mean) / population standard deviation, the divisor at least 0.25",
        "(reward - group mean) / sample standard deviation, the divisor at least 0.25",
        "(reward - group mean) / sample standard deviation over all rollouts of the step, the divisor at least 0.25",
        "reward - group mean, not divided",
        "reward - mean of the group's other rewards",
    ]
    assert describe(AdvantageRule(floor=0.1, epsilon=0.0001)).endswith("the divisor at least 0.1 + 0.0001")


@pytest.mark.parametrize("scale", SCALES)
def test_the_definition_in_words_names_what_divides(scale: Scale) -> None:
    words = describe(AdvantageRule(scale, floor=0.25))
    assert ("0.25" in words) is (scale in ("population", "sample", "batch"))

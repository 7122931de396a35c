"""Statistics: closed forms, published values, and what the intervals promise, by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from text2sql_rl.statistics import (
    Interval,
    bootstrap_difference,
    bootstrap_mean,
    compare_pairs,
    design_effect,
    mcnemar,
    median_and_range,
    pass_at_k,
    quantiles,
    questions_for_margin,
    questions_to_see,
    wilson,
)

counts = st.integers(0, 300)


# ---- golden ------------------------------------------------------------------------------------------------


def test_wilson_gives_the_values_of_newcombe_1998() -> None:
    # Newcombe 1998, Statistics in Medicine 17, table I, method 3.
    for passed, scored, low, high in [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
                                      (1, 29, 0.0061, 0.1718)]:  # fmt: skip
        interval = wilson(passed, scored)
        assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_mcnemar_by_hand() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(0, 5) == 2 / 32
    assert mcnemar(1, 5) == 2 * (1 + 6) / 64
    assert mcnemar(4, 4) == 1.0


def test_mcnemar_never_leaves_the_range_of_a_float() -> None:
    assert mcnemar(0, 1_000) == pytest.approx(2.0**-999, rel=1e-12)
    assert mcnemar(5_000, 5_000) == 1.0


def test_pass_at_k_by_hand() -> None:
    assert pass_at_k(4, 2, 1) == 0.5
    assert pass_at_k(4, 2, 2) == pytest.approx(1 - 1 / 6)
    assert pass_at_k(8, 0, 8) == 0.0
    assert pass_at_k(8, 1, 8) == 1.0


def test_a_pair_of_policies() -> None:
    pair = compare_pairs([True, False, False, False], [True, True, True, False], list("aabb"), seed=1)
    assert (pair.questions, pair.only_first, pair.only_second, pair.difference) == (4, 0, 2, 0.5)
    assert pair.p == 0.5
    assert pair.ci95 == Interval(0.5, 0.5)  # both databases gain a half


def test_median_and_range() -> None:
    middle, spread = median_and_range([float(value) for value in range(11)])
    assert (middle, spread.low, spread.high) == (5.0, 1.0, 9.0)


# ---- properties --------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(counts, counts)
def test_mcnemar_is_the_binomial_test(first: int, second: int) -> None:
    expected = stats.binomtest(first, first + second, 0.5).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(float(expected), rel=1e-9, abs=1e-300)
    assert mcnemar(first, second) == mcnemar(second, first)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys_and_holds_the_share(pair: tuple[int, int]) -> None:
    passed, scored = pair
    interval = wilson(passed, scored)
    expected = stats.binomtest(passed, scored).proportion_ci(method="wilson")
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= interval.low <= passed / scored <= interval.high <= 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_all_choices_with_a_correct_one(case: tuple[int, int, int]) -> None:
    samples, correct, k = case
    choices = list(itertools.combinations(range(samples), k))
    right = sum(any(one < correct for one in choice) for choice in choices)
    assert pass_at_k(samples, correct, k) == pytest.approx(right / len(choices))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd")), min_size=1, max_size=30), st.integers(0, 9))
def test_the_bootstrap_repeats_and_stays_between_the_worst_and_the_best_database(
    rows: list[tuple[bool, str]], seed: int
) -> None:
    values, names = [value for value, _ in rows], [name for _, name in rows]
    interval = bootstrap_mean(values, names, seed=seed, draws=200)
    assert interval == bootstrap_mean(values, names, seed=seed, draws=200)
    means = [np.mean([v for v, n in rows if n == name]) for name in set(names)]
    assert min(means) - 1e-12 <= interval.low <= interval.high <= max(means) + 1e-12


# ---- what the intervals promise ----------------------------------------------------------------------------


def test_the_cluster_bootstrap_covers_where_wilson_does_not() -> None:
    """Databases of different difficulty: question-level intervals are too narrow, database-level ones hold."""
    rng = np.random.default_rng(3)
    names = [f"d{number}" for number in range(30) for _ in range(40)]
    covered = {"bootstrap": 0, "wilson": 0}
    rounds = 200
    for seed in range(rounds):
        shares = rng.beta(3.5, 1.5, size=30)  # mean 0.7
        right = rng.random(1200) < np.repeat(shares, 40)
        boot, flat = bootstrap_mean(right.tolist(), names, seed=seed, draws=400), wilson(int(right.sum()), 1200)
        covered["bootstrap"] += boot.low <= 0.7 <= boot.high
        covered["wilson"] += flat.low <= 0.7 <= flat.high
    assert covered["bootstrap"] / rounds > 0.88
    assert covered["wilson"] / rounds < 0.75


def test_pairing_cancels_what_two_policies_share() -> None:
    rng = np.random.default_rng(5)
    names = [f"d{number}" for number in range(12) for _ in range(50)]
    hard = np.repeat(rng.random(12), 50)
    first = rng.random(600) < hard
    second = first | (rng.random(600) < 0.05)
    paired = bootstrap_difference(first.tolist(), second.tolist(), names, seed=0)
    alone = bootstrap_mean(first.tolist(), names, seed=0)
    assert paired.low > 0
    assert paired.high - paired.low < (alone.high - alone.low) / 3


# ---- how many questions are needed ---------------------------------------------------------------------------


def test_questions_needed_by_hand() -> None:
    assert questions_for_margin(0.5, 0.01) == 9604  # the textbook's number
    assert questions_for_margin(0.5, 0.01, effect=2.0) == 19208
    # Connor's formula in numbers: (1.96 sqrt(0.1) + 0.8416 sqrt(0.1 - 0.01^2))^2 / 0.01^2
    assert questions_to_see(0.1, 0.01) == pytest.approx(7846, abs=1)
    assert questions_to_see(0.0, 0.01) == questions_to_see(0.01, 0.01)
    assert quantiles([1.0, 2.0, 3.0], (0.0, 0.5)) == (1.0, 2.0)


def test_as_many_questions_as_said_see_the_difference_as_often_as_said() -> None:
    """The exact test is a little shyer than the formula, which is of its approximation."""
    rng = np.random.default_rng(2)
    only_first, only_second = 0.06, 0.10
    n = questions_to_see(only_first + only_second, only_second - only_first)
    draws = rng.multinomial(n, [only_first, only_second, 1 - only_first - only_second], size=800)
    seen = np.mean([mcnemar(int(a), int(b)) < 0.05 for a, b, _ in draws])
    assert 0.74 < seen < 0.84


def test_the_design_effect_is_that_of_drawing_databases() -> None:
    rng = np.random.default_rng(4)
    names = [f"d{number}" for number in range(40) for _ in range(25)]
    alike = rng.random(1000) < 0.7
    assert design_effect(alike.tolist(), names) == pytest.approx(1.0, abs=0.5)
    apart = rng.random(1000) < np.repeat(rng.beta(3.5, 1.5, size=40), 25)
    effect = design_effect(apart.tolist(), names)
    boot = bootstrap_mean(apart.tolist(), names, seed=1)
    flat = wilson(int(apart.sum()), 1000)
    assert effect == pytest.approx(((boot.high - boot.low) / (flat.high - flat.low)) ** 2, rel=0.25)
    # Databases of one value each: as many independent questions as databases, but for the correction of n.
    assert design_effect([0.0] * 10 + [1.0] * 10, ["a"] * 10 + ["b"] * 10) == pytest.approx(19)
    assert design_effect([1.0, 1.0], ["a", "b"]) == design_effect([0.0, 1.0], ["a", "a"]) == 1.0


def test_pass_at_k_is_the_chance_of_drawing_one_that_passes() -> None:
    rng = np.random.default_rng(6)
    samples = np.array([1] * 3 + [0] * 13)
    for k in (1, 2, 5, 14):
        drawn = [rng.permutation(samples)[:k].any() for _ in range(3000)]
        assert pass_at_k(16, 3, k) == pytest.approx(np.mean(drawn), abs=0.03)


# ---- faults ------------------------------------------------------------------------------------------------


def test_what_is_no_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="pass@3"):
        pass_at_k(2, 1, 3)
    with pytest.raises(ValueError, match="not negative"):
        mcnemar(-1, 2)
    with pytest.raises(ValueError, match="not pairs"):
        bootstrap_difference([1.0], [1.0, 0.0], ["a"], seed=0)
    with pytest.raises(ValueError, match="0 values"):
        bootstrap_mean([], [], seed=0)
    with pytest.raises(ValueError, match="1 values and 2 clusters"):
        design_effect([1.0], ["a", "b"])


def test_no_question_leaves_everything_possible() -> None:
    assert wilson(0, 0) == Interval(0.0, 1.0)
    assert math.isclose(wilson(5, 10).low + wilson(5, 10).high, 1.0)

"""Intervals and tests for shares of questions answered right.

In: counts, or one value a question with the database it belongs to. Out: numbers with their uncertainty. Pure
functions: no files, no records, and the same seed gives the same interval. Not here: which questions count
(evaluate), words (report).

Two sources of chance are kept apart. `wilson` and `mcnemar` treat questions as independent draws; the bootstraps
resample whole databases, because questions on one database fail together and new databases are what a user brings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

DRAWS = 2_000
_Z95 = 1.959963984540054  # the 97.5 % point of the standard normal distribution


class Interval(NamedTuple):
    """A 95 % interval, both ends included; (low, high) also as JSON writes it."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Paired:
    """Two policies on the same questions: how many each answered that the other did not, and what that proves.

    `difference` is the second's accuracy minus the first's; `ci95` its interval over databases; `p` of McNemar.
    """

    questions: int
    only_first: int
    only_second: int
    difference: float
    ci95: Interval
    p: float


def wilson(passed: int, scored: int, z: float = _Z95) -> Interval:
    """The score interval of a share (Wilson 1927, JASA 22, p. 209), questions taken as independent.

    With p = passed / scored and n = scored:

        (p + z^2 / 2n  -+  z * sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Args:
        passed: how many passed.
        scored: of how many; 0 gives the whole of [0, 1].
        z: standard normal point; the default gives 95 %.

    Raises:
        ValueError: `passed` is not in [0, scored].
    """
    if not 0 <= passed <= scored:
        raise ValueError(f"{passed} of {scored} is no share")
    if scored == 0:
        return Interval(0.0, 1.0)
    share, square = passed / scored, z * z / scored
    centre = share + square / 2
    half = z * math.sqrt(share * (1 - share) / scored + square / (4 * scored))
    # At the ends the formula gives 0 and 1 exactly; rounding must not leave them.
    low = 0.0 if passed == 0 else (centre - half) / (1 + square)
    high = 1.0 if passed == scored else (centre + half) / (1 + square)
    return Interval(max(0.0, low), min(1.0, high))


def bootstrap_mean(values: Sequence[float], clusters: Sequence[str], *, seed: int, draws: int = DRAWS) -> Interval:
    """The percentile interval of a mean when whole clusters are drawn with replacement.

    The cluster bootstrap (Davison & Hinkley 1997, section 3.8): each draw takes as many clusters as there are, with all
    their values, and divides the drawn sum by the drawn number of values. With ten clusters it holds the true mean
    about nine times in ten (docs/decisions/0003-intervals-over-databases.md); with one it has no width.

    Args:
        values: one number a question.
        clusters: the database of each.
        seed: of the draws.
        draws: how many.

    Raises:
        ValueError: no values, or not one cluster a value.
    """
    means = _cluster_means(values, clusters, seed, draws)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))


def bootstrap_difference(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[str], *, seed: int, draws: int = DRAWS
) -> Interval:
    """The interval of mean(second) - mean(first) over the same questions, whole clusters drawn with replacement.

    Both policies keep the drawn questions, so that what they share cancels (a paired bootstrap; Koehn 2004 for
    sentences, here for clusters).

    Raises:
        ValueError: lengths differ, or no values.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values are not pairs")
    return bootstrap_mean([b - a for a, b in zip(first, second, strict=True)], clusters, seed=seed, draws=draws)


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p-value of the exact McNemar test (McNemar 1947; the binomial form of Edwards 1948).

    Among the n = only_first + only_second questions that exactly one of two policies answers, chance gives each policy
    half: p = min(1, 2 * sum_{i <= min} C(n, i) / 2^n). In whole numbers, so no sample is too large or too small.

    Args:
        only_first: questions that only the first policy answers.
        only_second: questions that only the second answers.

    Raises:
        ValueError: a negative count.
    """
    if min(only_first, only_second) < 0:
        raise ValueError("counts are not negative")
    n = only_first + only_second
    term = tail = 1
    for i in range(min(only_first, only_second)):
        term = term * (n - i) // (i + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << n))


def compare_pairs(
    first: Sequence[bool], second: Sequence[bool], clusters: Sequence[str], *, seed: int, draws: int = DRAWS
) -> Paired:
    """Two policies on the same questions.

    Args:
        first: whether the first policy answered each question.
        second: the same of the second.
        clusters: the database of each question.
        seed: of the bootstrap.
        draws: of the bootstrap.

    Raises:
        ValueError: lengths differ, or no questions.
    """
    interval = bootstrap_difference(first, second, clusters, seed=seed, draws=draws)
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    return Paired(
        questions=len(first),
        only_first=only_first,
        only_second=only_second,
        difference=(only_second - only_first) / len(first),
        ci95=interval,
        p=mcnemar(only_first, only_second),
    )


def design_effect(values: Sequence[float], clusters: Sequence[str]) -> float:
    """How many times more the mean varies when whole clusters are drawn than when single values are.

    The variance of the mean between clusters, with e_c the sum of a cluster's deviations from the mean and C clusters,

        C / (C - 1) * sum_c e_c^2 / n^2    over    sum_i (x_i - mean)^2 / (n (n - 1))

    (Kish 1965, Survey Sampling, section 8.2; linearised as in Cochran 1977, section 9A). Divide a number of questions
    by it for the number of independent ones they are worth. 1.0 where it is not defined: one cluster, or no spread.

    Raises:
        ValueError: no values, or not one cluster a value.
    """
    if not len(values) == len(clusters) > 0:
        raise ValueError(f"{len(values)} values and {len(clusters)} clusters")
    deviations = np.asarray(values, dtype=float) - np.mean(values)
    names, where = np.unique(np.asarray(clusters), return_inverse=True)
    squares, n, count = float(deviations @ deviations), len(values), len(names)
    if count < 2 or squares == 0.0:
        return 1.0
    between = np.bincount(where, weights=deviations, minlength=count)
    return float(count / (count - 1) * (between @ between) / n**2 * (n * (n - 1)) / squares)


def questions_for_margin(share: float, margin: float, effect: float = 1.0) -> int:
    """How many questions give a 95 % interval of `share` -+ `margin`: z^2 p (1 - p) / margin^2, times the effect.

    Args:
        share: the accuracy expected.
        margin: half of the interval, > 0.
        effect: the design effect of the databases.
    """
    return math.ceil(_Z95**2 * share * (1 - share) / margin**2 * effect)


def questions_to_see(discordant: float, difference: float, effect: float = 1.0, power: float = 0.8) -> int:
    """How many questions a paired test at 5 % needs to see a difference (Connor 1987, Biometrics 43, p. 207).

    With p the share of questions that exactly one of two policies answers, and d the difference of their accuracies,

        (z_0.975 sqrt(p) + z_power sqrt(p - d^2))^2 / d^2, times the effect

    Args:
        discordant: p, in [0, 1]; at least the difference is taken, since no less can make it.
        difference: d, > 0.
        effect: the design effect of the databases on the paired differences.
        power: the chance to see it.
    """
    p = max(discordant, difference)
    reach = _Z95 * math.sqrt(p) + NormalDist().inv_cdf(power) * math.sqrt(p - difference**2)
    return math.ceil(reach**2 / difference**2 * effect)


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """The unbiased estimate that one of k samples is correct (Chen et al. 2021, arXiv 2107.03374, equation 1).

    1 - C(samples - correct, k) / C(samples, k), in whole numbers.

    Raises:
        ValueError: not 1 <= k <= samples, or not 0 <= correct <= samples.
    """
    if not (1 <= k <= samples and 0 <= correct <= samples):
        raise ValueError(f"pass@{k} of {correct} in {samples} is not defined")
    every = math.comb(samples, k)
    return (every - math.comb(samples - correct, k)) / every


def median_and_range(values: Sequence[float]) -> tuple[float, Interval]:
    """The median, and the range between the 10 % and the 90 % point of what was measured."""
    low, middle, high = np.quantile(np.asarray(values, dtype=float), [0.1, 0.5, 0.9])
    return float(middle), Interval(float(low), float(high))


def quantiles(values: Sequence[float], points: Sequence[float]) -> tuple[float, ...]:
    """The quantiles of what was measured at `points` in [0, 1]."""
    return tuple(float(one) for one in np.quantile(np.asarray(values, dtype=float), points))


def _cluster_means(values: Sequence[float], clusters: Sequence[str], seed: int, draws: int) -> np.ndarray:
    if not len(values) == len(clusters) > 0:
        raise ValueError(f"{len(values)} values and {len(clusters)} clusters")
    names = sorted(set(clusters))
    index = {name: number for number, name in enumerate(names)}
    where = [index[name] for name in clusters]
    sums = np.bincount(where, weights=np.asarray(values, dtype=float), minlength=len(names))
    sizes = np.bincount(where, minlength=len(names))
    shares = np.full(len(names), 1 / len(names))
    times = np.random.default_rng(seed).multinomial(len(names), shares, size=draws)
    return np.asarray((times @ sums) / (times @ sizes))

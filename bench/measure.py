"""What every benchmark gives: one number with its unit, its baseline, how often it was measured and its spread.

In: measured values. Out: one entry of results.json. `scaled` makes every benchmark small, for a try. Not here:
measuring.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from text2sql_rl.errors import Text2SqlError


@dataclass(frozen=True, slots=True)
class Result:
    """One number of results.json.

    `baseline` is what the number is held against (a goal, or the plain way of doing the same), `n` how many
    measurements the median was taken of, or how many things were counted, `spread` the distance between the
    measurements' quartiles.
    """

    name: str
    value: float
    unit: str
    baseline: float
    n: int
    spread: float


def median(name: str, values: Sequence[float], unit: str, baseline: float) -> Result:
    """The median of at least two measurements, with the distance between their quartiles."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Result(name, round(statistics.median(values), 5), unit, baseline, len(values), round(high - low, 5))


def share() -> float:
    """How much of each benchmark runs, in (0, 1]; below 1 it is a try, and nothing is written."""
    return min(1.0, max(1e-6, float(os.environ.get("TEXT2SQL_BENCH_SHARE", "1"))))


def scaled(size: int, least: int = 2) -> int:
    """`size`, or the share of it that a try runs, at least `least`."""
    return max(least, round(size * share()))


def tell(main: Callable[[], int]) -> int:
    """What a benchmark that is called by itself ends with: 2, and one line, where it cannot be measured."""
    try:
        return main()
    except Text2SqlError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2

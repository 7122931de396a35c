"""Numbers within tolerance: which ones count as equal, found by sorting instead of by pairs.

In: numbers of two columns. Out: a class for each; equal classes mean a distance of at most `tolerance`.
Two numbers are equal when they differ by at most `RELATIVE` times the larger, or by `ABSOLUTE`.
Not here: exact numbers (integers and decimals against each other need no tolerance).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, TypeGuard

RELATIVE = 1e-6
ABSOLUTE = 1e-9
# Each level asks for gaps four times smaller; the last is below the noise of double arithmetic.
_LEVELS = 14


def is_number(cell: object, below: float = float("inf")) -> TypeGuard[int | float | Decimal]:
    """Whether a cell is a finite number (a boolean is none) smaller in size than `below`."""
    return isinstance(cell, int | float | Decimal) and not isinstance(cell, bool) and -below < cell < below


def has_float(cell: Any) -> bool:
    """Whether a float stands in the cell, at any depth."""
    if isinstance(cell, float):
        return True
    if isinstance(cell, list | tuple):
        return any(has_float(item) for item in cell)
    return isinstance(cell, dict) and any(has_float(item) for item in cell.values())


def numbers_in(cell: Any) -> Iterator[float]:
    """The finite numbers of a cell, at any depth."""
    if isinstance(cell, int | float | Decimal):
        number = as_float(cell)
        if math.isfinite(number):
            yield number
    elif isinstance(cell, str):
        if re.fullmatch(r"-?\d{1,300}", cell):  # a BIGNUM arrives as text
            yield float(cell)
    elif isinstance(cell, list | tuple):
        for item in cell:
            yield from numbers_in(item)
    elif isinstance(cell, dict):
        for item in cell.values():
            yield from numbers_in(item)


def as_float(cell: int | float | Decimal) -> float:
    """As a double; infinite beyond its range."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def tolerance(number: float) -> float:
    """The largest distance at which another number counts as equal to `number`."""
    return max(ABSOLUTE, RELATIVE * abs(number))


def classes(numbers: Iterable[float]) -> dict[float, int]:
    """Number every class of values, none wider than the tolerance of its larger end.

    Chains of close neighbours are cut at their widest gaps first, so that a value and the same value with
    arithmetic noise stay together; equal classes therefore always mean within tolerance.
    """
    found: dict[float, int] = {}
    todo = [(sorted(set(numbers)), 0)]
    while todo:
        chain, level = todo.pop()
        if not chain:
            continue
        if level and chain[-1] - chain[0] <= max(tolerance(chain[0]), tolerance(chain[-1])):
            label = len(found)
            found.update(dict.fromkeys(chain, label))
            continue
        start = 0
        for at in range(1, len(chain) + 1):
            if at == len(chain) or _apart(chain[start], chain[at - 1], chain[at], level):
                todo.append((chain[start:at], level + 1))
                start = at
    return found


def _apart(start: float, left: float, right: float, level: int) -> bool:
    """Whether the chain is cut between `left` and `right`; past the last level, wherever it gets too wide."""
    if level >= _LEVELS:
        return right - start > max(tolerance(start), tolerance(right))
    return right - left > max(tolerance(left), tolerance(right)) / 4.0**level

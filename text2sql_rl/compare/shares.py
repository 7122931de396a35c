"""Which gold columns a candidate reproduces as whole columns, whatever their place and name.

In: a prepared gold and an execution with as many rows. Out: pairs of equal columns. Each column is summed up
once, and only columns with agreeing sums are compared cell by cell, so wide answers stay cheap.
Not here: whether the rows agree (rows.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from text2sql_rl.compare.cells import Family, family, read_columns, token
from text2sql_rl.compare.numbers import ABSOLUTE, RELATIVE, is_number
from text2sql_rl.records import Execution, Gold


def column_pairs(gold: Gold, execution: Execution) -> dict[int, int]:
    """Gold answer columns with the candidate column that holds the same bag of values, each used once."""
    rows = gold.execution.rows
    if not rows or len(rows) != len(execution.rows):
        return {}
    width = len(gold.execution.columns) - gold.hidden
    wanted = [_summary([row[at] for row in rows], gold.execution.types[at]) for at in range(width)]
    found = [_summary([row[at] for row in execution.rows], name) for at, name in enumerate(execution.types)]
    pairs: dict[int, int] = {}
    for at, first in enumerate(wanted):
        for other, second in enumerate(found):
            if other not in pairs.values() and first.near(second) and _same(first, second):
                pairs[at] = other
                break
    return pairs


def column_share(gold: Gold, execution: Execution) -> float:
    """Share of the gold's answer columns that have such a pair, in [0, 1]."""
    width = len(gold.execution.columns) - gold.hidden
    return len(column_pairs(gold, execution)) / width if width else 0.0


@dataclass(frozen=True, slots=True)
class _Summary:
    """A column with what makes it cheap to rule out: a hash of its values, or sums where numbers may be noisy."""

    cells: Sequence[Any]
    type: str
    print: int
    size: float | None

    def near(self, other: _Summary) -> bool:
        if self.size is None or other.size is None:
            return self.print == other.print and self.size == other.size
        slack = RELATIVE * max(self.size, other.size) + ABSOLUTE * len(self.cells)
        return abs(self.size - other.size) <= slack


def _summary(cells: Sequence[Any], type_name: str) -> _Summary:
    numbers = [cell for cell in cells if is_number(cell, below=1e300)]
    if family(type_name) == Family.NUMBER and len(numbers) + cells.count(None) == len(cells):
        return _Summary(cells, type_name, 0, sum(abs(float(number)) for number in numbers))
    return _Summary(cells, type_name, hash(frozenset(Counter(map(token, cells)).items())), None)


def _same(first: _Summary, second: _Summary) -> bool:
    left, right = read_columns(first.cells, second.cells, first.type, second.type)
    return Counter(left) == Counter(right)

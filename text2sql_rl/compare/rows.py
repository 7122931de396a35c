"""Rows as a bag, ordered only by the gold's sort keys.

In: a prepared gold, a candidate's rows and one assignment of columns. Out: how the two relate (`Sameness`).
Time grows with the number of cells (sorting aside), never with the number of pairs of rows.
Not here: what a cell's value is (cells.py), what the verdict says about it (__init__.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from text2sql_rl.compare.cells import read_columns, token
from text2sql_rl.compare.columns import Assignment
from text2sql_rl.records import Execution, Gold

Row = tuple[Hashable, ...]
# Keys this close are one tie: the last digits of a float sum depend on the order of addition.
_TIE = 1e-12


class Kind(StrEnum):
    """How two bags of rows relate; everything but SAME is a mismatch."""

    SAME = "match"
    ORDER = "order"
    MULTIPLICITY = "multiplicity"
    ROW_COUNT = "row_count"
    VALUES = "values"


@dataclass(frozen=True, slots=True)
class Sameness:
    """The relation, the shared rows as a share of the longer side, and the gold columns reproduced whole."""

    kind: Kind
    row_overlap: float
    column_overlap: float


def answer_width(gold: Gold) -> int:
    """How many of the gold execution's columns belong to the answer."""
    return len(gold.execution.columns) - gold.hidden


def relate(gold: Gold, execution: Execution, assignment: Assignment) -> Sameness:
    """Compare the candidate's rows with the gold's under one assignment of columns."""
    width = answer_width(gold)
    legal = gold.legal_rows if gold.legal_rows is not None else gold.execution.rows
    pool, own = _tokens(legal, width, gold.execution.types, execution, assignment)
    # With a cut tie the gold's own rows are one of the legal choices; overlap is measured against that choice.
    wanted = pool
    if gold.legal_rows is not None:
        wanted, _ = _tokens(gold.execution.rows, width, gold.execution.types, execution, assignment)
    kind = _kind(gold, pool, len(gold.execution.rows), own)
    if kind == Kind.SAME:
        return Sameness(kind, 1.0, 1.0)
    shared = sum((Counter(wanted) & Counter(own)).values())
    longer = max(len(wanted), len(own))
    return Sameness(kind, shared / longer if longer else 0.0, _column_overlap(wanted, own, width))


def _tokens(
    rows: Sequence[tuple[Any, ...]], width: int, types: Sequence[str], execution: Execution, assignment: Assignment
) -> tuple[list[Row], list[Row]]:
    columns = [
        read_columns(
            [row[at] for row in rows],
            [row[assignment[at]] for row in execution.rows],
            types[at],
            execution.types[assignment[at]],
        )
        for at in range(width)
    ]
    return (
        list(zip(*(first for first, _ in columns), strict=True)),
        list(zip(*(second for _, second in columns), strict=True)),
    )


def _kind(gold: Gold, pool: list[Row], wanted: int, own: list[Row]) -> Kind:
    if len(own) != wanted:
        return Kind.MULTIPLICITY if own and set(own) == set(pool) else Kind.ROW_COUNT
    if all(not Counter(own[start:end]) - Counter(pool[low:high]) for start, end, low, high in _groups(gold)):
        return Kind.SAME
    if not Counter(own) - Counter(pool):
        return Kind.ORDER
    return Kind.MULTIPLICITY if set(own) == set(pool) else Kind.VALUES


def _groups(gold: Gold) -> Iterator[tuple[int, int, int, int]]:
    """Where each tie stands in the gold's rows, and where its legal rows stand."""
    rows = list(_ties(gold, gold.execution.rows))
    if gold.legal_rows is None:
        return ((start, end, start, end) for start, end in rows)
    legal = _ties(gold, gold.legal_rows)
    return ((start, end, low, high) for (start, end), (low, high) in zip(rows, legal, strict=True))


def _ties(gold: Gold, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, int]]:
    """Runs of rows that tie on every sort key; one run when the gold is unordered."""
    if not gold.sort_keys or not rows:
        yield 0, len(rows)
        return
    keys = [tuple(row[key.column] for key in gold.sort_keys) for row in rows]
    start = 0
    for at in range(1, len(rows) + 1):
        if at == len(rows) or not all(map(_tie, keys[at - 1], keys[at])):
            yield start, at
            start = at


def _tie(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return first == second or first != first != second or abs(first - second) <= _TIE * abs(first)
    return token(first) == token(second)


def _column_overlap(wanted: list[Row], own: list[Row], width: int) -> float:
    if len(wanted) != len(own) or not width:
        return 0.0
    same = sum(Counter(row[at] for row in wanted) == Counter(row[at] for row in own) for at in range(width))
    return same / width

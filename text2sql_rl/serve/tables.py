"""The rows of an execution as a page shows them: texts, a few of them, and those that the other side lacks marked.

In: an execution and the one beside it. Out: plain data for JSON. Cells are compared as they are shown, so a mark is a
hint for the eye; the verdict is the judge's. Not here: running, comparing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from text2sql_rl.explain import visible
from text2sql_rl.records import Execution, Gold, Outcome

MOST_ROWS = 50
MOST_COLUMNS = 30
_MOST_CHARACTERS = 200

Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The first rows of a result. `lacking[i]`: the other side has no row like row i. `rows_in_all` counts all rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    lacking: tuple[bool, ...]
    rows_in_all: int
    columns_in_all: int


def side_by_side(gold: Gold, candidate: Execution | None) -> tuple[ResultTable | None, ResultTable | None]:
    """The gold's table and the candidate's; None where there are no rows to show."""
    left, right = _rows(gold.execution, gold.hidden), _rows(candidate, 0)
    return _table(gold.execution, left, right, gold.hidden), _table(candidate, right, left, 0)


def _rows(execution: Execution | None, hidden: int) -> list[Row] | None:
    if execution is None or execution.outcome is not Outcome.ROWS:
        return None
    shown = len(execution.columns) - hidden
    return [tuple(map(_cell, row[:shown])) for row in execution.rows]


def _table(
    execution: Execution | None, own: list[Row] | None, other: list[Row] | None, hidden: int
) -> ResultTable | None:
    if execution is None or own is None:
        return None
    columns = execution.columns[: len(execution.columns) - hidden]
    left = Counter(other or ())
    lacking = []
    for row in own:
        lacking.append(other is not None and left[row] <= 0)
        left[row] -= 1
    # A difference is what a reader looks for: rows that have one come before the cut.
    order = sorted(range(len(own)), key=lambda at: not lacking[at]) if len(own) > MOST_ROWS else range(len(own))
    chosen = sorted(list(order)[:MOST_ROWS])
    return ResultTable(
        columns=tuple(map(_text, columns[:MOST_COLUMNS])),
        rows=tuple(own[at][:MOST_COLUMNS] for at in chosen),
        lacking=tuple(lacking[at] for at in chosen),
        rows_in_all=len(own),
        columns_in_all=len(columns),
    )


def _cell(value: Any) -> str | None:
    return None if value is None else _text(value.hex() if isinstance(value, bytes) else str(value))


def _text(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …"

"""The columns of the rollout log that a reader sees, and whole groups of them.

In: part files of a rollout log. Out: groups of `Row`s, all of a part or so many that lie evenly in it. Not here:
choosing parts, drawing. `rollout_log` reads all columns, which takes several times as long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from text2sql_rl.errors import RunError

T = TypeVar("T")

_FIX = "Delete the file and resume the run, which writes it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One judged completion; fields are those of `rollout_log.LogRow`."""

    step: int
    question_id: str
    database: str
    gold_sql: str
    text: str
    candidate: str | None
    no_candidate: str
    outcome_reason: str
    rows: int | None
    gold_rows: int
    verdict: str | None
    verdict_words: str
    row_overlap: float
    column_overlap: float
    items: str
    total: float | None
    unscored: str
    cause: str
    group_id: str
    group_kind: str
    group_mean: float
    advantage: float


_COLUMNS = [one.name for one in fields(Row)]


@contextmanager
def named(path: Path, fix: str = _FIX) -> Iterator[None]:
    """Whatever goes wrong inside while reading `path` becomes a RunError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"cannot be read ({str(error).splitlines()[0]})", file=path, fix=fix) from error


def count_rows(path: Path) -> int:
    """Rows of a part file, from its footer.

    Raises:
        RunError: it is damaged.
    """
    with named(path):
        return int(pq.read_metadata(path).num_rows)


def read_part(path: Path, most: int | None = None) -> list[list[Row]]:
    """The groups of a part file as they were written; at most `most` rows, in whole groups that lie evenly in it.

    One group is given at least.

    Raises:
        RunError: it is damaged or lacks a column.
    """
    with named(path):
        table = pq.read_table(path, columns=_COLUMNS)
    if most is not None and table.num_rows > most:
        names = pc.unique(table["group_id"]).to_pylist()
        wanted = evenly(names, max(1, most * len(names) // table.num_rows))
        table = table.filter(pc.is_in(table["group_id"], pa.array(wanted)))
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        groups[row["group_id"]].append(Row(**row))
    return list(groups.values())


def evenly(things: Sequence[T], most: int) -> list[T]:
    """At most `most` of the things, evenly spaced, the first and (from two on) the last among them."""
    if len(things) <= most:
        return list(things)
    if most == 1:
        return [things[0]]
    return [things[number * (len(things) - 1) // (most - 1)] for number in range(most)]

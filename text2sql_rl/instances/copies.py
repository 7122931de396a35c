"""Columns that write what another column of their table holds, in another form.

In: a table's real rows. Out: which columns are copies of which, and how such a cell is written from the other. Rows
that are made keep this, since a candidate that reads the copy is right: a TIMESTAMP that falls on the DATE beside it in
every real row, a DOUBLE equal to the DECIMAL beside it, two DOUBLEs that differ in their last digits only, text that
writes a date, an enum or a UUID, 0 and 1 for a BOOLEAN.

Two columns of the same type with exactly the same values are no copies: that is how a wrong column looks right by luck.
Keys are copies of nothing, since every table counts from 1. Not here: relations between tables, rows.
"""

from __future__ import annotations

import datetime
import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from text2sql_rl.compare.numbers import ABSOLUTE, RELATIVE, as_float, is_number
from text2sql_rl.records import Column

Pair = tuple[Any, Any]
Write = Callable[[Any, random.Random], Any]


@dataclass(frozen=True, slots=True)
class Copy:
    """Column `follower` (a position) holds what column `leader` does; `write` makes its cell from the leader's."""

    leader: int
    follower: int
    write: Write


def copies(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], fixed: frozenset[int] | set[int]
) -> tuple[Copy, ...]:
    """The copies in a table.

    Args:
        columns: in the order of the rows' cells.
        rows: real rows.
        fixed: positions of keys and references.
    """
    found: list[Copy] = []
    free = [at for at in range(len(columns)) if at not in fixed]
    for leader in free:
        for follower in free:
            if leader == follower or any(
                {leader, follower} & {one.follower} or one.leader == follower for one in found
            ):
                continue
            pairs = [(row[leader], row[follower]) for row in rows]
            if any((one is None) != (other is None) for one, other in pairs):
                continue
            held = [pair for pair in pairs if pair[0] is not None]
            write = _writer(columns[leader].type.upper(), columns[follower].type.upper(), held) if held else None
            if write is not None:
                found.append(Copy(leader, follower, write))
    return tuple(found)


def _writer(leader: str, follower: str, pairs: Sequence[Pair]) -> Write | None:
    """How the follower's cells come from the leader's; None where they do not. Types are DuckDB's names."""
    return next((write for relation in _RELATIONS if (write := relation(leader, follower, pairs))), None)


def _number(leader: str, follower: str, pairs: Sequence[Pair]) -> Write | None:
    """Equal numbers in a wider type; in two floating columns, equal but for noise."""
    ranks = (_rank(leader), _rank(follower))
    if None in ranks or len(pairs) < 2 or not all(_close(one, other) for one, other in pairs):
        return None
    if ranks == (2, 2):
        noise = [as_float(other) / as_float(one) for one, other in pairs if one]
        return (
            (lambda cell, draw: as_float(cell) * draw.choice(noise)) if any(ratio != 1.0 for ratio in noise) else None
        )
    if ranks[0] >= ranks[1]:  # type: ignore[operator]
        return None
    return (lambda cell, draw: as_float(cell)) if ranks[1] == 2 else (lambda cell, draw: Decimal(cell))


def _rank(type_name: str) -> int | None:
    if re.fullmatch(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?", type_name):
        return 0
    if type_name.startswith("DECIMAL"):
        return 1
    return 2 if type_name in ("FLOAT", "DOUBLE") else None


def _close(one: Any, other: Any) -> bool:
    if not is_number(one) or not is_number(other):
        return False
    first, second = as_float(one), as_float(other)
    return abs(first - second) <= max(ABSOLUTE, RELATIVE * max(abs(first), abs(second)))


def _day(leader: str, follower: str, pairs: Sequence[Pair]) -> Write | None:
    """A timestamp on the day that a date names; its time of day is one of the real ones."""
    if leader != "DATE" or not follower.startswith("TIMESTAMP"):
        return None
    if not all(isinstance(other, datetime.datetime) and other.date() == one for one, other in pairs):
        return None
    times = [other.timetz() for _, other in pairs]
    return lambda cell, draw: datetime.datetime.combine(cell, draw.choice(times))


def _text(leader: str, follower: str, pairs: Sequence[Pair]) -> Write | None:
    """Text that writes a date, a timestamp, an enum value or a UUID as the engine does."""
    written = leader.startswith(("DATE", "TIMESTAMP", "ENUM")) or leader == "UUID" or _custom(leader)
    if follower != "VARCHAR" or not written:
        return None
    if not all(isinstance(one, str | uuid.UUID | datetime.date) and str(one) == other for one, other in pairs):
        return None
    return lambda cell, draw: str(cell)


def _custom(type_name: str) -> bool:
    """A type that the schema names itself: an enum by its name."""
    return bool(re.fullmatch(r'"?\w+"?', type_name)) and type_name != "VARCHAR" and _rank(type_name) is None


def _truth(leader: str, follower: str, pairs: Sequence[Pair]) -> Write | None:
    """0 and 1 for false and true, both of which occur."""
    if leader != "BOOLEAN" or _rank(follower) != 0 or {one for one, _ in pairs} != {True, False}:
        return None
    return (lambda cell, draw: int(cell)) if all(int(one) == other for one, other in pairs) else None


_RELATIONS: Sequence[Callable[[str, str, Sequence[Pair]], Write | None]] = (_number, _day, _text, _truth)


def names_of(copies: Sequence[Copy], columns: Sequence[Column], leader: int) -> Iterator[str]:
    """Lower-cased names of the columns that follow one."""
    return (columns[one.follower].name.lower() for one in copies if one.leader == leader)

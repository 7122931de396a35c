"""Values around every literal of a gold, by the column it is compared with.

In: gold SQL. Out: column name -> values on, just below and just above each literal, so that rows exist on both
sides of every border a gold draws. Values are Python values; whether a column can hold one is decided where rows
are made. Not here: rows.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

from text2sql_rl.instances.values import moved

_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Like, exp.ILike, exp.Case)
_ORDERED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,9})?")
_HOLDS_LITERAL = re.compile(r"['$\d]")
# The engine reads 1e9999 as infinity. No column holds such numbers, and one of them would spoil all rows beside it.
_MOST_DIGITS = 19


@lru_cache(maxsize=512)
def parsed(sql: str) -> exp.Expr | None:
    """The statement as a tree, which nobody may change; None where sqlglot cannot read it."""
    try:
        return sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None


def border_values(golds: Iterable[str], finer: bool = False) -> dict[str, tuple[Any, ...]]:
    """Lower-cased column name -> values to put into it, without repetition, in a fixed order.

    Args:
        golds: the statements.
        finer: with values that lie between: texts before each one that something is less or more than, the middle of
            a day, halves beside whole numbers.
    """
    found: dict[str, dict[str, Any]] = {}
    for sql in golds:
        if not _HOLDS_LITERAL.search(sql):
            continue
        tree = parsed(sql)
        if tree is None:
            continue
        for node in tree.find_all(*_COMPARED):
            compared = [node]
            if isinstance(node, exp.Case):  # CASE x WHEN 1 THEN ...: what follows THEN is not compared with x
                compared = [node.this, *(when.this for when in node.args["ifs"])] if node.this else []
            columns = [column.name.lower() for part in compared for column in part.find_all(exp.Column)]
            for literal in (one for part in compared for one in part.find_all(exp.Literal)):
                values = [*_around(literal, isinstance(node, exp.Like | exp.ILike))]
                values += _between(values) if finer else ()
                if finer and literal.is_string and isinstance(node, _ORDERED):
                    # What is added above is all after it.
                    values += [text for end in (-1, -2, 1) if (text := literal.this[:end]) and text != literal.this]
                for value in values:
                    for column in columns:
                        found.setdefault(column, {}).setdefault(repr(value), value)
    return {column: tuple(values.values()) for column, values in found.items()}


def _around(literal: exp.Literal, pattern: bool) -> Iterator[Any]:
    text = literal.this
    if not literal.is_string:
        yield from _around_number(text)
    elif pattern:
        core = text.replace("%", "").replace("_", "x")
        yield from (core, f"x{core}", f"{core}x", f"x{core}x", core.swapcase(), "x")
    else:
        yield from (text, text.swapcase(), f"{text}x")
        if _NUMBER.fullmatch(text):  # the engine casts it where the column holds numbers
            yield from _around_number(text)
        try:
            day = datetime.datetime.fromisoformat(text)
        except ValueError:
            return
        written = text if len(text) > 10 else ""
        for step in (-1, 1):
            other = moved(day, step)
            yield other.isoformat(sep=" ") if written else other.date().isoformat()


def _between(values: Sequence[Any]) -> Iterator[Any]:
    """What columns of a finer type hold beside the whole number or the day: a half more, noon."""
    whole = next((value for value in values if isinstance(value, int)), None)
    if whole is not None:
        yield Decimal(whole) + Decimal("0.5")
    days = (day for value in values if isinstance(value, str) and (day := _day(value)))
    if (day := next(days, None)) is not None:
        yield datetime.datetime.combine(day, datetime.time(12))


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def _around_number(text: str) -> Iterator[Any]:
    try:
        number = Decimal(text)
    except ArithmeticError:
        return
    if len(number.as_tuple().digits) > _MOST_DIGITS or not -_MOST_DIGITS < number.adjusted() < _MOST_DIGITS:
        return
    if number == number.to_integral_value() and "." not in text:
        whole = int(number)
        yield from (whole, whole + 1, whole - 1)
        if 1000 < whole < 3000:  # a year, compared with a part of a date
            for year in (whole - 1, whole, whole + 1):
                yield datetime.date(year, 1, 1)
                yield datetime.date(year, 12, 31)
        if 1 <= whole <= 12:  # a month, too
            for month in (whole, whole % 12 + 1):
                yield datetime.date(2021, month, 15)
    else:
        step = Decimal(1).scaleb(int(number.as_tuple().exponent))
        yield from (number, number + step, number - step)

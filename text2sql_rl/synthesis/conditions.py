"""Conditions on one column, as SQL and as words that follow the name of a table ("horses whose sex is colt").

In: a column's profile. Out: a `Condition`, with a literal that really occurs in the column, or None where the
column does not lend itself to it. Whether the condition keeps some rows and drops some is checked later, by running
the whole question without it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from text2sql_rl.synthesis.literals import literal, spoken
from text2sql_rl.synthesis.profile import ColumnProfile, TableProfile
from text2sql_rl.synthesis.wording import Phrase

Number = ("number",)
Moment = ("date", "timestamp")


@dataclass(frozen=True, slots=True)
class Condition:
    """`left` operator, e.g. "YEAR({})" and "= 2020": SQL for one column and the words for it."""

    column: ColumnProfile
    operator: str
    that: Phrase
    left: str = "{}"

    def sql(self, *, qualified: bool = False) -> str:
        """The condition as SQL, with the table's name before the column's if qualified."""
        return f"{self.left.format(self.column.qualified if qualified else self.column.sql)} {self.operator}"

    def said(self, words: str) -> Phrase:
        """The words, with another name for the column."""
        return self.that.having(c=words)


Maker = Callable[[ColumnProfile, Random], Condition | None]

_EQUAL = Phrase(
    ("whose {c} is {v}", "where {c} is {v}", "with {c} {v}", "where the {c} is {v}", "with {c} equal to {v}"),
    ("having {v} as {c}", "for which {c} equals {v}", "with {v} as the {c}", "where {v} is the {c}", "having {c} {v}"),
)
_UNEQUAL = Phrase(
    ("whose {c} is not {v}", "where {c} is not {v}", "with {c} other than {v}", "where the {c} is not {v}"),
    (
        "with any {c} except {v}",
        "for which {c} differs from {v}",
        "having a {c} different from {v}",
        "not having {c} {v}",
    ),
)
_OVER = Phrase(
    ("whose {c} is <over> {v}", "with {c} <over> {v}", "where {c} is <over> {v}", "with a {c} <over> {v}"),
    ("having {c} <over> {v}", "for which {c} exceeds {v}", "where the {c} exceeds {v}", "with {c} > {v}"),
)
_UNDER = Phrase(
    ("whose {c} is <under> {v}", "with {c} <under> {v}", "where {c} is <under> {v}", "with a {c} <under> {v}"),
    ("having {c} <under> {v}", "for which {c} stays below {v}", "where the {c} falls below {v}", "with {c} < {v}"),
)
_ATLEAST = Phrase(
    ("whose {c} is <atleast> {v}", "with {c} <atleast> {v}", "where {c} is <atleast> {v}", "with {c} of <atleast> {v}"),
    ("having {c} {v} or more", "for which {c} is {v} or more", "with {c} >= {v}", "whose {c} is {v} or above"),
)
_ATMOST = Phrase(
    ("whose {c} is <atmost> {v}", "with {c} <atmost> {v}", "where {c} is <atmost> {v}", "with {c} of <atmost> {v}"),
    ("having {c} {v} or less", "for which {c} is {v} or less", "with {c} <= {v}", "whose {c} is {v} or below"),
)
_BETWEEN = Phrase(
    ("whose {c} is between {v} and {w}", "with {c} between {v} and {w}", "where {c} is between {v} and {w}"),
    ("with {c} from {v} to {w}", "whose {c} lies in the range {v} to {w}", "having {c} of {v} up to {w}"),
)
_PREFIX = Phrase(
    (
        "whose {c} starts with {v}",
        "with {c} starting with {v}",
        "where {c} starts with {v}",
        "whose {c} begins with {v}",
    ),
    ("with {c} beginning with {v}", "having a {c} that starts with {v}", "for which {c} opens with {v}"),
)
_CONTAINS = Phrase(
    ("whose {c} contains {v}", "with {c} containing {v}", "where {c} contains {v}", "with {v} in the {c}"),
    (
        "whose {c} includes {v}",
        "having {v} somewhere in {c}",
        "where {v} appears in the {c}",
        "whose {c} has {v} in it",
    ),
)
_IN = Phrase(
    (
        "whose {c} is {v} or {w}",
        "with {c} {v} or {w}",
        "where {c} is either {v} or {w}",
        "whose {c} is either {v} or {w}",
    ),
    ("with {c} among {v} and {w}", "having {c} {v} or {w}", "where the {c} is one of {v} and {w}"),
)
_NULL = Phrase(
    ("without {c}", "with no {c}", "whose {c} is missing", "where {c} is missing", "whose {c} is unknown"),
    ("where {c} is null", "lacking {c}", "where no {c} is recorded", "whose {c} was left empty", "that lack any {c}"),
)
_KNOWN = Phrase(
    ("whose {c} is known", "where {c} is known", "whose {c} is not missing", "where {c} is not missing"),
    ("where {c} is not null", "where some {c} is recorded", "for which {c} was filled in", "whose {c} is present"),
)
_FLAG = Phrase(
    ("where {c} is {v}", "whose {c} is {v}", "with {c} {v}", "where the {c} is {v}"),
    ("having {c} set to {v}", "for which {c} equals {v}", "with {c} = {v}", "marked {v} for {c}"),
)
_AFTER = Phrase(
    ("whose {c} is <after> {v}", "with {c} <after> {v}", "where {c} is <after> {v}", "with a {c} <after> {v}"),
    ("having a {c} <after> {v}", "for which {c} comes after {v}", "where the {c} falls after {v}", "with {c} > {v}"),
)
_BEFORE = Phrase(
    ("whose {c} is <before> {v}", "with {c} <before> {v}", "where {c} is <before> {v}", "with a {c} <before> {v}"),
    ("having a {c} <before> {v}", "for which {c} comes before {v}", "where the {c} falls before {v}", "with {c} < {v}"),
)
_YEAR = Phrase(
    ("whose {c} is in {v}", "with {c} in {v}", "where {c} is in {v}", "with {c} in the year {v}"),
    ("whose {c} falls in {v}", "having a {c} in {v}", "for which the year of {c} is {v}", "with {c} during {v}"),
)
_MONTH = Phrase(
    ("whose {c} is in month {v}", "with {c} in month {v}", "where the month of {c} is {v}"),
    ("whose {c} falls in month {v}", "for which the month of {c} equals {v}", "having a {c} in month number {v}"),
)


def _filled(column: ColumnProfile, operator: str, that: Phrase, left: str = "{}", **slots: str) -> Condition:
    return Condition(column, operator, that.having(c=column.words, **slots), left)


def equal(column: ColumnProfile, r: Random) -> Condition | None:
    """A text is this value, one of the frequent ones or any."""
    if column.kind != "text" or not column.literals:
        return None
    value = r.choice(column.literals[: 8 if r.random() < 0.6 else None])
    return _filled(column, f"= {literal(value)}", _EQUAL, v=spoken(value, r))


def equal_number(column: ColumnProfile, r: Random) -> Condition | None:
    """A number is this value; a whole number, as fractions are seldom asked for."""
    if column.kind != "number" or column.key or column.distinct * 1.5 > column.rows:
        return None
    whole = [v for v in column.values[:40] if v == int(v)]
    if not whole:
        return None
    value = r.choice(whole)
    return _filled(column, f"= {literal(value)}", _EQUAL, v=spoken(value, r))


def unequal(column: ColumnProfile, r: Random) -> Condition | None:
    """A text is not this value; only where no value is missing, since SQL's <> drops NULL and words do not."""
    if not column.category or column.nullable or not column.literals:
        return None
    value = r.choice(column.literals)
    return _filled(column, f"<> {literal(value)}", _UNEQUAL, v=spoken(value, r))


def _inner(column: ColumnProfile, kinds: tuple[str, ...], r: Random) -> Any:
    """A value from the middle of the sorted values, so that both sides of it are populated."""
    if column.kind not in kinds or column.key or column.distinct < 4:
        return None
    values = sorted(column.values)
    return values[r.randint(len(values) // 6, len(values) - 1 - len(values) // 6)]


def _compared(column: ColumnProfile, r: Random, sides: tuple[tuple[str, Phrase], ...]) -> Condition | None:
    value = _inner(column, Number, r)
    if value is None:
        return None
    operator, that = r.choice(sides)
    return _filled(column, f"{operator} {literal(value)}", that, v=spoken(value, r))


def more(column: ColumnProfile, r: Random) -> Condition | None:
    """A number is more than this."""
    return _compared(column, r, ((">", _OVER),))


def less(column: ColumnProfile, r: Random) -> Condition | None:
    """A number is less than this."""
    return _compared(column, r, (("<", _UNDER),))


def bounded(column: ColumnProfile, r: Random) -> Condition | None:
    """A number is at least, or at most, this."""
    return _compared(column, r, ((">=", _ATLEAST), ("<=", _ATMOST)))


def between(column: ColumnProfile, r: Random) -> Condition | None:
    """A number lies between two values, both included."""
    low, high = _inner(column, Number, r), _inner(column, Number, r)
    if low is None or low >= high:
        return None
    return _filled(column, f"BETWEEN {literal(low)} AND {literal(high)}", _BETWEEN, v=spoken(low, r), w=spoken(high, r))


def _word_in(column: ColumnProfile, r: Random) -> list[str]:
    if column.kind != "text" or column.distinct < 5 or not column.literals:
        return []
    return [w for w in r.choice(column.literals).split(" ") if w.isalpha() and len(w) > 2]


def prefix(column: ColumnProfile, r: Random) -> Condition | None:
    """A text starts with this word or letter."""
    words = _word_in(column, r)
    if not words or not r.choice((True, False)):
        firsts = [v[0] for v in column.literals if v[0].isalpha()] if words else []
        if not firsts:
            return None
        start = r.choice(firsts)
    else:
        starts = [v.split(" ")[0] for v in column.literals if v.split(" ")[0].isalpha()]
        if not starts:
            return None
        start = r.choice(starts)
    return _filled(column, f"LIKE {literal(start + '%')}", _PREFIX, v=spoken(start, r))


def contains(column: ColumnProfile, r: Random) -> Condition | None:
    """A text contains this word."""
    words = _word_in(column, r)
    if not words:
        return None
    word = r.choice(words)
    return _filled(column, f"LIKE {literal('%' + word + '%')}", _CONTAINS, v=spoken(word, r))


def one_of(column: ColumnProfile, r: Random) -> Condition | None:
    """A text is one of two values."""
    if column.kind != "text" or column.distinct < 3 or len(column.literals) < 3:
        return None
    one, two = r.sample(column.literals[:12], 2)
    return _filled(column, f"IN ({literal(one)}, {literal(two)})", _IN, v=spoken(one, r), w=spoken(two, r))


def missing(column: ColumnProfile, r: Random) -> Condition | None:
    """The value is missing."""
    return _filled(column, "IS NULL", _NULL) if column.nulls else None


def known(column: ColumnProfile, r: Random) -> Condition | None:
    """The value is not missing."""
    return _filled(column, "IS NOT NULL", _KNOWN) if column.nulls else None


def flag(column: ColumnProfile, r: Random) -> Condition | None:
    """A boolean is true, or false."""
    if column.kind != "boolean":
        return None
    value = r.choice((True, False))
    return _filled(column, f"= {literal(value)}", _FLAG, v=spoken(value, r))


def after(column: ColumnProfile, r: Random) -> Condition | None:
    """A date comes after this day. Not for timestamps: "after a day" may or may not include the day."""
    value = _inner(column, ("date",), r)
    return None if value is None else _filled(column, f"> {literal(value)}", _AFTER, v=spoken(value, r))


def before(column: ColumnProfile, r: Random) -> Condition | None:
    """A date or timestamp comes before this day."""
    value = _inner(column, Moment, r)
    if value is None:
        return None
    day = value.date() if isinstance(value, dt.datetime) else value
    return _filled(column, f"< {literal(day)}", _BEFORE, v=spoken(day, r))


def between_dates(column: ColumnProfile, r: Random) -> Condition | None:
    """A date lies between two days, both included."""
    low, high = _inner(column, ("date",), r), _inner(column, ("date",), r)
    if low is None or low >= high:
        return None
    return _filled(column, f"BETWEEN {literal(low)} AND {literal(high)}", _BETWEEN, v=spoken(low, r), w=spoken(high, r))


def in_year(column: ColumnProfile, r: Random) -> Condition | None:
    """A date or timestamp lies in this year."""
    if column.kind not in Moment or not column.values:
        return None
    value = r.choice(column.values).year
    return _filled(column, f"= {value}", _YEAR, "YEAR({})", v=str(value))


def in_month(column: ColumnProfile, r: Random) -> Condition | None:
    """A date or timestamp lies in this month of any year."""
    if column.kind not in Moment or not column.values:
        return None
    value = r.choice(column.values).month
    return _filled(column, f"= {value}", _MONTH, "MONTH({})", v=str(value))


# What a question may ask "that ..." with when its shape is about something else; simple ones more often.
USUAL: tuple[Maker, ...] = (equal, equal, equal, more, more, less, bounded, flag, after, before, in_year, equal_number)


def condition(
    table: TableProfile, r: Random, makers: tuple[Maker, ...] = USUAL, *, avoid: str = "", rows: bool = False
) -> Condition | None:
    """A condition on some column of the table: kinds and columns are tried in random order.

    `avoid` names a column that is taken already. `rows` asks for a condition that many rows can meet, which a text
    that names one row each cannot give: counting or sorting what is left would be idle.
    """
    for maker in r.sample(makers, len(makers)):
        for column in r.sample(table.columns, len(table.columns)):
            idle = rows and column.kind == "text" and column.unique
            made = None if column.name == avoid or idle else maker(column, r)
            if made is not None:
                return made
    return None

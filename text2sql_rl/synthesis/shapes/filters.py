"""Shapes that show columns of the rows that meet one condition, or two."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from text2sql_rl.synthesis import conditions as on
from text2sql_rl.synthesis.profile import Profile
from text2sql_rl.synthesis.shape import Draft, Shape, a_table, shown, table_slots
from text2sql_rl.synthesis.wording import Phrase

_THAT = Phrase(
    (
        "<show> the {c} of {many} {that}",
        "<show> the {c} of all {many} {that}",
        "what is the {c} of {many} {that}?",
        "what are the {c} of the {many} {that}?",
        "for {many} {that}, <then> the {c}",
        "<show> the {c} for <each> {one} {that}",
        "{c} of {many} {that}",
    ),
    (
        "among {many} {that}, what is the {c} of each?",
        "I am looking for the {c} of <each> {one} {that}",
        "take the {many} {that} and <then> their {c}",
        "considering only {many} {that}, what is the {c}?",
        "what {c} do {many} {that} have?",
        "{many} {that}: {c}",
        "just the {c}, for {many} {that}",
        "we need the {c} for <each> {one} {that}",
    ),
)
_BOTH = Phrase(
    ("{that} and {also}", "both {that} and {also}"),
    ("{that} and at the same time {also}", "{that} and also {also}", "{also} and {that}"),
)
_EITHER = Phrase(
    ("{that} or {also}", "either {that} or {also}"),
    ("{that} or else {also}", "{that}, or {also}", "{that} or {also} or both"),
)

Draw = Callable[[Profile, Random], Draft | None]


def _by(*makers: on.Maker, columns: int = 1) -> Draw:
    """A draw that shows `columns` columns of the rows that meet a condition of one of the makers."""

    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        where = on.condition(table, r, makers)
        chosen = shown(table, r, columns)
        if where is None or chosen is None or where.column in chosen:
            return None
        words = " and ".join(c.words for c in chosen)
        sql = f"SELECT {', '.join(c.sql for c in chosen)} FROM {table.sql} WHERE {where.sql()}"
        return Draft(sql, {**table_slots(table), "c": words, "that": where.that})

    return draw


def _joined(operator: str, words: Phrase) -> Draw:
    """A draw with two conditions on different columns."""

    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        chosen = shown(table, r)
        one = on.condition(table, r, rows=True)
        two = on.condition(table, r, avoid=one.column.name, rows=True) if one else None
        if chosen is None or one is None or two is None or chosen[0] in (one.column, two.column):
            return None
        sql = f"SELECT {chosen[0].sql} FROM {table.sql} WHERE {one.sql()} {operator} {two.sql()}"
        that = words.having(that=one.that, also=two.that)
        return Draft(sql, {**table_slots(table), "c": chosen[0].words, "that": that})

    return draw


SHAPES = (
    Shape("filter_equal", "easy", _THAT, _by(on.equal)),
    Shape("filter_number", "easy", _THAT, _by(on.equal_number)),
    Shape("filter_more", "easy", _THAT, _by(on.more)),
    Shape("filter_less", "easy", _THAT, _by(on.less)),
    Shape("filter_bounded", "easy", _THAT, _by(on.bounded)),
    Shape("filter_unequal", "easy", _THAT, _by(on.unequal)),
    Shape("filter_between", "easy", _THAT, _by(on.between)),
    Shape("filter_prefix", "easy", _THAT, _by(on.prefix)),
    Shape("filter_contains", "easy", _THAT, _by(on.contains)),
    Shape("filter_in", "easy", _THAT, _by(on.one_of)),
    Shape("filter_missing", "easy", _THAT, _by(on.missing)),
    Shape("filter_known", "easy", _THAT, _by(on.known), rare=True),
    Shape("filter_flag", "easy", _THAT, _by(on.flag)),
    Shape("filter_after", "easy", _THAT, _by(on.after)),
    Shape("filter_before", "easy", _THAT, _by(on.before)),
    Shape("filter_year", "medium", _THAT, _by(on.in_year)),
    Shape("filter_month", "medium", _THAT, _by(on.in_month), rare=True),
    Shape("filter_dates", "medium", _THAT, _by(on.between_dates), rare=True),
    Shape("filter_two_columns", "easy", _THAT, _by(*on.USUAL, columns=2)),
    Shape("filter_and", "medium", _THAT, _joined("AND", _BOTH)),
    Shape("filter_or", "medium", _THAT, _joined("OR", _EITHER)),
)

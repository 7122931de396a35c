"""Shapes that reduce one table to one row: counts, sums, averages, extremes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from text2sql_rl.synthesis import conditions as on
from text2sql_rl.synthesis.profile import Profile
from text2sql_rl.synthesis.shape import Draft, Shape, a_table, aggregate, table_slots
from text2sql_rl.synthesis.wording import Phrase

_COUNT = Phrase(
    (
        "how many {many} are there?",
        "count the {many}",
        "what is the <number> {many}?",
        "<show> the <number> {many}",
        "<number> {many}",
    ),
    (
        "count all {many}",
        "tell me how many {many} there are",
        "how many {many} do we have?",
        "how many {one} records exist?",
        "what does counting all the {many} give?",
        "how large is the number of {many}?",
    ),
)
_COUNT_THAT = Phrase(
    (
        "how many {many} {that} are there?",
        "count the {many} {that}",
        "what is the <number> {many} {that}?",
        "<show> the <number> {many} {that}",
        "<number> {many} {that}",
        "how many {many} are there {that}?",
    ),
    (
        "tell me how many {many} {that} exist",
        "among the {many}, how many are there {that}?",
        "count only {many} {that}",
        "how many {many} {that} do we have?",
        "for {many} {that}, <then> how many there are",
        "I need a count of all {many} {that}",
    ),
)
_COUNT_DISTINCT = Phrase(
    (
        "how many <distinct> {c} do the {many} have?",
        "count the <distinct> {c} of {many}",
        "what is the number of <distinct> {c} of {many}?",
        "<show> the number of <distinct> {c} of all {many}",
        "number of <distinct> {c} of {many}",
        "how many <distinct> {c} are there among the {many}?",
    ),
    (
        "how many {c} values occur among the {many}, not counting repeats?",
        "counting duplicates once, how many {c} do the {many} have?",
        "tell me how many <distinct> {c} appear in {many}",
        "across all {many}, how many <distinct> {c} are there?",
        "into how many {c} do the {many} fall?",
    ),
)
_AGGREGATE = Phrase(
    (
        "what is the {g} of all {many}?",
        "<show> the {g} of all {many}",
        "what is the {g} of the {many}?",
        "<show> the {g} of {many}",
        "{g} of all {many}",
        "<show> the {g} across all {many}",
    ),
    (
        "over all {many}, what is the {g}?",
        "compute the {g} for the {many}",
        "taking all {many} together, what is the {g}?",
        "I would like to know the {g} of the {many}",
        "what does the {g} of the {many} amount to?",
        "what {g} do the {many} have?",
        "calculate the {g} over every {one}",
    ),
)
_AGGREGATE_THAT = Phrase(
    (
        "what is the {g} of {many} {that}?",
        "<show> the {g} of {many} {that}",
        "what is the {g} of all {many} {that}?",
        "for {many} {that}, what is the {g}?",
        "{g} of {many} {that}",
        "<show> the {g} of the {many} {that}",
    ),
    (
        "considering only {many} {that}, what is the {g}?",
        "compute the {g} for {many} {that}",
        "among {many} {that}, what is the {g}?",
        "I would like to know the {g} of {many} {that}",
        "taking only {many} {that}, <then> the {g}",
        "calculate the {g} over every {one} {that}",
    ),
)
_TWO = Phrase(("{g} and {h}", "{g} and the {h}"), ("{g} together with the {h}", "{g} as well as the {h}"))

Draw = Callable[[Profile, Random], Draft | None]


def _count(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    return Draft(f"SELECT COUNT(*) FROM {table.sql}", table_slots(table))


def _count_that(*makers: on.Maker) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        where = on.condition(table, r, makers, rows=True)
        if where is None:
            return None
        sql = f"SELECT COUNT(*) FROM {table.sql} WHERE {where.sql()}"
        return Draft(sql, {**table_slots(table), "that": where.that})

    return draw


def _count_two(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    one = on.condition(table, r, rows=True)
    two = on.condition(table, r, avoid=one.column.name, rows=True) if one else None
    if one is None or two is None:
        return None
    sql = f"SELECT COUNT(*) FROM {table.sql} WHERE {one.sql()} AND {two.sql()}"
    that = Phrase(("{that} and {also}",), ("{that} and also {also}", "{also} and {that}"))
    return Draft(sql, {**table_slots(table), "that": that.having(that=one.that, also=two.that)})


def _count_distinct(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    column = table.pick(r, lambda c: not c.key and c.kind in ("text", "number") and 1 < c.distinct < c.rows - c.nulls)
    if column is None:
        return None
    return Draft(f"SELECT COUNT(DISTINCT {column.sql}) FROM {table.sql}", {**table_slots(table), "c": column.words})


def _aggregate(function: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        made = aggregate(table, r, (function,))
        if made is None:
            return None
        _, column, words = made
        return Draft(f"SELECT {function}({column.sql}) FROM {table.sql}", {**table_slots(table), "g": words})

    return draw


def _aggregate_that(*functions: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        made = aggregate(table, r, functions)
        where = on.condition(table, r, avoid=made[1].name, rows=True) if made else None
        if made is None or where is None:
            return None
        function, column, words = made
        sql = f"SELECT {function}({column.sql}) FROM {table.sql} WHERE {where.sql()}"
        return Draft(sql, {**table_slots(table), "g": words, "that": where.that})

    return draw


def _two_aggregates(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    made = aggregate(table, r, ("MIN",))
    if made is None:
        return None
    _, column, lowest = made
    _, highest = column, aggregate_words(column.kind, column.words)
    sql = f"SELECT MIN({column.sql}), MAX({column.sql}) FROM {table.sql}"
    return Draft(sql, {**table_slots(table), "g": _TWO.having(g=lowest, h=highest)})


def aggregate_words(kind: str, words: str) -> Phrase:
    """The words for MAX of a column."""
    return Phrase(("<latest> {c}",) if kind in ("date", "timestamp") else ("<highest> {c}",), (), {"c": words})


SHAPES = (
    Shape("count_all", "easy", _COUNT, _count),
    Shape("count_filter", "easy", _COUNT_THAT, _count_that(*on.USUAL)),
    Shape("count_text_filter", "easy", _COUNT_THAT, _count_that(on.prefix, on.contains, on.one_of, on.missing)),
    Shape("count_year", "medium", _COUNT_THAT, _count_that(on.in_year)),
    Shape("count_and", "medium", _COUNT_THAT, _count_two),
    Shape("count_distinct", "easy", _COUNT_DISTINCT, _count_distinct),
    Shape("sum", "easy", _AGGREGATE, _aggregate("SUM")),
    Shape("average", "easy", _AGGREGATE, _aggregate("AVG")),
    Shape("minimum", "easy", _AGGREGATE, _aggregate("MIN")),
    Shape("maximum", "easy", _AGGREGATE, _aggregate("MAX")),
    Shape("minimum_maximum", "medium", _AGGREGATE, _two_aggregates, rare=True),
    Shape("sum_filter", "medium", _AGGREGATE_THAT, _aggregate_that("SUM")),
    Shape("average_filter", "medium", _AGGREGATE_THAT, _aggregate_that("AVG")),
    Shape("extreme_filter", "medium", _AGGREGATE_THAT, _aggregate_that("MIN", "MAX")),
)

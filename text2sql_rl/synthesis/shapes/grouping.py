"""Shapes that group the rows of one table by a category, or by the year of a date."""

from __future__ import annotations

from random import Random

from text2sql_rl.synthesis import conditions as on
from text2sql_rl.synthesis.profile import Profile
from text2sql_rl.synthesis.shape import (
    Draft,
    Draw,
    Shape,
    a_table,
    aggregate,
    grouped,
    table_slots,
)
from text2sql_rl.synthesis.shapes import chosen_groups
from text2sql_rl.synthesis.wording import Phrase

_COUNT = Phrase(
    (
        "how many {many} are there <foreach> {k}?",
        "<show> each {k} and the <number> {many}",
        "<foreach> {k}, count the {many}",
        "<show> the <number> {many} <foreach> {k}, with the {k}",
        "what is the <number> {many} for each {k}?",
        "{k} and <number> {many} for each {k}",
    ),
    (
        "count the {many} in each {k}, and name the {k}",
        "group the {many} by {k} and count them",
        "break the {many} down by {k}: how many in each?",
        "<show> every {k} along with how many {many} it has",
        "how are the {many} spread over {k}? <then> {k} and count",
        "for all values of {k}, how many {many} have it?",
    ),
)
_COUNT_THAT = Phrase(
    (
        "how many {many} {that} are there <foreach> {k}?",
        "<show> each {k} and the <number> {many} {that}",
        "<foreach> {k}, count the {many} {that}",
        "for {many} {that}, <then> each {k} and the <number> {many}",
        "what is the <number> {many} {that} for each {k}?",
    ),
    (
        "group the {many} {that} by {k} and count them",
        "considering only {many} {that}, how many are there for each {k}?",
        "take the {many} {that}: <then> each {k} with its count",
        "among {many} {that}, <then> every {k} along with the <number> {many}",
        "break the {many} {that} down by {k} and count",
    ),
)
_AGGREGATE = Phrase(
    (
        "what is the {g} of {many} <foreach> {k}?",
        "<show> each {k} and the {g} of its {many}",
        "<foreach> {k}, <then> the {g} of the {many}",
        "<show> the {k} and the {g} of {many} for each {k}",
        "what is the {g} for each {k} of the {many}?",
        "{k} and {g} of {many} for each {k}",
    ),
    (
        "group the {many} by {k} and <then> the {g}",
        "<show> every {k} of the {many} along with the {g}",
        "break the {many} down by {k}: what is the {g}?",
        "what does the {g} of the {many} in each {k} amount to? <then> {k} too",
        "compute the {g} of {many} separately for each {k}",
        "for all values of {k}, what is the {g} of the {many}?",
    ),
)
_ORDERED = Phrase(
    (
        "<show> each {k} and the <number> {many}, most first",
        "<show> the <number> {many} for each {k}, with the {k}, from most to fewest",
        "for each {k}, count the {many}, ordered from most to fewest",
        "<show> each {k} and the <number> {many}, sorted by the <number> {many} in descending order",
    ),
    (
        "rank each {k} by its <number> {many}, largest first, and show the number",
        "group the {many} by {k} and count them, biggest group first",
        "which {k} have how many {many}? start with the most",
        "how many {many} are there for each {k}? <then> {k} and number, highest number first",
    ),
)
_PAIR = Phrase(
    (
        "how many {many} are there for each {k} and {j}?",
        "<show> each {k} and {j} with the <number> {many}",
        "for each {k} and {j}, count the {many}",
        "<show> {k}, {j} and the <number> {many} for each combination of {k} and {j}",
    ),
    (
        "count the {many} by {k} and {j}",
        "group the {many} by {k} and {j} and count them",
        "for every combination of {k} and {j}, how many {many} are there?",
        "break the {many} down by {k} and then {j}: how many in each?",
    ),
)
_YEARLY = Phrase(
    (
        "how many {many} are there for each year of {k}?",
        "for each year of {k}, count the {many}",
        "<show> each year of {k} and the <number> {many}",
        "count the {many} per year of {k}",
        "<show> the <number> {many} for each year of {k}, with the year",
    ),
    (
        "group the {many} by the year of their {k} and count them",
        "how many {many} fall in each year, going by {k}? <then> year and count",
        "by year of {k}, what is the <number> {many}?",
        "<show> every year of {k} along with how many {many} it has",
    ),
)
_COUNT_NAMES = Phrase(
    (
        "how many <distinct> {c} do the {many} have <foreach> {k}?",
        "<show> each {k} and the number of <distinct> {c} of its {many}",
        "for each {k} of {many}, count the <distinct> {c}",
        "<show> the {k} and the number of <distinct> {c} of {many} for each {k}",
    ),
    (
        "group the {many} by {k} and count the <distinct> {c}",
        "for every {k}, how many <distinct> {c} occur among the {many}?",
        "<show> every {k} of the {many} along with how many <distinct> {c} it has",
        "counting duplicates once, how many {c} are there in each {k} of the {many}?",
    ),
)


def _count(profile: Profile, r: Random) -> Draft | None:
    made = grouped(profile, r)
    if made is None:
        return None
    table, key, slots = made
    return Draft(f"SELECT {key.sql}, COUNT(*) FROM {table.sql} GROUP BY {key.sql}", slots)


def _count_that(profile: Profile, r: Random) -> Draft | None:
    made = grouped(profile, r)
    where = on.condition(made[0], r, avoid=made[1].name, rows=True) if made else None
    if made is None or where is None:
        return None
    table, key, slots = made
    sql = f"SELECT {key.sql}, COUNT(*) FROM {table.sql} WHERE {where.sql()} GROUP BY {key.sql}"
    return Draft(sql, {**slots, "that": where.that})


def _ordered(profile: Profile, r: Random) -> Draft | None:
    made = grouped(profile, r)
    if made is None:
        return None
    table, key, slots = made
    sql = f"SELECT {key.sql}, COUNT(*) FROM {table.sql} GROUP BY {key.sql} ORDER BY COUNT(*) DESC"
    return Draft(sql, slots)


def _aggregate(*functions: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        made = grouped(profile, r)
        reduced = aggregate(made[0], r, functions) if made else None
        if made is None or reduced is None or reduced[1] is made[1]:
            return None
        (table, key, slots), (function, column, words) = made, reduced
        sql = f"SELECT {key.sql}, {function}({column.sql}) FROM {table.sql} GROUP BY {key.sql}"
        return Draft(sql, {**slots, "g": words})

    return draw


def _pair(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    keys = [c for c in table.columns if c.category or (c.kind == "boolean" and c.nulls == 0)]
    if len(keys) < 2:
        return None
    one, two = r.sample(keys, 2)
    sql = f"SELECT {one.sql}, {two.sql}, COUNT(*) FROM {table.sql} GROUP BY {one.sql}, {two.sql}"
    return Draft(sql, {**table_slots(table), "k": one.words, "j": two.words})


def _yearly(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    column = table.pick(r, lambda c: c.kind in ("date", "timestamp") and c.nulls == 0)
    if column is None:
        return None
    year = f"YEAR({column.sql})"
    return Draft(f"SELECT {year}, COUNT(*) FROM {table.sql} GROUP BY {year}", {**table_slots(table), "k": column.words})


def _count_names(profile: Profile, r: Random) -> Draft | None:
    made = grouped(profile, r)
    if made is None:
        return None
    table, key, slots = made
    column = table.pick(r, lambda c: c.kind == "text" and not c.key and not c.unique and c.name != key.name)
    if column is None:
        return None
    sql = f"SELECT {key.sql}, COUNT(DISTINCT {column.sql}) FROM {table.sql} GROUP BY {key.sql}"
    return Draft(sql, {**slots, "c": column.words})


SHAPES = (
    Shape("group_count", "easy", _COUNT, _count),
    Shape("group_count_filter", "medium", _COUNT_THAT, _count_that),
    Shape("group_average", "medium", _AGGREGATE, _aggregate("AVG")),
    Shape("group_sum", "medium", _AGGREGATE, _aggregate("SUM")),
    Shape("group_extreme", "medium", _AGGREGATE, _aggregate("MIN", "MAX")),
    *chosen_groups.SHAPES,
    Shape("group_ordered", "medium", _ORDERED, _ordered),
    Shape("group_pair", "medium", _PAIR, _pair, rare=True),
    Shape("group_year", "medium", _YEARLY, _yearly),
    Shape("group_count_distinct", "hard", _COUNT_NAMES, _count_names, rare=True),
)

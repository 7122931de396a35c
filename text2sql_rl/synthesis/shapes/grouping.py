"""Shapes that group the rows of one table by a category, or by the year of a date."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from text2sql_rl.synthesis import conditions as on
from text2sql_rl.synthesis.profile import ColumnProfile, Profile, TableProfile
from text2sql_rl.synthesis.shape import Draft, Shape, a_table, aggregate, table_slots
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
_HAVING = Phrase(
    (
        "which {k} have {n} {many}?",
        "<show> each {k} that has {n} {many}",
        "<show> the {k} with {n} {many}",
        "which {k} has {n} {many}?",
        "{k} with {n} {many}",
    ),
    (
        "for which {k} are there {n} {many}?",
        "group the {many} by {k} and keep each {k} with {n} of them",
        "<show> every {k} shared by {n} {many}",
        "name each {k} that occurs for {n} {many}",
        "only {k} having {n} {many}, please",
    ),
)
_HAVING_AGGREGATE = Phrase(
    (
        "which {k} have {g} {n} among the {many}?",
        "<show> each {k} whose {many} have {g} {n}",
        "<show> the {k} of {many} with {g} {n}",
        "for which {k} is the {g} of {many} {n}?",
        "{k} whose {g} of {many} is {n}",
    ),
    (
        "group the {many} by {k} and keep each {k} with {g} {n}",
        "name each {k} where the {g} of the {many} is {n}",
        "in which {k} does the {g} of the {many} come out {n}?",
        "<show> every {k} for which the {many} have {g} {n}",
    ),
)
_MOST = Phrase(
    (
        "which {k} has <most> {many}?",
        "<show> the {k} with <most> {many}",
        "what is the most common {k} of {many}?",
        "<show> the most common {k} of all {many}",
        "what is the {k} with <most> {many}?",
        "{k} with <most> {many}",
    ),
    (
        "what is the most frequent {k} among the {many}?",
        "<show> the {k} that occurs most often among the {many}",
        "which {k} do most {many} have?",
        "group the {many} by {k}: which {k} is the biggest group?",
        "name the {k} shared by <most> {many}",
        "to which {k} do more {many} belong than to any other?",
    ),
)
_LEAST = Phrase(
    (
        "which {k} has the fewest {many}?",
        "<show> the {k} with the fewest {many}",
        "what is the least common {k} of {many}?",
        "<show> the least common {k} of all {many}",
        "{k} with the fewest {many}",
    ),
    (
        "what is the rarest {k} among the {many}?",
        "<show> the {k} that occurs least often among the {many}",
        "which {k} has the lowest <number> {many}?",
        "group the {many} by {k}: which {k} is the smallest group?",
        "name the {k} shared by the fewest {many}",
    ),
)
_TOP_AGGREGATE = Phrase(
    (
        "which {k} of {many} has the highest {g}?",
        "<show> the {k} of {many} with the highest {g}",
        "which {k} has the highest {g} of {many}?",
        "{k} of {many} with the highest {g}",
        "what is the {k} with the highest {g} of {many}?",
    ),
    (
        "for which {k} of {many} is the {g} greatest?",
        "group the {many} by {k}: which {k} comes out with the highest {g}?",
        "<show> the one {k} whose {many} have the highest {g}",
        "name the {k} where the {g} of {many} is largest",
        "in which {k} do {many} reach the highest {g}?",
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
_MORE_THAN = {
    ">": Phrase(("<over> {n}",)),
    ">=": Phrase(("<atleast> {n}",)),
    "<": Phrase(("<under> {n}",)),
}
# "above 5 horses" is no English: counts have their own synonyms.
_MORE_OF = {
    ">": Phrase(("more than {n}",), ("over {n}", "upwards of {n}")),
    ">=": Phrase(("at least {n}",), ("{n} or more", "no fewer than {n}", "a minimum of {n}")),
    "<": Phrase(("fewer than {n}", "less than {n}"), ("under {n}",)),
}

Draw = Callable[[Profile, Random], Draft | None]


def _grouped(profile: Profile, r: Random) -> tuple[TableProfile, ColumnProfile, dict[str, str | Phrase]] | None:
    table = a_table(profile, r)
    key = table.pick(r, lambda c: c.category or (c.year and c.nulls == 0 and c.distinct * 2 <= c.rows))
    return (table, key, {**table_slots(table), "k": key.words}) if key else None


def _count(profile: Profile, r: Random) -> Draft | None:
    made = _grouped(profile, r)
    if made is None:
        return None
    table, key, slots = made
    return Draft(f"SELECT {key.sql}, COUNT(*) FROM {table.sql} GROUP BY {key.sql}", slots)


def _count_that(profile: Profile, r: Random) -> Draft | None:
    made = _grouped(profile, r)
    where = on.condition(made[0], r, avoid=made[1].name, rows=True) if made else None
    if made is None or where is None:
        return None
    table, key, slots = made
    sql = f"SELECT {key.sql}, COUNT(*) FROM {table.sql} WHERE {where.sql()} GROUP BY {key.sql}"
    return Draft(sql, {**slots, "that": where.that})


def _ordered(profile: Profile, r: Random) -> Draft | None:
    made = _grouped(profile, r)
    if made is None:
        return None
    table, key, slots = made
    sql = f"SELECT {key.sql}, COUNT(*) FROM {table.sql} GROUP BY {key.sql} ORDER BY COUNT(*) DESC"
    return Draft(sql, slots)


def _aggregate(*functions: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        made = _grouped(profile, r)
        reduced = aggregate(made[0], r, functions) if made else None
        if made is None or reduced is None or reduced[1] is made[1]:
            return None
        (table, key, slots), (function, column, words) = made, reduced
        sql = f"SELECT {key.sql}, {function}({column.sql}) FROM {table.sql} GROUP BY {key.sql}"
        return Draft(sql, {**slots, "g": words})

    return draw


def _having(profile: Profile, r: Random) -> Draft | None:
    made = _grouped(profile, r)
    if made is None:
        return None
    table, key, slots = made
    operator = r.choice((">", ">", ">=", "<"))
    count = r.randint(1, max(2, 2 * table.rows // key.distinct))
    sql = f"SELECT {key.sql} FROM {table.sql} GROUP BY {key.sql} HAVING COUNT(*) {operator} {count}"
    return Draft(sql, {**slots, "n": _MORE_OF[operator].having(n=str(count))})


def _having_aggregate(profile: Profile, r: Random) -> Draft | None:
    made = _grouped(profile, r)
    reduced = aggregate(made[0], r, ("AVG", "SUM")) if made else None
    if made is None or reduced is None:
        return None
    (table, key, slots), (function, column, words) = made, reduced
    middle = float(sorted(column.values)[len(column.values) // 2])
    scale = table.rows / key.distinct if function == "SUM" else 1
    bound = _rounded(middle * scale * r.uniform(0.7, 1.3))
    operator = r.choice((">", "<"))
    sql = f"SELECT {key.sql} FROM {table.sql} GROUP BY {key.sql} HAVING {function}({column.sql}) {operator} {bound}"
    return Draft(sql, {**slots, "g": words, "n": _MORE_THAN[operator].having(n=str(bound))})


def _rounded(value: float) -> int | float:
    """Two leading digits, as a person would name a bound."""
    if abs(value) < 10:
        return round(value, 1)
    step: int = 10 ** (len(str(int(abs(value)))) - 2)
    return int(value // step * step)


def _by_count(direction: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        made = _grouped(profile, r)
        if made is None:
            return None
        table, key, slots = made
        order = f"ORDER BY COUNT(*) {direction} LIMIT 1"
        return Draft(f"SELECT {key.sql} FROM {table.sql} GROUP BY {key.sql} {order}", slots)

    return draw


def _by_aggregate(profile: Profile, r: Random) -> Draft | None:
    made = _grouped(profile, r)
    reduced = aggregate(made[0], r, ("AVG", "SUM")) if made else None
    if made is None or reduced is None:
        return None
    (table, key, slots), (function, column, words) = made, reduced
    order = f"ORDER BY {function}({column.sql}) DESC LIMIT 1"
    return Draft(f"SELECT {key.sql} FROM {table.sql} GROUP BY {key.sql} {order}", {**slots, "g": words})


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
    made = _grouped(profile, r)
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
    Shape("group_having", "medium", _HAVING, _having),
    Shape("group_having_aggregate", "hard", _HAVING_AGGREGATE, _having_aggregate, rare=True),
    Shape("group_most", "medium", _MOST, _by_count("DESC")),
    Shape("group_fewest", "medium", _LEAST, _by_count("ASC")),
    Shape("group_top_aggregate", "hard", _TOP_AGGREGATE, _by_aggregate, rare=True),
    Shape("group_ordered", "medium", _ORDERED, _ordered),
    Shape("group_pair", "medium", _PAIR, _pair, rare=True),
    Shape("group_year", "medium", _YEARLY, _yearly),
    Shape("group_count_distinct", "hard", _COUNT_NAMES, _count_names, rare=True),
)

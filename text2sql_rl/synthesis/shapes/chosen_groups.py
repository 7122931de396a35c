"""Shapes that group the rows of one table and ask for some of the groups: above a bound, the largest, the smallest."""

from __future__ import annotations

from random import Random

from text2sql_rl.synthesis.profile import Profile
from text2sql_rl.synthesis.shape import (
    Draft,
    Draw,
    Shape,
    aggregate,
    grouped,
)
from text2sql_rl.synthesis.wording import Phrase

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


def _having(profile: Profile, r: Random) -> Draft | None:
    made = grouped(profile, r)
    if made is None:
        return None
    table, key, slots = made
    operator = r.choice((">", ">", ">=", "<"))
    count = r.randint(1, max(2, 2 * table.rows // key.distinct))
    sql = f"SELECT {key.sql} FROM {table.sql} GROUP BY {key.sql} HAVING COUNT(*) {operator} {count}"
    return Draft(sql, {**slots, "n": _MORE_OF[operator].having(n=str(count))})


def _having_aggregate(profile: Profile, r: Random) -> Draft | None:
    made = grouped(profile, r)
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
        made = grouped(profile, r)
        if made is None:
            return None
        table, key, slots = made
        order = f"ORDER BY COUNT(*) {direction} LIMIT 1"
        return Draft(f"SELECT {key.sql} FROM {table.sql} GROUP BY {key.sql} {order}", slots)

    return draw


def _by_aggregate(profile: Profile, r: Random) -> Draft | None:
    made = grouped(profile, r)
    reduced = aggregate(made[0], r, ("AVG", "SUM")) if made else None
    if made is None or reduced is None:
        return None
    (table, key, slots), (function, column, words) = made, reduced
    order = f"ORDER BY {function}({column.sql}) DESC LIMIT 1"
    return Draft(f"SELECT {key.sql} FROM {table.sql} GROUP BY {key.sql} {order}", {**slots, "g": words})


SHAPES = (
    Shape("group_having", "medium", _HAVING, _having),
    Shape("group_having_aggregate", "hard", _HAVING_AGGREGATE, _having_aggregate, rare=True),
    Shape("group_most", "medium", _MOST, _by_count("DESC")),
    Shape("group_fewest", "medium", _LEAST, _by_count("ASC")),
    Shape("group_top_aggregate", "hard", _TOP_AGGREGATE, _by_aggregate, rare=True),
)

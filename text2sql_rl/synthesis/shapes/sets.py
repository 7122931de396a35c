"""Shapes that combine two result sets of one table: UNION, INTERSECT, EXCEPT."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from text2sql_rl.synthesis import conditions as on
from text2sql_rl.synthesis.profile import Profile
from text2sql_rl.synthesis.shape import Draft, Shape, a_table, table_slots
from text2sql_rl.synthesis.wording import Phrase

_UNION = Phrase(
    (
        "<show> the <distinct> {c} of {many} {that} together with those of {many} {also}",
        "<show> the union of the {c} of {many} {that} and the {c} of {many} {also}",
        "which <distinct> {c} do {many} {that} or {many} {also} have?",
        "what are the <distinct> {c} found in {many} {that} or in {many} {also}?",
    ),
    (
        "put together the {c} of {many} {that} and of {many} {also}, each only once",
        "merge the {c} of {many} {that} with the {c} of {many} {also}, without duplicates",
        "<show> each {c} once if it occurs in {many} {that} or in {many} {also}",
        "the {c} of {many} {that} plus the {c} of {many} {also}, no repeats",
    ),
)
_INTERSECT = Phrase(
    (
        "which {c} have both {many} {that} and {many} {also}?",
        "<show> the {c} that occur both for {many} {that} and for {many} {also}",
        "<show> each {c} with {many} {that} and also {many} {also}",
        "what are the {c} shared by {many} {that} and {many} {also}?",
    ),
    (
        "which {c} appear among {many} {that} as well as among {many} {also}?",
        "<show> the intersection of the {c} of {many} {that} and the {c} of {many} {also}",
        "find each {c} common to {many} {that} and {many} {also}",
        "name the {c} found in {many} {that} and at the same time in {many} {also}",
    ),
)
_EXCEPT = Phrase(
    (
        "which {c} have {many} {that} but no {many} {also}?",
        "<show> the {c} that occur for {many} {that} but not for {many} {also}",
        "<show> each {c} of {many} {that} except those of {many} {also}",
        "what are the {c} of {many} {that} that no {many} {also} have?",
    ),
    (
        "take the {c} of {many} {that} and leave out every {c} of {many} {also}",
        "which {c} appear among {many} {that} and never among {many} {also}?",
        "the {c} of {many} {that} minus the {c} of {many} {also}",
        "name each {c} found in {many} {that} and missing from {many} {also}",
    ),
)

Draw = Callable[[Profile, Random], Draft | None]


def _combined(operator: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        column = table.pick(r, lambda c: c.kind == "text" and not c.key and not c.unique and c.nulls == 0)
        one = on.condition(table, r, avoid=column.name, rows=True) if column else None
        two = on.condition(table, r, avoid=column.name, rows=True) if column else None
        if column is None or one is None or two is None or one.sql() == two.sql():
            return None
        first, second = (f"SELECT {column.sql} FROM {table.sql} WHERE {where.sql()}" for where in (one, two))
        slots = {**table_slots(table), "c": column.words, "that": one.that, "also": two.that}
        return Draft(f"{first} {operator} {second}", slots)

    return draw


SHAPES = (
    Shape("union", "hard", _UNION, _combined("UNION"), rare=True),
    Shape("intersect", "hard", _INTERSECT, _combined("INTERSECT")),
    Shape("except", "hard", _EXCEPT, _combined("EXCEPT")),
)

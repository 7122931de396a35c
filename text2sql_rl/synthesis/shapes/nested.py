"""Shapes with a query inside the query: above average, equal to the extreme, in and not in another table."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from text2sql_rl.synthesis import conditions as on
from text2sql_rl.synthesis.profile import ColumnProfile, Profile
from text2sql_rl.synthesis.shape import Draft, Shape, a_relation, a_table, among, link_slots, shown, table_slots
from text2sql_rl.synthesis.wording import Phrase

_ABOVE = Phrase(
    (
        "<show> the {c} of {many} whose {k} is <over> the average",
        "<show> the {c} of {many} with {k} <over> the average {k}",
        "what is the {c} of {many} whose {k} is <over> average?",
        "which {many} have {k} <over> the average? <then> the {c}",
        "{c} of {many} with {k} <over> average",
    ),
    (
        "<show> the {c} of every {one} that beats the average {k}",
        "compute the average {k} of all {many} and <then> the {c} of those <over> it",
        "for {many} with above-average {k}, what is the {c}?",
        "whose {k} exceeds the mean {k} of all {many}? <then> the {c}",
        "<show> the {c} of {many} having {k} <over> the mean",
    ),
)
_BELOW = Phrase(
    (
        "<show> the {c} of {many} whose {k} is <under> the average",
        "<show> the {c} of {many} with {k} <under> the average {k}",
        "what is the {c} of {many} whose {k} is <under> average?",
        "which {many} have {k} <under> the average? <then> the {c}",
        "{c} of {many} with {k} <under> average",
    ),
    (
        "<show> the {c} of every {one} that stays below the average {k}",
        "compute the average {k} of all {many} and <then> the {c} of those <under> it",
        "for {many} with below-average {k}, what is the {c}?",
        "whose {k} falls short of the mean {k} of all {many}? <then> the {c}",
        "<show> the {c} of {many} having {k} <under> the mean",
    ),
)
_COUNT_ABOVE = Phrase(
    (
        "how many {many} have {k} <over> the average?",
        "count the {many} whose {k} is <over> the average",
        "what is the <number> {many} with {k} <over> the average {k}?",
        "<number> {many} with {k} <over> average",
        "<show> the <number> {many} whose {k} is <over> average",
    ),
    (
        "how many {many} beat the average {k}?",
        "compute the average {k} of all {many}: how many are <over> it?",
        "tell me how many {many} have above-average {k}",
        "for how many {many} does {k} exceed the mean {k}?",
    ),
)
_EXTREME = Phrase(
    (
        "<show> the {c} of all {many} whose {k} equals the {best} {k}",
        "<show> the {c} of every {one} whose {k} is the {best} of all {many}",
        "what is the {c} of the {many} that share the {best} {k}?",
        "which {many} have the {best} {k}, ties included? <then> the {c}",
        "{c} of all {many} tied for the {best} {k}",
    ),
    (
        "take the {best} {k} of all {many}; <then> the {c} of every {one} that has it",
        "<show> the {c} of each {one} reaching the {best} {k}, including ties",
        "for all {many} at the {best} {k}, what is the {c}?",
        "whose {k} is equal to the {best} {k} among {many}? <then> the {c} of all",
    ),
)
_WITHOUT = Phrase(
    (
        "<show> the {p} of {parents} without any {children}",
        "which {parents} have no {children}? <then> the {p}",
        "what is the {p} of {parents} that have no {children}?",
        "<show> the {p} of {parents} with no {children}",
        "{p} of {parents} without {children}",
        "<show> the {p} of all {parents} that do not have any {child}",
    ),
    (
        "to which {parents} does not a single {child} belong? <then> the {p}",
        "<show> the {p} of every {parent} that never appears among the {children}",
        "{parents} lacking {children}: {p}",
        "find {parents} for which there is no {child} and <then> their {p}",
        "what {p} do {parents} have that are without even one {child}?",
    ),
)
_COUNT_WITHOUT = Phrase(
    (
        "how many {parents} have no {children}?",
        "count the {parents} without any {children}",
        "what is the <number> {parents} without {children}?",
        "<number> {parents} with no {children}",
        "<show> the <number> {parents} that have no {children}",
    ),
    (
        "for how many {parents} is there not a single {child}?",
        "how many {parents} never appear among the {children}?",
        "tell me how many {parents} are lacking {children}",
        "count each {parent} that does not have even one {child}",
    ),
)
_WITH = Phrase(
    (
        "<show> the {p} of {parents} that have at least one {child} {this}",
        "which {parents} have {a_child} {this}? <then> the {p}",
        "what is the {p} of {parents} with at least one {child} {this}?",
        "<show> the {p} of <each> {parent} that has {a_child} {this}",
        "{p} of {parents} with some {child} {this}",
    ),
    (
        "find {parents} for which there is {a_child} {this} and <then> their {p}",
        "<show> the {p} of every {parent} that appears among the {children} {this}",
        "to which {parents} does {a_child} {this} belong? <then> each {p} once per {parent}",
        "for {parents} having one or more {children} {this}, what is the {p}?",
    ),
)
_NEVER = Phrase(
    (
        "<show> the {p} of {parents} that have no {child} {this}",
        "which {parents} have no {children} {this}? <then> the {p}",
        "what is the {p} of {parents} without any {child} {this}?",
        "{p} of {parents} without any {child} {this}",
    ),
    (
        "<show> the {p} of every {parent} that never appears among the {children} {this}",
        "leave out {parents} that have {a_child} {this} and <then> the {p} of the others",
        "find {parents} lacking {children} {this} and <then> their {p}",
        "for which {parents} is there not a single {child} {this}? <then> the {p}",
    ),
)

Draw = Callable[[Profile, Random], Draft | None]


def _measure(column: ColumnProfile) -> bool:
    return column.measure


def _against_average(operator: str, *, count: bool = False) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        key, chosen = table.pick(r, _measure), shown(table, r)
        if key is None or chosen is None or chosen[0] is key:
            return None
        what = "COUNT(*)" if count else chosen[0].sql
        sql = f"SELECT {what} FROM {table.sql} WHERE {key.sql} {operator} (SELECT AVG({key.sql}) FROM {table.sql})"
        return Draft(sql, {**table_slots(table), "c": chosen[0].words, "k": key.words})

    return draw


def _extreme(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    key = table.pick(r, lambda c: (c.measure or c.year) and 3 < c.distinct < c.rows)
    chosen = shown(table, r)
    if key is None or chosen is None or chosen[0] is key:
        return None
    function, best = r.choice((("MAX", Phrase(("<highest>",))), ("MIN", Phrase(("<lowest>",)))))
    sql = f"SELECT {chosen[0].sql} FROM {table.sql} WHERE {key.sql} = (SELECT {function}({key.sql}) FROM {table.sql})"
    return Draft(sql, {**table_slots(table), "c": chosen[0].words, "k": key.words, "best": best})


def _not_in(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    chosen = shown(relation.parent, r) if relation else None
    # One NULL in the list would make NOT IN keep nothing, whatever the words say.
    if relation is None or chosen is None or not relation.childless or relation.key.nullable:
        return None
    parent, child = relation.parent, relation.child
    inner = f"SELECT {relation.key.sql} FROM {child.sql}"
    sql = f"SELECT {chosen[0].sql} FROM {parent.sql} WHERE {relation.target.sql} NOT IN ({inner})"
    return Draft(sql, {**link_slots(relation), "p": among(chosen[0], parent, child)})


def _not_exists(what: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        relation = a_relation(profile, r)
        chosen = shown(relation.parent, r) if relation else None
        if relation is None or chosen is None or not relation.childless:
            return None
        parent, child = relation.parent, relation.child
        inner = f"SELECT * FROM {child.sql} WHERE {relation.key.qualified} = {relation.target.qualified}"
        shows = what or chosen[0].sql
        sql = f"SELECT {shows} FROM {parent.sql} WHERE NOT EXISTS ({inner})"
        return Draft(sql, {**link_slots(relation), "p": among(chosen[0], parent, child)})

    return draw


def _in(operator: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        relation = a_relation(profile, r)
        if relation is None or (operator == "NOT IN" and relation.key.nullable):
            return None
        chosen, where = shown(relation.parent, r), on.condition(relation.child, r)
        if chosen is None or where is None:
            return None
        parent, child = relation.parent, relation.child
        inner = f"SELECT {relation.key.sql} FROM {child.sql} WHERE {where.sql()}"
        sql = f"SELECT {chosen[0].sql} FROM {parent.sql} WHERE {relation.target.sql} {operator} ({inner})"
        this = where.said(among(where.column, child, parent))
        return Draft(sql, {**link_slots(relation), "p": among(chosen[0], parent, child), "this": this})

    return draw


SHAPES = (
    Shape("above_average", "hard", _ABOVE, _against_average(">")),
    Shape("below_average", "hard", _BELOW, _against_average("<")),
    Shape("count_above_average", "hard", _COUNT_ABOVE, _against_average(">", count=True), rare=True),
    Shape("equal_extreme", "hard", _EXTREME, _extreme),
    Shape("not_in", "hard", _WITHOUT, _not_in),
    Shape("not_exists", "hard", _WITHOUT, _not_exists(""), rare=True),
    Shape("count_not_exists", "hard", _COUNT_WITHOUT, _not_exists("COUNT(*)"), rare=True),
    Shape("in_subquery", "hard", _WITH, _in("IN")),
    Shape("not_in_subquery", "hard", _NEVER, _in("NOT IN"), rare=True),
)

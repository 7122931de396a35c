"""Shapes over two tables, grouped by what the parent says: children counted or reduced for each, and who has most."""

from __future__ import annotations

from random import Random

from text2sql_rl.synthesis.profile import ColumnProfile, Profile, Relation
from text2sql_rl.synthesis.shape import (
    Draft,
    Draw,
    Shape,
    a_relation,
    aggregate,
    among,
    join,
    link_slots,
    owned,
    parent_label,
)
from text2sql_rl.synthesis.wording import Phrase

_GROUP_COUNT = Phrase(
    (
        "<show> each {pp} and the <number> {children}",
        "count the {children} for each {pp}",
        "how many {children} are there for each {p} of the {parent}?",
        "for each {p} of the {parent}, count the {children}",
        "<show> the {p} of the {parent} and the <number> {children} for each {p}",
    ),
    (
        "group the {children} by the {p} of their {parent} and count them",
        "by {pp}, what is the <number> {children}?",
        "break the {children} down by the {p} of their {parent}: how many in each?",
        "<show> every {p} of {a_parent} with {children}, and how many {children} it has",
        "count {children} per {p} of the {parent} they belong to",
    ),
)
_GROUP_AGGREGATE = Phrase(
    (
        "what is the {g} of {children} for each {pp}?",
        "<show> each {pp} and the {g} of its {children}",
        "for each {p} of the {parent}, <then> the {g} of the {children}",
        "<show> the {p} of the {parent} and the {g} of {children} for each {p}",
    ),
    (
        "group the {children} by the {p} of their {parent} and <then> the {g}",
        "by {pp}, what is the {g} of the {children}?",
        "break the {children} down by the {p} of their {parent}: what is the {g}?",
        "compute the {g} of {children} separately for every {p} of the {parent}",
    ),
)
_MOST = Phrase(
    (
        "which {pp} has <most> {children}?",
        "<show> the {p} of the {parent} with <most> {children}",
        "what is the {p} of the {parent} with <most> {children}?",
        "which {p} does the {parent} with <most> {children} have?",
        "{p} of the {parent} with <most> {children}",
    ),
    (
        "<show> the {p} of the {parent} that has more {children} than any other",
        "of all {parents}, the one with <most> {children} has which {p}?",
        "rank the {parents} by their <number> {children} and <then> the {p} of the first",
        "to which {parent} do <most> {children} belong? <then> its {p}",
        "find the {parent} that most {children} belong to and give its {p}",
    ),
)
_MOST_FEW = Phrase(
    (
        "<show> the {p} of the {n} {parents} with <most> {children}",
        "what are the {p} of the {n} {parents} with <most> {children}?",
        "which {n} {pp} have <most> {children}?",
        "{p} of the {n} {parents} with <most> {children}",
    ),
    (
        "rank the {parents} by their <number> {children} and <then> the {p} of the first {n}",
        "<show> the {p} of {n} {parents}, those with <most> {children}, largest number first",
        "take the {n} {parents} that <most> {children} belong to and <then> the {p}",
        "I only want the {n} {parents} with <most> {children}: <then> their {p}",
    ),
)
_HAVING = Phrase(
    (
        "<show> the {p} of {parents} with {n} {children}",
        "which {parents} have {n} {children}? <then> the {p}",
        "what are the {p} of the {parents} that have {n} {children}?",
        "for {parents} with {n} {children}, <then> the {p}",
        "{p} of {parents} with {n} {children}",
    ),
    (
        "count the {children} of each {parent} and <then> the {p} where there are {n} {children}",
        "to which {parents} do {n} {children} belong? <then> the {p}",
        "keep only {parents} that come with {n} {children} and <then> their {p}",
        "<show> the {p} of every {parent} linked to {n} {children}",
    ),
)
MORE_OF = {
    ">": Phrase(("more than {n}",), ("over {n}", "upwards of {n}")),
    ">=": Phrase(("at least {n}",), ("{n} or more", "no fewer than {n}", "a minimum of {n}")),
}


def _grouping_column(relation: Relation, r: Random) -> ColumnProfile | None:
    return relation.parent.pick(r, lambda c: c.category or (c.label and not c.key))


def _group_count(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    column = _grouping_column(relation, r) if relation else None
    if relation is None or column is None:
        return None
    sql = f"SELECT {column.qualified}, COUNT(*) FROM {join(relation)} GROUP BY {column.qualified}"
    return Draft(sql, {**link_slots(relation), "p": column.words, "pp": owned(relation.parent, column)})


def _group_aggregate(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    column = _grouping_column(relation, r) if relation else None
    made = aggregate(relation.child, r, ("AVG", "SUM", "MAX", "MIN")) if relation else None
    if relation is None or column is None or made is None:
        return None
    function, measured, words = made
    reduced = f"{function}({measured.qualified})"
    sql = f"SELECT {column.qualified}, {reduced} FROM {join(relation)} GROUP BY {column.qualified}"
    words = words.having(c=among(measured, relation.child, relation.parent))
    return Draft(sql, {**link_slots(relation), "p": column.words, "pp": owned(relation.parent, column), "g": words})


def _most(*, few: bool) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        relation = a_relation(profile, r)
        label = parent_label(relation, r) if relation else None
        if relation is None or label is None:
            return None
        count = r.choice((2, 3, 4, 5)) if few else 1
        order = f"ORDER BY COUNT(*) DESC LIMIT {count}"
        sql = f"SELECT {label.qualified} FROM {join(relation)} GROUP BY {label.qualified} {order}"
        return Draft(
            sql, {**link_slots(relation), "p": label.words, "pp": owned(relation.parent, label), "n": str(count)}
        )

    return draw


def _having(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    label = parent_label(relation, r) if relation else None
    if relation is None or label is None:
        return None
    count = r.randint(1, max(2, 2 * relation.child.rows // relation.parent.rows))
    operator = r.choice((">", ">="))
    having = f"GROUP BY {label.qualified} HAVING COUNT(*) {operator} {count}"
    sql = f"SELECT {label.qualified} FROM {join(relation)} {having}"
    return Draft(
        sql,
        {
            **link_slots(relation),
            "p": label.words,
            "pp": owned(relation.parent, label),
            "n": MORE_OF[operator].having(n=str(count)),
        },
    )


SHAPES = (
    Shape("join_group_count", "medium", _GROUP_COUNT, _group_count),
    Shape("join_group_aggregate", "hard", _GROUP_AGGREGATE, _group_aggregate),
    Shape("join_most", "hard", _MOST, _most(few=False)),
    Shape("join_most_few", "hard", _MOST_FEW, _most(few=True), rare=True),
    Shape("join_having", "hard", _HAVING, _having),
)

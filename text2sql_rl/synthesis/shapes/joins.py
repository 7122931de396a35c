"""Shapes over two tables, along one foreign key: rows of the child, with what their parent says."""

from __future__ import annotations

from random import Random

from text2sql_rl.synthesis import conditions as on
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
    shown,
)
from text2sql_rl.synthesis.shapes import joined_groups
from text2sql_rl.synthesis.wording import Phrase

_OF_PARENT = Phrase(
    (
        "<show> the {c} of {children} of the {parent} {that}",
        "what is the {c} of {children} of {parents} {that}?",
        "<show> the {c} of all {children} of {parents} {that}",
        "for {parents} {that}, <then> the {c} of their {children}",
        "what are the {c} of the {children} that belong to {parents} {that}?",
        "{c} of {children} of {parents} {that}",
    ),
    (
        "which {c} do {children} have that belong to {a_parent} {that}?",
        "take all {parents} {that} and <then> the {c} of their {children}",
        "for every {child} of {a_parent} {that}, what is the {c}?",
        "{children} under {parents} {that}: {c}",
        "looking at {parents} {that}, <then> the {c} of <each> {child} linked to them",
        "<show> the {c} of the {children} linked to {a_parent} {that}",
    ),
)
_WITH_PARENT = Phrase(
    (
        "<show> the {c} of <each> {child} and the {p} of its {parent}",
        "for <each> {child}, <then> the {c} and the {p} of its {parent}",
        "what are the {c} and the {pp} of <each> {child}?",
        "<show> the {c} of all {children} with the {p} of their {parent}",
        "{c} of all {children} and {p} of their {parent}",
    ),
    (
        "<show> all {children} by {c}, each next to the {p} of its {parent}",
        "<show> {child} {c} together with {pp}",
        "go through the {children}: what is the {c}, and what is the {p} of the {parent}?",
        "pair the {c} of every {child} with the {p} of the {parent} it belongs to",
        "I need two things for each {child}: its {c} and the {p} of the {parent}",
    ),
)
_COUNT_OF = Phrase(
    (
        "how many {children} belong to {parents} {that}?",
        "count the {children} of the {parent} {that}",
        "what is the <number> {children} of {parents} {that}?",
        "how many {children} are there for {parents} {that}?",
        "<show> the <number> {children} of {parents} {that}",
        "<number> {children} of {parents} {that}",
    ),
    (
        "for {parents} {that}, how many {children} are there?",
        "tell me how many {children} go with {parents} {that}",
        "how many {children} have {a_parent} {that}?",
        "counting only {parents} {that}, how many {children} are linked to them?",
        "take the {parents} {that}: how many {children} do they have in all?",
    ),
)
_AGGREGATE_OF = Phrase(
    (
        "what is the {g} of {children} of the {parent} {that}?",
        "<show> the {g} of {children} of {parents} {that}",
        "for {parents} {that}, what is the {g} of their {children}?",
        "what is the {g} of all {children} that belong to {parents} {that}?",
        "{g} of {children} of {parents} {that}",
    ),
    (
        "compute the {g} over the {children} of {parents} {that}",
        "taking only {children} of {parents} {that}, what is the {g}?",
        "considering {parents} {that}, <then> the {g} of the {children} linked to them",
        "what does the {g} of {children} that have {a_parent} {that} amount to?",
        "I would like to know the {g} of {children} under {parents} {that}",
    ),
)
_BOTH = Phrase(
    (
        "<show> the {c} of {children} {this} that belong to {parents} {that}",
        "what is the {c} of {children} {this} of {parents} {that}?",
        "for {parents} {that}, <then> the {c} of their {children} {this}",
        "<show> the {c} of {children} {this}, for {parents} {that}",
    ),
    (
        "take {parents} {that}, and of their {children} only those {this}: <then> the {c}",
        "considering {parents} {that}, what is the {c} of <each> {child} {this}?",
        "<show> the {c} of <each> {child} {this} that is linked to {a_parent} {that}",
        "{children} {this} under {parents} {that}: {c}",
    ),
)
_PARENT_OF = Phrase(
    (
        "<show> the {p} of the {parent} of the {child} {this}",
        "what is the {p} of the {parent} of {children} {this}?",
        "for {children} {this}, <then> the {p} of their {parent}",
        "what is the {pp} of <each> {child} {this}?",
        "<show> the {p} of the {parent} for <each> {child} {this}",
    ),
    (
        "take every {child} {this} and <then> the {p} of the {parent} it belongs to",
        "to which {parent} does <each> {child} {this} belong? <then> the {p}",
        "{children} {this}: {p} of the {parent} of each",
        "going through {children} {this}, what is the {p} of the {parent} each time?",
    ),
)
_DISTINCT_PARENTS = Phrase(
    (
        "<show> the <distinct> {p} of {parents} that have {children} {this}",
        "what are the <distinct> {p} of {parents} that have {a_child} {this}?",
        "<show> the <distinct> {pp} for {children} {this}",
        "which <distinct> {pp} go with {children} {this}?",
    ),
    (
        "<show> the {p} of {parents} with at least one {child} {this}, without duplicates",
        "looking at {children} {this}, which different {p} do their {parents} have?",
        "for {children} {this}, <then> the {p} of their {parents}, each only once",
        "to which {pp} do {children} {this} belong? leave out repeats",
    ),
)
_TOP_CHILD = Phrase(
    (
        "<show> the {p} of the {parent} of the {child} with the <highest> {k}",
        "what is the {p} of the {parent} of the {child} with the <highest> {k}?",
        "which {pp} does the {child} with the <highest> {k} have?",
        "for the {child} with the <highest> {k}, <then> the {p} of its {parent}",
    ),
    (
        "find the {child} with the <highest> {k}: what is the {p} of its {parent}?",
        "to which {parent} does the {child} with the <highest> {k} belong? <then> its {p}",
        "of all {children}, take the one with the <highest> {k} and <then> the {p} of its {parent}",
        "the {child} whose {k} is <highest> has {a_parent} with which {p}?",
    ),
)


def _parent_condition(relation: Relation, r: Random) -> tuple[on.Condition, Phrase] | None:
    """A condition on the parent, often on its name, with words that cannot mean the child's column."""
    label = parent_label(relation, r)
    where = on.equal(label, r) if label and r.random() < 0.5 else on.condition(relation.parent, r)
    if where is None:
        return None
    return where, where.said(among(where.column, relation.parent, relation.child))


def _child_condition(relation: Relation, r: Random) -> tuple[on.Condition, Phrase] | None:
    where = on.condition(relation.child, r)
    return (where, where.said(among(where.column, relation.child, relation.parent))) if where else None


def _words(relation: Relation, column: ColumnProfile) -> str:
    return among(column, relation.child, relation.parent)


def _of_parent(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    where = _parent_condition(relation, r) if relation else None
    chosen = shown(relation.child, r) if relation else None
    if relation is None or where is None or chosen is None:
        return None
    sql = f"SELECT {chosen[0].qualified} FROM {join(relation)} WHERE {where[0].sql(qualified=True)}"
    return Draft(sql, {**link_slots(relation), "c": _words(relation, chosen[0]), "that": where[1]})


def _with_parent(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    if relation is None:
        return None
    one, two = shown(relation.child, r), shown(relation.parent, r)
    # A child without a parent would drop out of the join, though "each" child was asked for.
    if one is None or two is None or relation.key.nulls:
        return None
    sql = f"SELECT {one[0].qualified}, {two[0].qualified} FROM {join(relation)}"
    return Draft(
        sql,
        {
            **link_slots(relation),
            "c": _words(relation, one[0]),
            "p": two[0].words,
            "pp": owned(relation.parent, two[0]),
        },
    )


def _count_of(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    where = _parent_condition(relation, r) if relation else None
    if relation is None or where is None:
        return None
    sql = f"SELECT COUNT(*) FROM {join(relation)} WHERE {where[0].sql(qualified=True)}"
    return Draft(sql, {**link_slots(relation), "that": where[1]})


def _aggregate_of(*functions: str) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        relation = a_relation(profile, r)
        where = _parent_condition(relation, r) if relation else None
        made = aggregate(relation.child, r, functions) if relation else None
        if relation is None or where is None or made is None:
            return None
        function, column, words = made
        sql = f"SELECT {function}({column.qualified}) FROM {join(relation)} WHERE {where[0].sql(qualified=True)}"
        words = words.having(c=_words(relation, column))
        return Draft(sql, {**link_slots(relation), "g": words, "that": where[1]})

    return draw


def _both(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    if relation is None:
        return None
    this, that, chosen = _child_condition(relation, r), _parent_condition(relation, r), shown(relation.child, r)
    if this is None or that is None or chosen is None or chosen[0] is this[0].column:
        return None
    where = f"{this[0].sql(qualified=True)} AND {that[0].sql(qualified=True)}"
    sql = f"SELECT {chosen[0].qualified} FROM {join(relation)} WHERE {where}"
    slots = {**link_slots(relation), "c": _words(relation, chosen[0]), "this": this[1], "that": that[1]}
    return Draft(sql, slots)


def _parent_of(*, distinct: bool) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        relation = a_relation(profile, r)
        if relation is None:
            return None
        this, chosen = _child_condition(relation, r), shown(relation.parent, r)
        if this is None or chosen is None or relation.key.nulls:
            return None
        select = "SELECT DISTINCT" if distinct else "SELECT"
        sql = f"{select} {chosen[0].qualified} FROM {join(relation)} WHERE {this[0].sql(qualified=True)}"
        return Draft(
            sql,
            {**link_slots(relation), "p": chosen[0].words, "pp": owned(relation.parent, chosen[0]), "this": this[1]},
        )

    return draw


def _top_child(profile: Profile, r: Random) -> Draft | None:
    relation = a_relation(profile, r)
    if relation is None or relation.key.nulls:
        return None
    key, chosen = relation.child.pick(r, lambda c: c.measure and c.nulls == 0), shown(relation.parent, r)
    if key is None or chosen is None:
        return None
    sql = f"SELECT {chosen[0].qualified} FROM {join(relation)} ORDER BY {key.qualified} DESC LIMIT 1"
    return Draft(
        sql,
        {
            **link_slots(relation),
            "p": chosen[0].words,
            "pp": owned(relation.parent, chosen[0]),
            "k": _words(relation, key),
        },
    )


SHAPES = (
    Shape("join_filter", "medium", _OF_PARENT, _of_parent),
    Shape("join_project", "medium", _WITH_PARENT, _with_parent),
    Shape("join_count", "medium", _COUNT_OF, _count_of),
    Shape("join_average", "medium", _AGGREGATE_OF, _aggregate_of("AVG")),
    Shape("join_sum", "medium", _AGGREGATE_OF, _aggregate_of("SUM")),
    Shape("join_extreme", "medium", _AGGREGATE_OF, _aggregate_of("MIN", "MAX"), rare=True),
    *joined_groups.SHAPES,
    Shape("join_both", "hard", _BOTH, _both),
    Shape("join_parent", "medium", _PARENT_OF, _parent_of(distinct=False)),
    Shape("join_distinct", "hard", _DISTINCT_PARENTS, _parent_of(distinct=True), rare=True),
    Shape("join_top", "hard", _TOP_CHILD, _top_child),
)

"""Shapes over three tables: from a child along two foreign keys, in a chain or to two parents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from text2sql_rl.synthesis import conditions as on
from text2sql_rl.synthesis.profile import ColumnProfile, Profile, Relation, TableProfile
from text2sql_rl.synthesis.shape import Draft, Shape, aggregate, among, owned, shown
from text2sql_rl.synthesis.wording import Phrase
from text2sql_rl.synthesis.words import article

_FILTER = Phrase(
    (
        "<show> the {c} of {children} of {far} {that}",
        "what is the {c} of {children} of {far} {that}?",
        "for {far} {that}, <then> the {c} of the {children}",
        "<show> the {c} of all {children} of {far} {that}",
        "{c} of {children} of {far} {that}",
    ),
    (
        "take {far} {that} and <then> the {c} of the {children} linked to them",
        "considering {far} {that}, what is the {c} of each of their {children}?",
        "which {c} do {children} have that go back to {far} {that}?",
        "{children} of {far} {that}: {c}",
    ),
)
_COUNT = Phrase(
    (
        "how many {children} of {far} {that} are there?",
        "count the {children} of {far} {that}",
        "what is the <number> {children} of {far} {that}?",
        "<show> the <number> {children} of {far} {that}",
        "<number> {children} of {far} {that}",
    ),
    (
        "for {far} {that}, how many {children} are there?",
        "how many {children} go back to {far} {that}?",
        "considering {far} {that}, count the {children} linked to them",
        "tell me how many {children} there are of {far} {that}",
    ),
)
_AGGREGATE = Phrase(
    (
        "what is the {g} of {children} of {far} {that}?",
        "<show> the {g} of {children} of {far} {that}",
        "for {far} {that}, what is the {g} of the {children}?",
        "{g} of {children} of {far} {that}",
    ),
    (
        "compute the {g} over all {children} of {far} {that}",
        "considering {far} {that}, what is the {g} of the {children} linked to them?",
        "taking only {children} of {far} {that}, <then> the {g}",
        "what does the {g} of {children} that go back to {far} {that} amount to?",
    ),
)
_GROUP = Phrase(
    (
        "how many {children} are there for each {p} of the {grand}?",
        "count the {children} for each {gp}",
        "<show> each {gp} and the <number> {children}",
        "for each {p} of the {grand}, count the {children}",
    ),
    (
        "group the {children} by the {p} of the {grand} of their {parent} and count them",
        "by {gp}, what is the <number> {children}?",
        "break the {children} down by {gp}: how many in each?",
        "<show> every {p} of {a_grand} along with how many {children} it has",
    ),
)
_BRIDGE = Phrase(
    (
        "for <each> {child}, <then> the {c} of its {left} and the {p} of its {right}",
        "<show> the {c} of the {left} and the {p} of the {right} of <each> {child}",
        "what are the {lc} and the {rp} of <each> {child}?",
        "<show> {lc} and {rp} for all {children}",
    ),
    (
        "go through the {children}: which {lc} and which {rp} belong to each?",
        "<show> the {lc} next to the {rp}, one line per {child}",
        "pair the {c} of the {left} with the {p} of the {right} for every {child}",
        "I need the {lc} together with the {rp} of every {child}",
    ),
)
_BRIDGE_FILTER = Phrase(
    (
        "for <each> {child} of {a_right} {that}, <then> the {c} of its {left}",
        "<show> the {c} of the {left} of <each> {child} of {rights} {that}",
        "what is the {lc} of <each> {child} of {rights} {that}?",
        "for {children} of {rights} {that}, <then> the {lc}",
    ),
    (
        "take the {children} of {rights} {that} and <then> the {c} of the {left} of each",
        "considering {rights} {that}, what is the {lc} of <each> {child}?",
        "{children} of {rights} {that}: {c} of the {left}",
        "<show> the {lc}, once per {child}, for {rights} {that}",
    ),
)

Draw = Callable[[Profile, Random], Draft | None]


@dataclass(frozen=True, slots=True)
class _Path:
    """Two relations: `near` starts at the child; `far` starts at the near parent, or at the child again."""

    near: Relation
    far: Relation

    @property
    def sql(self) -> str:
        steps = "".join(
            f" INNER JOIN {link.parent.sql} ON {link.key.qualified} = {link.target.qualified}"
            for link in (self.near, self.far)
        )
        return f"{self.near.child.sql}{steps}"

    @property
    def tables(self) -> tuple[TableProfile, ...]:
        return self.near.child, self.near.parent, self.far.parent


def _paths(profile: Profile, *, chain: bool) -> list[_Path]:
    pairs = [(a, b) for a in profile.relations for b in profile.relations if a is not b]
    if chain:
        return [_Path(a, b) for a, b in pairs if a.parent is b.child and b.parent is not a.child]
    return [_Path(a, b) for a, b in pairs if a.child is b.child and a.parent is not b.parent]


def _pick(profile: Profile, r: Random, *, chain: bool) -> _Path | None:
    """A path that leads from the child to the far table in no other way, so that words cannot mean the other way."""
    paths = [p for p in _paths(profile, chain=chain) if not chain or not _direct(profile, p)]
    return r.choice(paths) if paths else None


def _direct(profile: Profile, path: _Path) -> bool:
    routes = [
        p for p in _paths(profile, chain=True) if p.near.child is path.near.child and p.far.parent is path.far.parent
    ]
    linked = any(x.child is path.near.child and x.parent is path.far.parent for x in profile.relations)
    return linked or len(routes) > 1


def _words(column: ColumnProfile, owner: TableProfile, path: _Path) -> str:
    return among(column, owner, *(t for t in path.tables if t is not owner))


def _slots(path: _Path) -> dict[str, str | Phrase]:
    child, parent, grand = path.tables
    return {
        "child": child.one,
        "children": child.many,
        "parent": parent.one,
        "grand": grand.one,
        "a_grand": article(grand.one),
        "far": f"{parent.many} of {grand.many}",
        "left": parent.one,
        "right": grand.one,
        "rights": grand.many,
        "a_right": article(grand.one),
    }


def _condition(path: _Path, r: Random) -> tuple[str, Phrase] | None:
    grand = path.tables[2]
    label = grand.pick(r, lambda c: c.label and not c.key)
    where = on.equal(label, r) if label and r.random() < 0.4 else on.condition(grand, r)
    return (where.sql(qualified=True), where.said(_words(where.column, grand, path))) if where else None


def _filter(profile: Profile, r: Random) -> Draft | None:
    path = _pick(profile, r, chain=True)
    where = _condition(path, r) if path else None
    chosen = shown(path.near.child, r) if path else None
    if path is None or where is None or chosen is None:
        return None
    sql = f"SELECT {chosen[0].qualified} FROM {path.sql} WHERE {where[0]}"
    return Draft(sql, {**_slots(path), "c": _words(chosen[0], path.near.child, path), "that": where[1]})


def _count(profile: Profile, r: Random) -> Draft | None:
    path = _pick(profile, r, chain=True)
    where = _condition(path, r) if path else None
    if path is None or where is None:
        return None
    return Draft(f"SELECT COUNT(*) FROM {path.sql} WHERE {where[0]}", {**_slots(path), "that": where[1]})


def _aggregate(profile: Profile, r: Random) -> Draft | None:
    path = _pick(profile, r, chain=True)
    where = _condition(path, r) if path else None
    made = aggregate(path.near.child, r, ("AVG", "SUM", "MAX")) if path else None
    if path is None or where is None or made is None:
        return None
    function, column, words = made
    words = words.having(c=_words(column, path.near.child, path))
    sql = f"SELECT {function}({column.qualified}) FROM {path.sql} WHERE {where[0]}"
    return Draft(sql, {**_slots(path), "g": words, "that": where[1]})


def _group(profile: Profile, r: Random) -> Draft | None:
    path = _pick(profile, r, chain=True)
    column = path.far.parent.pick(r, lambda c: c.category or (c.label and not c.key)) if path else None
    if path is None or column is None:
        return None
    sql = f"SELECT {column.qualified}, COUNT(*) FROM {path.sql} GROUP BY {column.qualified}"
    return Draft(sql, {**_slots(path), "p": column.words, "gp": owned(path.far.parent, column)})


def _bridge(profile: Profile, r: Random) -> Draft | None:
    path = _pick(profile, r, chain=False)
    if path is None or path.near.key.nulls or path.far.key.nulls:
        return None
    one, two = shown(path.near.parent, r), shown(path.far.parent, r)
    if one is None or two is None:
        return None
    sql = f"SELECT {one[0].qualified}, {two[0].qualified} FROM {path.sql}"
    said = {
        "c": one[0].words,
        "p": two[0].words,
        "lc": owned(path.near.parent, one[0]),
        "rp": owned(path.far.parent, two[0]),
    }
    return Draft(sql, {**_slots(path), **said})


def _bridge_filter(profile: Profile, r: Random) -> Draft | None:
    path = _pick(profile, r, chain=False)
    if path is None or path.near.key.nulls:
        return None
    where, chosen = _condition(path, r), shown(path.near.parent, r)
    if where is None or chosen is None:
        return None
    sql = f"SELECT {chosen[0].qualified} FROM {path.sql} WHERE {where[0]}"
    return Draft(
        sql, {**_slots(path), "c": chosen[0].words, "lc": owned(path.near.parent, chosen[0]), "that": where[1]}
    )


SHAPES = (
    Shape("chain_filter", "hard", _FILTER, _filter),
    Shape("chain_count", "hard", _COUNT, _count),
    Shape("chain_aggregate", "hard", _AGGREGATE, _aggregate, rare=True),
    Shape("chain_group", "hard", _GROUP, _group, rare=True),
    Shape("bridge_project", "hard", _BRIDGE, _bridge),
    Shape("bridge_filter", "hard", _BRIDGE_FILTER, _bridge_filter),
)

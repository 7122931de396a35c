"""What a shape of SQL is, and the few words all shapes share.

A shape draws one question from a profile: `draw(profile, r)` gives a `Draft` (gold SQL and the slots of its
wordings), or None where this draw found no fitting tables or columns. Adding a shape = one draw function with
its forms in a family file, and one entry in `shapes/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from text2sql_rl.synthesis.profile import ColumnProfile, Profile, Relation, TableProfile
from text2sql_rl.synthesis.wording import Phrase
from text2sql_rl.synthesis.words import article


@dataclass(frozen=True, slots=True)
class Draft:
    """A gold SQL and what fills the slots of its shape's forms."""

    sql: str
    slots: Mapping[str, str | Phrase]


@dataclass(frozen=True, slots=True)
class Shape:
    """A family member: its name, how hard it is, its forms, how it draws; `rare` ones are for RL more than for SFT."""

    name: str
    hardness: str  # easy, medium, hard
    forms: Phrase
    draw: Callable[[Profile, Random], Draft | None]
    rare: bool = False


Draw = Callable[[Profile, Random], Draft | None]


def a_table(profile: Profile, r: Random) -> TableProfile:
    """Any table, larger ones not more often than small ones."""
    return r.choice(profile.tables)


def a_relation(profile: Profile, r: Random) -> Relation | None:
    """Any relation, or None where the database has none."""
    return r.choice(profile.relations) if profile.relations else None


def shown(table: TableProfile, r: Random, count: int = 1) -> list[ColumnProfile] | None:
    """Columns a person would ask to see: no keys unless they are texts, and seldom flags."""
    fit = [c for c in table.columns if c.kind != "other" and c.nulls < c.rows and (not c.key or c.kind == "text")]
    fit = [c for c in fit if not (c.key and c.kind == "text" and not c.unique)]
    if len(fit) < count:
        fit = [c for c in table.columns if c.kind != "other" and c.nulls < c.rows]
    return r.sample(fit, count) if len(fit) >= count else None


def table_slots(table: TableProfile) -> dict[str, str | Phrase]:
    """The slots `one`, `many` and `a` for a table."""
    return {"one": table.one, "many": table.many, "a": article(table.one)}


def link_slots(relation: Relation) -> dict[str, str | Phrase]:
    """The slots `child`, `children`, `parent`, `parents`, `a_child` and `a_parent` for two tables."""
    return {
        "child": relation.child.one,
        "children": relation.child.many,
        "a_child": article(relation.child.one),
        "parent": relation.parent.one,
        "parents": relation.parent.many,
        "a_parent": article(relation.parent.one),
    }


def join(relation: Relation) -> str:
    """`child INNER JOIN parent ON child.key = parent.target`."""
    on = f"{relation.key.qualified} = {relation.target.qualified}"
    return f"{relation.child.sql} INNER JOIN {relation.parent.sql} ON {on}"


def owned(owner: TableProfile, column: ColumnProfile) -> str:
    """The column's words after its table's name; no word comes twice ("horse sex", "horse name", "wind farm code")."""
    if f"{column.words} ".startswith(f"{owner.one} "):
        return column.words
    first, _, rest = column.words.partition(" ")
    overlap = rest and owner.one.split(" ")[-1] == first
    return f"{owner.one} {rest if overlap else column.words}"


def among(column: ColumnProfile, owner: TableProfile, *others: TableProfile) -> str:
    """The column's words; with its table's name before them where another table has an equally named column."""
    shared = any(column.words == c.words for other in others for c in other.columns)
    return owned(owner, column) if shared else column.words


AGGREGATES: Mapping[str, Phrase] = {
    "AVG": Phrase(("<average> {c}",)),
    "SUM": Phrase(("<total> {c}",)),
    "MAX": Phrase(("<highest> {c}",)),
    "MIN": Phrase(("<lowest> {c}",)),
}
LATEST: Mapping[str, Phrase] = {"MAX": Phrase(("<latest> {c}",)), "MIN": Phrase(("<earliest> {c}",))}


def aggregate(table: TableProfile, r: Random, functions: tuple[str, ...]) -> tuple[str, ColumnProfile, Phrase] | None:
    """An aggregate function, a column it makes sense for, and its words; for MIN and MAX also years and dates."""
    function = r.choice(functions)
    extreme = function in LATEST

    def fits(column: ColumnProfile) -> bool:
        ordered = column.kind in ("date", "timestamp") or column.year
        return column.measure or (extreme and ordered and column.distinct > 2)

    column = table.pick(r, fits)
    if column is None:
        return None
    words = (LATEST if column.kind in ("date", "timestamp") else AGGREGATES)[function]
    return function, column, words.having(c=column.words)


def grouped(profile: Profile, r: Random) -> tuple[TableProfile, ColumnProfile, dict[str, str | Phrase]] | None:
    """A table, a column of it with few values (or a year) to group by, and their slots."""
    table = a_table(profile, r)
    key = table.pick(r, lambda c: c.category or (c.year and c.nulls == 0 and c.distinct * 2 <= c.rows))
    return (table, key, {**table_slots(table), "k": key.words}) if key else None


def parent_label(relation: Relation, r: Random) -> ColumnProfile | None:
    """A text that names one parent each; not the key itself where there is another."""
    labels = [c for c in relation.parent.columns if c.label]
    named = [c for c in labels if not c.key]
    return r.choice(named or labels) if labels else None

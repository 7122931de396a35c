"""Rows aimed at a pair of gold and candidate: where the two may differ, luck ends.

In: the real tables and both statements. Out: an `Aimed`: which tables need rows, what values stand at and meet, and
the recipes. Shared instances stand around the borders of all golds; these stand around those of one gold and of a
candidate that leaves out its condition or draws borders of its own (`CASE WHEN id IN (11, 24)`, `COALESCE(town,
'Bath')`, `> 9` for `> 10`). They depend on the two by what these compare, count and read, so candidates that differ in
other things share them. Not here: whom to doubt, running and comparing (doubted.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from text2sql_rl.instances.compared import Place, column_meets, group_sizes, ordering_columns
from text2sql_rl.instances.literals import border_values
from text2sql_rl.instances.otherwise import tokens
from text2sql_rl.instances.recipes import Recipe
from text2sql_rl.instances.rows import Source, nullable
from text2sql_rl.records import Instance
from text2sql_rl.sandbox.names import words

# Raise it when other rows would be made from the same inputs.
VERSION = 6
_FEW = Recipe("aimed few", mix=0.6, fresh=0.2, border=0.5, twin=0.3, null=0.3, met=0.6, rows=(4, 8))
# Few values, so that groups are of nearly one size and a NULL or a row more decides which comes first.
_NARROW = Recipe("aimed narrow", mix=0.6, border=0.15, null=0.35, met=0.6, narrow=3, rows=(5, 18))
RECIPES = (
    Recipe("aimed long", mix=0.5, fresh=0.2, border=0.6, null=0.05, met=0.5, rows=(100, 140), grown=1.15, lacks=0),
    Recipe("aimed empty", mix=0.5, border=0.4, tie=0.2, twin=0.2, null=0.4, met=0.5, rows=(30, 50), lacks=1),
    _FEW,
)
# Where one row or number answers, an instance is one try only.
MORE_RECIPES = (
    replace(_FEW, name="aimed few again", null=0.6),
    _NARROW,
    # More parents than children: groups that a join of another kind fills.
    replace(_NARROW, name="aimed lonely", null=0.6, rows=(16, 26), leaves=(6, 12)),
    replace(_NARROW, name="aimed lonelier", rows=(16, 26), leaves=(3, 7)),
    replace(_NARROW, name="aimed lonelier again", rows=(16, 26), leaves=(3, 7)),
)
# Where one row answers and the two draw their borders otherwise, that row has to stand between them.
_EDGE = Recipe("aimed edge", mix=0.4, fresh=0.2, border=0.8, null=0.1, met=0.5, rows=(1, 2))
_EDGES = tuple(replace(_EDGE, name=f"aimed edge {turn}", turn=turn) for turn in range(12))
_ONE_ROW = words("limit max( min( arg_max( arg_min( first( last(")
# Many groups of one to three rows on all sides of the borders: what a set operation or a group then holds, or not.
_CROWD = Recipe("aimed crowd", mix=0.5, fresh=0.6, border=0.7, tie=0.4, null=0.15, met=0.5, rows=(60, 90))
_CROWDS = tuple(replace(_CROWD, name=f"aimed crowd {number}") for number in range(4))
_SETS = words("intersect except distinct group having in exists")
# So often NULL is only what one of the two reads and the other does not, where there is such a column.
_OFTEN = 0.6
# Many different rows that meet the gold's conditions: more than a limit of the candidate's own lets through.
_FULL = Recipe("aimed full", mix=0.3, fresh=0.5, border=0.8, null=0.05, met=0.5, rows=(150, 200))
_FULL_ROWS, _MOST_ROWS = 120, 600
_LIMIT = re.compile(r"\blimit\s+(\d{1,4})\b", re.IGNORECASE)
# Rows alike but for what sorts them: DISTINCT keeps one of them, at its place or at another's.
_TWINS = Recipe("aimed twins", mix=0.6, fresh=0.3, border=0.3, twin=0.5, null=0.1, met=0.5, apart=True, rows=(24, 36))
_BLOCKS = Recipe("aimed blocks", mix=0.5, border=0.3, null=0.1, met=0.5, rows=(12, 16))
_BLOCK_ROWS = 160
_ANSWERING = words("avg( count( group having limit max( min( over( sum( except intersect distinct")


@dataclass(frozen=True, slots=True)
class Aimed:
    """All that aimed rows depend on beside the real ones."""

    sources: tuple[Source, ...]
    borders: dict[str, tuple[Any, ...]]
    meets: dict[Place, tuple[Place, ...]]
    recipes: tuple[Recipe, ...]

    def stamp(self, real: Instance, gold_sql: str) -> str:
        """All that the rows depend on beside the recipe, as one text."""
        read = [one.table.name for one in self.sources if one.rows]
        parts = [sorted(self.borders.items()), sorted(self.meets.items())]
        parts += [[one.name, sorted(one.nulls), sorted(one.wide), one.blocks, one.leaves] for one in self.recipes]
        return json.dumps(["aimed", VERSION, duckdb.__version__, real.sha256, gold_sql, read, repr(parts)])


def aim(sources: Sequence[Source], gold_sql: str, sql: str) -> Aimed:
    """What to make for a pair.

    Args:
        sources: the tables of the real instance.
        gold_sql: the gold.
        sql: a candidate that says something otherwise.
    """
    named, apart = tokens(sql) | tokens(gold_sql), tokens(sql) ^ tokens(gold_sql)
    own = tokens(sql) & apart
    needed = _read_by(named, sources)
    # As a condition, 0 is false.
    borders = border_values((gold_sql, sql), finer=True)
    borders |= {name: (*borders.get(name, ()), 0) for name in _numbers(needed) & own}
    literals = any(token[0] in "'$0123456789" for token in apart)
    recipes: tuple[Recipe, ...] = (*RECIPES, *MORE_RECIPES) if literals or named & _ANSWERING else RECIPES
    if "limit" in tokens(sql) and ("limit" in own or any(token.isdecimal() for token in own)):
        rows = max(_FULL_ROWS, min(_MOST_ROWS, 6 * max(map(int, _LIMIT.findall(sql)), default=0)))
        recipes = (*recipes, replace(_FULL, leaves=(rows, rows + _FULL_ROWS // 3)))
    columns = {column.name.lower() for one in needed for column in one.table.columns}
    if literals or (named & _ONE_ROW and apart & columns):
        recipes = (*recipes, *_EDGES)
    nulls, wide = _emptied(needed, named), ordering_columns((gold_sql, sql))
    if wide and "distinct" in apart:
        recipes = (*recipes, *(replace(_TWINS, name=f"aimed twins {turn}") for turn in range(3)))
    compared_otherwise = any(token[0] in "0123456789<>=!" for token in apart)
    if (compared_otherwise or "null" in apart) and named & _SETS:
        recipes = (*recipes, *_CROWDS)
    if compared_otherwise and (sizes := group_sizes((gold_sql, sql))):
        times = max(1, min(4, _BLOCK_ROWS // sum(sizes)))
        rows = times * sum(sizes)
        blocks = replace(_BLOCKS, blocks=sizes, rows=(rows, rows))
        recipes = (*recipes, blocks, replace(blocks, name="aimed blocks again"))
    nulls_apart = _emptied(needed, apart) or nulls
    recipes = tuple(replace(one, nulls=nulls_apart if one.null >= _OFTEN else nulls, wide=wide) for one in recipes)
    meets = column_meets((gold_sql, sql), [one.table for one in needed])
    return Aimed(_in_order(needed, meets), borders, meets, recipes)


def _read_by(named: Iterable[str], sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources with rows only where a statement of these words may read them, or where such a table refers to."""
    needed = {one.table.name for one in sources if set(re.findall(r"\w+", one.table.name.lower())) <= set(named)}
    while more := {key.table for one in sources if one.table.name in needed for key in one.table.foreign_keys} - needed:
        needed |= more
    return tuple(one if one.table.name in needed else replace(one, rows=()) for one in sources)


def _in_order(sources: Sequence[Source], meets: Mapping[Place, Sequence[Place]]) -> tuple[Source, ...]:
    """Parents first, as before, and then the keys that columns are compared with: what comes later can meet them."""
    keys = {
        (one.table.name.lower(), one.table.columns[group[0]].name.lower())
        for one in sources
        for group in one.unique
        if len(group) == 1
    }
    met: dict[str, set[str]] = {}
    for (table, column), others in meets.items():
        if (table, column) not in keys:
            met.setdefault(table, set()).update(
                owner for owner, key in others if (owner, key) in keys and owner != table
            )
    left, placed = list(sources), list[Source]()
    while left:
        waiting = {one.table.name for one in left}
        free = [one for one in left if not {key.table for key in one.table.foreign_keys} & (waiting - {one.table.name})]
        free = free or left
        lower = {name.lower() for name in waiting}
        best = next((one for one in free if not met.get(one.table.name.lower(), set()) & lower), free[0])
        left.remove(best)
        placed.append(best)
    return tuple(placed)


def _numbers(sources: Sequence[Source]) -> frozenset[str]:
    """Lower-cased names of the columns that hold numbers."""
    numeric = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL.*|FLOAT|DOUBLE")
    return frozenset(
        column.name.lower()
        for source in sources
        for column in source.table.columns
        if numeric.fullmatch(column.type.upper())
    )


def _emptied(sources: Sequence[Source], named: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Every (table, column) that either statement names, may hold NULL and belongs to no key of its own."""
    return frozenset(one for one in nullable(sources) if set(re.findall(r"\w+", one[1].lower())) <= set(named))

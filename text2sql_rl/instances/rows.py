"""Rows for a counterfactual instance: like the real ones, but told apart from them where a query could be lucky.

In: the real rows of every table and a recipe. Out: other rows, fixed by the seed. Primary keys stay unique,
foreign keys find their parent, NOT NULL and types hold; the other constraints are the database's to check
(files.py drops rows it refuses). Values come from the column itself, from near its values, or from the borders the
golds draw, so an instance stays a plausible database. What one column copies from another (copies.py) stays a copy.
Not here: single cells (values.py), files, SQL.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from text2sql_rl.instances.copies import copies, names_of
from text2sql_rl.instances.values import fitting, near, unused, without_one
from text2sql_rl.records import Column, ForeignKey, Table

Row = list[Any]
# No table gets longer than this, however long the real one is.
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Recipe:
    """How rows are changed; every share is a probability in [0, 1] a row and column.

    `mix` takes the cell of another row, `fresh` a value near the column's own, `border` a value around a literal,
    `tie` the cell of the row before, `twin` all cells of the row before (keys aside). `nulls` names the (table,
    column)s that get NULLs in a share `null` of their rows. `rows` bounds the size of a table; `grown` is the least
    size as a multiple of the real one. `lacks` is the turn of the value that a column of three or more does without,
    unless a gold speaks of it; -1 keeps all.
    """

    name: str
    mix: float = 0.0
    fresh: float = 0.0
    border: float = 0.0
    tie: float = 0.0
    twin: float = 0.0
    nulls: frozenset[tuple[str, str]] = frozenset()
    null: float = 0.4
    rows: tuple[int, int] = (5, 14)
    grown: float = 0.0
    lacks: int = -1


# Gentle first: an instance that changes less is preferred when it tells as much.
RECIPES = (
    Recipe("mixed", mix=0.4, fresh=0.2, border=0.2, rows=(6, 16)),
    Recipe("borders", mix=0.2, fresh=0.1, border=0.6, rows=(8, 18)),
    Recipe("fresh", mix=0.3, fresh=0.6, border=0.1, rows=(5, 12)),
    Recipe("scrambled", mix=0.9, border=0.1, rows=(10, 24)),
    Recipe("ties", mix=0.3, border=0.2, tie=0.5, rows=(8, 18)),
    Recipe("large", mix=0.5, fresh=0.3, border=0.3, rows=(30, 45)),
    Recipe("sparse", mix=0.5, fresh=0.3, border=0.2, rows=(2, 5)),
)
# Small tables leave little room for luck; made when a mutant is still not told.
MORE_RECIPES = (
    Recipe("few", mix=0.7, fresh=0.3, border=0.2, rows=(2, 4)),
    Recipe("some", mix=0.7, fresh=0.4, border=0.1, rows=(3, 7)),
    Recipe("odd", mix=0.5, fresh=0.8, border=0.3, rows=(4, 9)),
)


@dataclass(frozen=True, slots=True)
class Source:
    """A table of the real instance: a sample of its rows, and which columns must stay unique (sets of positions)."""

    table: Table
    rows: Sequence[Sequence[Any]]
    unique: tuple[tuple[int, ...], ...] = ()


def nullable(sources: Sequence[Source]) -> frozenset[tuple[str, str]]:
    """Every (table, column) that may well be NULL: it is in the real rows, or its table tells which columns may not be.

    Where a schema declares nothing (CSV, most SQLite files), a column without NULL in the real rows is taken to have
    none: counting it is as good as counting rows. Keys are left out.
    """
    found = []
    for source in sources:
        says = any(not column.nullable and not column.primary_key for column in source.table.columns)
        keys = {at for group in source.unique for at in group}
        found += [
            (source.table.name, column.name)
            for at, column in enumerate(source.table.columns)
            if column.nullable and at not in keys and (says or any(row[at] is None for row in source.rows))
        ]
    return frozenset(found)


@dataclass(slots=True)
class Maker:
    """Makes the tables of one instance, parents first.

    Args:
        draw: the only source of chance.
        recipe: how rows change.
        borders: lower-cased column name -> values around the golds' literals.
    """

    draw: random.Random
    recipe: Recipe
    borders: Mapping[str, Sequence[Any]]
    made: dict[str, list[Row]] = field(default_factory=dict)
    _columns: dict[str, dict[str, int]] = field(default_factory=dict)
    _turns: dict[str, int] = field(default_factory=dict)
    _around: list[list[Any]] = field(default_factory=list)
    _parents: dict[int, tuple[list[tuple[Any, ...]], set[tuple[Any, ...]]]] = field(default_factory=dict)

    def make(self, source: Source) -> list[Row]:
        """The rows of one table; its foreign keys refer to tables made before, or to itself."""
        table = source.table
        rows: list[Row] = []
        self.made[table.name] = rows
        self._parents = {}
        self._columns[table.name] = {column.name: at for at, column in enumerate(table.columns)}
        if not source.rows:
            return rows
        bound = {at for key in table.foreign_keys for at in self._positions(table, key.columns)}
        keys = {at for group in source.unique for at in group}
        copied = copies(table.columns, source.rows, keys | bound)
        owned = [[row[at] for row in source.rows] for at in range(len(table.columns))]
        self._around = [
            self._borders_of((column.name, *names_of(copied, table.columns, at)), owned[at])
            for at, column in enumerate(table.columns)
        ]
        kept = [
            owned[at]
            if at in keys | bound or self.recipe.lacks < 0
            else without_one(owned[at], self._around[at], self.recipe.lacks, f"{table.name}.{column.name}")
            for at, column in enumerate(table.columns)
        ]
        lost = [set(map(repr, owned[at])) - set(map(repr, kept[at])) for at in range(len(kept))]
        taken: dict[tuple[int, ...], set[tuple[Any, ...]]] = {group: set() for group in source.unique}
        for _ in range(self._size(table)):
            twin = rows and self.draw.random() < self.recipe.twin
            row = list(rows[-1] if twin else self.draw.choice(source.rows))
            for at, column in enumerate(table.columns):
                if at in keys - bound:
                    row[at] = self._border(column, at, row[at])
                elif twin:
                    continue
                elif at in bound:
                    row[at] = self._emptied(table, column, row[at])
                else:
                    cell = self.draw.choice(kept[at]) if lost[at] and repr(row[at]) in lost[at] else row[at]
                    row[at] = self._cell(source, column, at, cell, rows, kept[at])
            for copy in copied:
                cell = row[copy.leader]
                row[copy.follower] = None if cell is None else copy.write(cell, self.draw)
            if (twin or self._bind(source, row)) and self._unique(source, row, taken, bound):
                rows.append(row)
        self.draw.shuffle(rows)
        return rows

    def _size(self, table: Table) -> int:
        low, high = self.recipe.rows
        least = min(round(table.rows * self.recipe.grown), _LONGEST)
        return self.draw.randint(max(low, least), max(high, least))

    def _emptied(self, table: Table, column: Column, cell: Any) -> Any:
        named = column.nullable and (table.name, column.name) in self.recipe.nulls
        return None if named and self.draw.random() < self.recipe.null else cell

    def _positions(self, table: Table, names: Sequence[str]) -> list[int]:
        return [self._columns[table.name][name] for name in names if name in self._columns[table.name]]

    def _cell(
        self, source: Source, column: Column, at: int, cell: Any, before: Sequence[Row], own: Sequence[Any]
    ) -> Any:
        recipe, draw = self.recipe, self.draw
        if before and draw.random() < recipe.tie:
            return before[-1][at]
        if draw.random() < recipe.mix:
            cell = draw.choice(own)
        if cell is not None and draw.random() < recipe.fresh:
            cell = near(cell, own, draw)
        return self._emptied(source.table, column, self._border(column, at, cell))

    def _borders_of(self, names: Sequence[str], own: Sequence[Any]) -> list[Any]:
        """The border values that a column of these names, with these cells, can hold."""
        return fitting((value for name in names for value in self.borders.get(name.lower(), ())), own)

    def _border(self, column: Column, at: int, cell: Any) -> Any:
        around = self._around[at]
        if around and self.draw.random() < self.recipe.border:
            # In turn rather than by chance, so that every border is stood on before any is stood on twice.
            turn = self._turns[column.name] = self._turns.get(column.name, self.draw.randrange(len(around))) + 1
            return around[turn % len(around)]
        return cell

    def _bind(self, source: Source, row: Row) -> bool:
        """Point every foreign key to a parent that exists; False when there is none and NULL is not allowed."""
        for number, key in enumerate(source.table.foreign_keys):
            at = self._positions(source.table, key.columns)
            mine = tuple(row[position] for position in at)
            if None in mine:
                continue
            if number not in self._parents or key.table == source.table.name:
                known = self._known(key)
                self._parents[number] = (known, set(known))
            known, held = self._parents[number]
            if known and (mine not in held or self.draw.random() < self.recipe.mix):
                mine = self.draw.choice(known)
            elif not known:
                if not all(source.table.columns[position].nullable for position in at):
                    return False
                mine = (None,) * len(at)
            for position, value in zip(at, mine, strict=True):
                row[position] = value
        return True

    def _known(self, key: ForeignKey) -> list[tuple[Any, ...]]:
        """The values that a foreign key may take: its parents' keys."""
        targets = [self._columns[key.table][name] for name in key.references] if key.table in self._columns else []
        known = [tuple(parent[target] for target in targets) for parent in self.made.get(key.table, [])]
        return [values for values in known if None not in values]

    def _unique(
        self, source: Source, row: Row, taken: dict[tuple[int, ...], set[tuple[Any, ...]]], bound: set[int]
    ) -> bool:
        """Give the row unused keys; False when a key is made of foreign keys that are all in use."""
        for group, used in taken.items():
            if tuple(row[at] for at in group) in used:
                free = [at for at in group if at not in bound]
                if not free:
                    return False
                row[free[0]] = unused(
                    row[free[0]],
                    {values[group.index(free[0])] for values in used},
                    [real[free[0]] for real in source.rows],
                )
        for group, used in taken.items():
            key = tuple(row[at] for at in group)
            if key in used:
                return False
            used.add(key)
        return True

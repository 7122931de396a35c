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
from functools import cached_property
from typing import Any

from text2sql_rl.instances.copies import Copy, copies, names_of
from text2sql_rl.instances.keys import Keys
from text2sql_rl.instances.recipes import Recipe
from text2sql_rl.instances.values import as_met, different, fitting, near, without_one
from text2sql_rl.records import Column, ForeignKey, Table

Row = list[Any]
Place = tuple[str, str]
# So many tries to find other parents for a row whose key is made of references.
_TRIES = 4


@dataclass(frozen=True)
class Source:
    """A table of the real instance: a sample of its rows, and which columns must stay unique (sets of positions)."""

    table: Table
    rows: Sequence[Sequence[Any]]
    unique: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def keys(self) -> frozenset[int]:
        """Positions of the columns that a key is made of."""
        return frozenset(at for group in self.unique for at in group)

    @cached_property
    def bound(self) -> frozenset[int]:
        """Positions of the columns that refer to another table."""
        names = {name for key in self.table.foreign_keys for name in key.columns}
        return frozenset(at for at, column in enumerate(self.table.columns) if column.name in names)

    @cached_property
    def cells(self) -> list[list[Any]]:
        """The rows' cells by column."""
        return [[row[at] for row in self.rows] for at in range(len(self.table.columns))]

    @cached_property
    def copied(self) -> tuple[Copy, ...]:
        """Columns that write what another one holds."""
        return copies(self.table.columns, self.rows, self.keys | self.bound)


def nullable(sources: Sequence[Source]) -> frozenset[tuple[str, str]]:
    """Every (table, column) that may well be NULL: it is in the real rows, or its table tells which columns may not be.

    Where a schema declares nothing (CSV, most SQLite files), a column without NULL in the real rows is taken to have
    none: counting it is as good as counting rows. Keys are left out.
    """
    found = []
    for source in sources:
        says = any(not column.nullable and not column.primary_key for column in source.table.columns)
        found += [
            (source.table.name, column.name)
            for at, column in enumerate(source.table.columns)
            if column.nullable and at not in source.keys and (says or any(row[at] is None for row in source.rows))
        ]
    return frozenset(found)


@dataclass(slots=True)
class Maker:
    """Makes the tables of one instance, parents first.

    Args:
        draw: the only source of chance.
        recipe: how rows change.
        borders: lower-cased column name -> values around the golds' literals.
        meets: (table, column) in small letters -> those that a statement compares it with.
        referred: tables that another one refers to.
    """

    draw: random.Random
    recipe: Recipe
    borders: Mapping[str, Sequence[Any]]
    meets: Mapping[Place, Sequence[Place]] = field(default_factory=dict)
    referred: frozenset[str] = frozenset()
    made: dict[str, list[Row]] = field(default_factory=dict)
    _columns: dict[str, dict[str, int]] = field(default_factory=dict)
    _turns: dict[str, int] = field(default_factory=dict)
    _around: list[list[Any]] = field(default_factory=list)
    _values: dict[int, list[Any]] = field(default_factory=dict)
    _parents: dict[int, tuple[list[tuple[Any, ...]], set[tuple[Any, ...]]]] = field(default_factory=dict)

    def make(self, source: Source) -> list[Row]:
        """The rows of one table; its foreign keys refer to tables made before, or to itself."""
        table = source.table
        rows: list[Row] = []
        self.made[table.name] = rows
        self._parents, self._values = {}, {}
        self._columns[table.name] = {column.name: at for at, column in enumerate(table.columns)}
        if not source.rows:
            return rows
        bound, keys, copied, owned = source.bound, source.keys, source.copied, source.cells
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
        if self.recipe.narrow:
            as_is = keys | bound | {at for at, one in enumerate(table.columns) if one.name.lower() in self.recipe.wide}
            kept = [own if at in as_is else self._narrowed(at, own) for at, own in enumerate(kept)]
        lost = [set(map(repr, owned[at])) - set(map(repr, kept[at])) for at in range(len(kept))]
        taken = Keys(source.unique, bound, source.rows)
        for number in range(self._size(table)):
            twin = rows and self._twin(table, number)
            row = list(rows[-1] if twin else self.draw.choice(source.rows))
            for at, column in enumerate(table.columns):
                if at in keys - bound:
                    row[at] = self._meet(table, column, self._border(column, at, row[at]), owned[at])
                elif twin and not (self.recipe.apart and column.name.lower() in self.recipe.wide):
                    continue
                elif at in bound:
                    row[at] = self._emptied(table, column, row[at])
                else:
                    cell = self.draw.choice(kept[at]) if lost[at] and repr(row[at]) in lost[at] else row[at]
                    row[at] = self._meet(table, column, self._cell(source, column, at, cell, rows, kept[at]), owned[at])
            for copy in copied:
                cell = row[copy.leader]
                row[copy.follower] = None if cell is None else copy.write(cell, self.draw)
            if (twin or self._bind(source, row)) and (taken.take(row) or self._rebound(source, row, taken)):
                rows.append(row)
        self.draw.shuffle(rows)
        return rows

    def _size(self, table: Table) -> int:
        low, high = self.recipe.rows
        if self.recipe.leaves and table.name not in self.referred:
            low, high = self.recipe.leaves
        least = min(round(table.rows * self.recipe.grown), self.recipe.longest)
        return self.draw.randint(max(low, least), max(high, least))

    def _twin(self, table: Table, number: int) -> bool:
        """Whether row `number` repeats the one before."""
        if not self._in_blocks(table):
            return self.draw.random() < self.recipe.twin
        place = number % sum(self.recipe.blocks)
        starts = [sum(self.recipe.blocks[:at]) for at in range(len(self.recipe.blocks))]
        return place not in starts

    def _in_blocks(self, table: Table) -> bool:
        return bool(self.recipe.blocks) and table.name not in self.referred

    def _next(self, name: str, values: Sequence[Any]) -> Any:
        """Another value each time, as long as there are some: so that blocks fall into different groups."""
        turn = self._turns[name] = self._turns.get(name, self.draw.randrange(max(len(values), 1))) + 1
        return values[turn % len(values)] if values else None

    def _narrowed(self, at: int, own: Sequence[Any]) -> Sequence[Any]:
        """Few of a column's values, first those that a literal names."""
        values = list(dict.fromkeys(cell for cell in own if cell is not None))
        named = [value for value in values if value in self._around[at]]
        others = [value for value in values if value not in named]
        self.draw.shuffle(others)
        return [*named, *others][: self.recipe.narrow] or own

    def _emptied(self, table: Table, column: Column, cell: Any) -> Any:
        named = column.nullable and (table.name, column.name) in self.recipe.nulls
        return None if named and self.draw.random() < self.recipe.null else cell

    def _positions(self, table: Table, names: Sequence[str]) -> list[int]:
        return [self._columns[table.name][name] for name in names if name in self._columns[table.name]]

    def _cell(
        self, source: Source, column: Column, at: int, cell: Any, before: Sequence[Row], own: Sequence[Any]
    ) -> Any:
        recipe, draw = self.recipe, self.draw
        if self._in_blocks(source.table):
            cell = self._next(f"{source.table.name}.{column.name}", different(own)) if own else None
            return self._emptied(source.table, column, self._border(column, at, cell))
        if before and draw.random() < recipe.tie:
            return before[-1][at]
        if draw.random() < recipe.mix:
            cell = draw.choice(own)
        if cell is not None and draw.random() < recipe.fresh:
            if at not in self._values:
                self._values[at] = different(own)
            cell = near(cell, self._values[at], len(own), draw)
        return self._emptied(source.table, column, self._border(column, at, cell))

    def _borders_of(self, names: Sequence[str], own: Sequence[Any]) -> list[Any]:
        """The border values that a column of these names, with these cells, can hold."""
        return fitting((value for name in names for value in self.borders.get(name.lower(), ())), own)

    def _border(self, column: Column, at: int, cell: Any) -> Any:
        around = self._around[at]
        if around and self.draw.random() < self.recipe.border:
            # In turn rather than by chance, so that every border is stood on before any is stood on twice.
            first = self.draw.randrange(len(around)) if self.recipe.turn < 0 else self.recipe.turn
            turn = self._turns[column.name] = self._turns.get(column.name, first) + 1
            return around[turn % len(around)]
        return cell

    def _meet(self, table: Table, column: Column, cell: Any, own: Sequence[Any]) -> Any:
        """The cell, or one that a column has which a statement compares this one with."""
        places = self.meets.get((table.name.lower(), column.name.lower()), ())
        if not places or self.draw.random() >= self.recipe.met:
            return cell
        met = [
            row[at]
            for other, rows in self.made.items()
            for name, at in self._columns[other].items()
            if (other.lower(), name.lower()) in places
            for row in rows
        ]
        found = as_met(self.draw.choice(met), own) if met else None
        return cell if found is None else found

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
            if known and self._in_blocks(source.table):
                mine = self._next(f"{source.table.name} {number}", known)
            elif known and (mine not in held or self.draw.random() < self.recipe.mix):
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

    def _rebound(self, source: Source, row: Row, taken: Keys) -> bool:
        """Give a row whose key is in use other parents, where the recipe keeps rows whole; False where it cannot."""
        if not self.recipe.whole or not source.table.foreign_keys:
            return False
        for _ in range(_TRIES):
            number, key = self.draw.choice(list(enumerate(source.table.foreign_keys)))
            known = self._parents[number][0] if number in self._parents else ()
            if known:
                values = self.draw.choice(known)
                for position, value in zip(self._positions(source.table, key.columns), values, strict=True):
                    row[position] = value
            if taken.take(row):
                return True
        return False

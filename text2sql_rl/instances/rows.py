"""Rows for a counterfactual instance: like the real ones, but told apart from them where a query could be lucky.

In: the real rows of every table and a recipe. Out: other rows, fixed by the seed. Primary keys stay unique,
foreign keys find their parent, NOT NULL and types hold; the other constraints are the database's to check
(build.py drops rows it refuses). Values come from the column itself, from near its values, or from the borders the
golds draw, so an instance stays a plausible database. What one column copies from another (copies.py) stays a copy.
Not here: files, SQL.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from text2sql_rl.instances.copies import copies, names_of
from text2sql_rl.records import Column, ForeignKey, Table

Row = list[Any]
# A column with at most this share of distinct cells holds codes or categories.
_CATEGORIES = 1 / 3
# Text that people cast: dates, dates with a time, numbers.
_FORMS = tuple(
    re.compile(form) for form in (r"\d{4}-\d\d-\d\d", r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", r"-?\d+(\.\d+)?")
)
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
            if at in keys | bound
            else self._lacking(owned[at], self._around[at], f"{table.name}.{column.name}")
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

    def _lacking(self, own: Sequence[Any], around: Sequence[Any], name: str) -> Sequence[Any]:
        """A column's cells without one of its values, another one each turn; all of them where it has too few.

        Of numbers and dates it is the lowest or highest, else any category. A candidate that types in a column's few
        values, or its extreme, is right on rows that hold exactly them.
        """
        values = sorted({cell for cell in own if cell is not None}, key=_order)
        free = [value for value in values if value not in around]
        ordered = bool(free) and _order(free[0])[0] == 0
        categories = len(values) <= len(own) * _CATEGORIES
        if self.recipe.lacks < 0 or len(values) < 3 or not free or not (ordered or categories):
            return own
        if ordered:
            free = [free[0], free[-1]]
        else:
            random.Random(name).shuffle(free)
        lost = free[self.recipe.lacks % len(free)]
        return [cell for cell in own if cell != lost]

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
        values = [value for name in names for value in self.borders.get(name.lower(), ()) if _fits(value, own)]
        # Text that is a date or a number in every real row may be cast: nothing else is put there.
        if read := _read_as(own):
            values = [value for value in values if not isinstance(value, str) or read.fullmatch(value)]
        return [_like(value, own) for value in values]

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
                row[free[0]] = unused(row[free[0]], {values[group.index(free[0])] for values in used}, source, free[0])
        for group, used in taken.items():
            key = tuple(row[at] for at in group)
            if key in used:
                return False
            used.add(key)
        return True


def _order(cell: Any) -> Any:
    """A key that sorts a column's cells: by value where it has an order, by text otherwise."""
    plain = isinstance(cell, int | float | Decimal | datetime.date) and cell == cell
    return (0, cell, "") if plain else (1, 0, repr(cell))


def unused(cell: Any, used: set[Any], source: Source, at: int) -> Any:
    """A key like `cell` that is neither in use nor, if possible, among the real ones."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return max([cell, *(value for value in used if value is not None), *(row[at] for row in source.rows)]) + 1
    if isinstance(cell, str):
        return next(text for number in range(2, len(used) + 3) if (text := f"{cell}{number}") not in used)
    if isinstance(cell, datetime.date):
        return max([cell, *(value for value in used if value is not None)]) + datetime.timedelta(days=1)
    return cell


def near(cell: Any, own: Sequence[Any], draw: random.Random) -> Any:
    """A value of the same kind as `cell`; codes and categories stay among the column's own values.

    A column that holds one value only keeps it: variety that the real rows do not have would be unfair.
    """
    values = sorted({value for value in own if value is not None}, key=repr)
    if len(values) < 2:
        return cell
    if isinstance(cell, bool):
        return draw.random() < 0.5
    if len(values) <= max(2, int(len(own) * _CATEGORIES)):
        return draw.choice(values)
    if isinstance(cell, int):
        low, high = min(values), max(values)
        return max(draw.randint(low - 1, high + 1 + (high - low) // 4), 0 if low >= 0 else low - 1)
    if isinstance(cell, float):
        return round(cell * draw.choice([0.5, 0.75, 1.25, 1.5, 2.0]), 4) if cell == cell else cell
    if isinstance(cell, Decimal):
        factor = draw.choice([Decimal("0.5"), Decimal("0.75"), Decimal("1.25"), Decimal("0.9")])
        return (cell * factor).quantize(cell) if cell.is_finite() else cell
    if isinstance(cell, datetime.date):  # datetime too
        return cell + datetime.timedelta(days=draw.randint(-40, 40))
    if isinstance(cell, bytes):
        return bytes(byte ^ draw.randint(0, 255) for byte in cell) or b"\x01"
    return _near_text(cell, draw) if isinstance(cell, str) else cell


def _near_text(cell: str, draw: random.Random) -> str:
    """Text of the same shape: digits for digits, letters for letters; a date stays a date."""
    try:
        return (datetime.date.fromisoformat(cell) + datetime.timedelta(days=draw.randint(-40, 40))).isoformat()
    except ValueError:
        pass

    def other(match: re.Match[str]) -> str:
        char = match[0]
        if char.isdigit():
            return draw.choice("0123456789" if match.start() else "123456789")
        letter = draw.choice("abcdefghiklmnoprstuvw")
        return letter.upper() if char.isupper() else letter

    places = [match.start() for match in re.finditer(r"[0-9A-Za-z]", cell)]
    chosen = set(draw.sample(places, min(len(places), 2)))
    return re.sub(r"[0-9A-Za-z]", lambda match: other(match) if match.start() in chosen else match[0], cell)


def _read_as(own: Sequence[Any]) -> re.Pattern[str] | None:
    """The form that all cells of a text column have, where they are dates or numbers."""
    cells = [cell for cell in own if cell is not None]
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return None
    return next((form for form in _FORMS if all(map(form.fullmatch, cells))), None)


def _fits(value: Any, own: Sequence[Any]) -> bool:
    """Whether a border value is of the kind this column holds."""
    sample = next((cell for cell in own if cell is not None), None)
    if isinstance(value, str):
        if isinstance(sample, datetime.date):
            return _instant(value) is not None
        return isinstance(sample, str)
    if isinstance(value, datetime.date):
        return isinstance(sample, datetime.date)
    return isinstance(sample, int | float | Decimal) and not isinstance(sample, bool)


def _like(value: Any, own: Sequence[Any]) -> Any:
    """A border value as the column's own Python type, where the engine would not cast it."""
    sample = next((cell for cell in own if cell is not None), None)
    if isinstance(sample, int) and isinstance(value, Decimal):
        return int(value)
    if isinstance(sample, datetime.date) and isinstance(value, str) and (moment := _instant(value)):
        if not isinstance(sample, datetime.datetime):
            return moment.date()
        return moment.replace(tzinfo=sample.tzinfo) if moment.tzinfo is None else moment
    return value


def _instant(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None

"""What a SQLite file holds: its tables with the types of what is stored, their keys, and the dirt.

In: an open SQLite connection. Out: one `StoredTable` a table, and notes. A column's type comes from its values,
not from its declaration, since SQLite keeps what it is given: whole numbers -> BIGINT, with fractions -> DOUBLE, blobs
-> BLOB, text and whatever stands beside text -> VARCHAR. Dates stay the texts or numbers that they are. A column
without values takes its type from its declaration's affinity (https://sqlite.org/datatype3.html, section 3.1).
Not here: reading rows, views.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from text2sql_rl.databases import quoted
from text2sql_rl.importers.names import Names
from text2sql_rl.records import Column, ForeignKey, Table

# SQLite gives at most 2,000 result columns.
_COLUMNS_AT_ONCE = 100
_EXACT = 2**53
_NO_VALUE = ("", "null", "n/a", "nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """A column: `source` as SQLite calls it, `as_text` where numbers stand beside texts."""

    name: str
    source: str
    type: str
    as_text: bool
    nullable: bool
    key: int


@dataclass(slots=True, kw_only=True)
class StoredTable:
    """A table and what is declared of it, in the names that it gets in DuckDB."""

    name: str
    source: str
    rows: int
    columns: tuple[StoredColumn, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()

    def as_table(self) -> Table:
        """The table as the builder takes it."""
        return Table(
            name=self.name,
            columns=tuple(
                Column(name=c.name, type=c.type, nullable=c.nullable, primary_key=c.key > 0) for c in self.columns
            ),
            foreign_keys=self.foreign_keys,
            rows=self.rows,
        )


@dataclass(slots=True)
class _Counts:
    """How many values of each storage class a column holds, and how many texts say that there is none."""

    integer: int = 0
    real: int = 0
    text: int = 0
    blob: int = 0
    void: int = 0

    @property
    def known(self) -> int:
        return self.integer + self.real + self.text + self.blob


def read_tables(connection: sqlite3.Connection, notes: list[str]) -> list[StoredTable]:
    """All tables of the file in declared order; what is left out, renamed or unclean is added to `notes`.

    Raises:
        sqlite3.Error: the file is damaged.
    """
    order = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    kinds = {name: kind for schema, name, kind, *_ in connection.execute("PRAGMA table_list") if schema == "main"}
    tables: list[StoredTable] = []
    names = Names()
    for source in order:
        kind = kinds.get(source, "table")
        if source.startswith("sqlite_") or kind == "shadow":
            continue
        if kind == "virtual":
            notes.append(f"{source}: a virtual table; left out")
            continue
        tables.append(_table(connection, source, names, notes))
    for table in tables:
        _keys(connection, table, tables, notes)
    return tables


def _table(connection: sqlite3.Connection, source: str, names: Names, notes: list[str]) -> StoredTable:
    name = names.fresh(source, "table")
    if name != source:
        notes.append(f"{source!r}: is called {name} here")
    facts = connection.execute(f"PRAGMA table_xinfo({quoted(source)})").fetchall()
    visible = [fact for fact in facts if fact[6] != 1]
    rows, counts = _counts(connection, source, [fact[1] for fact in visible])
    own = Names()
    columns = []
    for (_, column, declared, not_null, _, key, hidden), count in zip(visible, counts, strict=True):
        called = own.fresh(column, "column")
        place = f"{name}.{called}"
        if called != column:
            notes.append(f"{place}: is called {column!r} in the source")
        if hidden in (2, 3):
            notes.append(f"{place}: a generated column; kept with the values it had")
        kind, as_text = _type(declared, count)
        _dirt(connection, source, column, place, kind, count, notes)
        columns.append(
            StoredColumn(
                name=called,
                source=column,
                type=kind,
                as_text=as_text,
                nullable=not (not_null or key) or count.known < rows,
                key=key,
            )
        )
    if not rows:
        notes.append(f"{name}: holds no row")
    return StoredTable(name=name, source=source, rows=rows, columns=tuple(columns))


def _counts(connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> tuple[int, list[_Counts]]:
    """The number of rows, and what each column holds; one pass over the table a hundred columns."""
    source = quoted(table)
    (rows,) = connection.execute(f"SELECT count(*) FROM {source}").fetchone()
    found: list[_Counts] = []
    for start in range(0, len(columns), _COLUMNS_AT_ONCE):
        some = [quoted(column) for column in columns[start : start + _COLUMNS_AT_ONCE]]
        shown = ", ".join(
            f"total(typeof({c}) = 'integer'), total(typeof({c}) = 'real'), total(typeof({c}) = 'text'), "
            f"total(typeof({c}) = 'blob'), total(typeof({c}) = 'text' AND lower({c}) IN {_NO_VALUE})"
            for c in some
        )
        (values,) = connection.execute(f"SELECT {shown} FROM {source}").fetchall()
        found += [_Counts(*(int(v) for v in values[at : at + 5])) for at in range(0, len(values), 5)]
    return rows, found


def _type(declared: str, count: _Counts) -> tuple[str, bool]:
    """DuckDB's type for what is stored, and whether values must be written as text for it."""
    numbers = count.integer + count.real
    if not count.known:
        return _declared_type(declared), False
    if count.blob == count.known:
        return "BLOB", False
    if numbers == count.known:
        return ("DOUBLE" if count.real else "BIGINT"), False
    return "VARCHAR", count.text < count.known


def _declared_type(declared: str) -> str:
    """DuckDB's type for a column without values: SQLite's affinity, but dates are texts."""
    name = declared.upper()
    if "INT" in name or "BOOL" in name:
        return "BIGINT"
    if "BLOB" in name:
        return "BLOB"
    if not name or any(part in name for part in ("CHAR", "CLOB", "TEXT", "DATE", "TIME", "STRING")):
        return "VARCHAR"
    return "DOUBLE"


def _dirt(
    connection: sqlite3.Connection, table: str, column: str, place: str, kind: str, count: _Counts, notes: list[str]
) -> None:
    source, name = quoted(table), quoted(column)
    numbers = count.integer + count.real
    if kind == "VARCHAR" and numbers:
        texts = connection.execute(
            f"SELECT DISTINCT substr({name}, 1, 20) FROM {source} WHERE typeof({name}) = 'text' LIMIT 3"
        )
        shown = ", ".join(repr(_shown(value)) for (value,) in texts)
        notes.append(f"{place}: {numbers} numbers beside {count.text} texts ({shown}); all kept as text")
    elif kind == "VARCHAR" and count.void:
        notes.append(f"{place}: {count.void} texts say that there is no value ('', NULL, N/A or NaN); kept")
    if kind == "VARCHAR" and count.blob:
        notes.append(f"{place}: {count.blob} blobs beside texts; kept as text")
    if kind == "DOUBLE" and count.integer:
        low, high = connection.execute(
            f"SELECT min({name}), max({name}) FROM {source} WHERE typeof({name}) = 'integer'"
        ).fetchone()
        if max(-low, high) > _EXACT:
            notes.append(f"{place}: whole numbers beyond 2^53 beside fractions; they lose digits")
    if kind == "DOUBLE" and count.real:
        (huge,) = connection.execute(
            f"SELECT count(*) FROM {source} WHERE typeof({name}) = 'real' AND abs({name}) >= 9223372036854775807.0"
        ).fetchone()
        if huge:
            notes.append(f"{place}: {huge} numbers beyond 64 bits; SQLite keeps 15 of their digits")


def _shown(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _keys(connection: sqlite3.Connection, table: StoredTable, tables: Sequence[StoredTable], notes: list[str]) -> None:
    named = {column.source.lower(): column.name for column in table.columns}
    unique: list[tuple[str, ...]] = []
    for _, index, is_unique, _, partial in connection.execute(f"PRAGMA index_list({quoted(table.source)})").fetchall():
        columns = [row[2] for row in connection.execute(f"PRAGMA index_info({quoted(index)})")]
        if is_unique and not partial and all(column is not None and column.lower() in named for column in columns):
            unique.append(tuple(named[column.lower()] for column in columns))
    key = tuple(c.name for c in table.columns if c.key)
    table.unique = tuple(one for one in dict.fromkeys(reversed(unique)) if sorted(one) != sorted(key))
    foreign: dict[int, list[tuple[str, str, str | None]]] = {}
    for number, _, parent, column, target, *_ in connection.execute(f"PRAGMA foreign_key_list({quoted(table.source)})"):
        foreign.setdefault(number, []).append((parent, column, target))
    found = (_foreign_key(table, foreign[number], tables, notes) for number in sorted(foreign, reverse=True))
    table.foreign_keys = tuple(one for one in found if one is not None)


def _foreign_key(
    table: StoredTable, parts: Sequence[tuple[str, str, str | None]], tables: Sequence[StoredTable], notes: list[str]
) -> ForeignKey | None:
    """One declared foreign key in DuckDB's names, or None with a note where it leads nowhere."""
    own = _find(((c.source, c.name) for c in table.columns), [column for _, column, _ in parts])
    parent = next((t for t in tables if t.source.lower() == parts[0][0].lower()), None)
    if parent is None or own is None:
        notes.append(f"{table.name}: a foreign key to {parts[0][0]!r}, which is not there; left out")
        return None
    if all(target is None for _, _, target in parts):
        ordered = sorted((c for c in parent.columns if c.key), key=lambda c: c.key)
        references: tuple[str, ...] | None = tuple(c.name for c in ordered)
    else:
        references = _find(((c.source, c.name) for c in parent.columns), [target or "" for _, _, target in parts])
    if references is None or len(references) != len(own):
        notes.append(f"{table.name}: a foreign key to columns that {parent.name} does not have; left out")
        return None
    return ForeignKey(columns=own, table=parent.name, references=references)


def _find(pairs: Iterable[tuple[str, str]], wanted: Sequence[str]) -> tuple[str, ...] | None:
    known = {source.lower(): name for source, name in pairs}
    found = tuple(known.get(name.lower(), "") for name in wanted)
    return found if all(found) else None

"""Loaded tables and declared keys become a finished database: the last step of every importer.

In: a connection whose staged tables hold the rows and no constraint, and the keys that the source declares or that
were inferred. Out: the DuckDB file, its seal and ABOUT.md. A key that the rows obey becomes a constraint of the file;
one that they break, or that DuckDB cannot enforce, is declared in the seal, and named in the notes where the rows are
the reason. Not here: reading sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from text2sql_rl.databases import as_sealed, quoted, read_schema
from text2sql_rl.importers.layout import ContentRoot
from text2sql_rl.records import ForeignKey, Table
from text2sql_rl.seals import Reject, Seal, file_sha256, read_seal, seal_path, write_seal

# An index of a constraint is held in memory while it is built: about 40 bytes a row.
_MOST_KEYED_ROWS = 2_000_000
# Small blocks keep a small database small; large ones read faster with DuckDB's own size.
_SMALL_FILE_BYTES, _SMALL_ROWS, _SMALL_BLOCK, _BLOCK = 64 << 20, 1_000_000, 16384, 262144
ENGINE = {"threads": "1", "memory_limit": "1GB", "preserve_insertion_order": "true"}

_Unique = Mapping[str, Sequence[tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Converted:
    """One imported database.

    `path` is its read-only DuckDB file, `schema` its tables as `DatabaseStore` gives them, `notes` what is not as in
    the source or should be known, `rejects` parts of the source that are missing. `skipped` is true when it was there
    already, from the same content.
    """

    name: str
    path: Path
    schema: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()
    skipped: bool = False

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.schema)


@dataclass(slots=True)
class _Keys:
    """What the rows obey (constraints) and what they do not (declared in the seal)."""

    primary: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unique: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    foreign: dict[str, list[ForeignKey]] = field(default_factory=dict)
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    joins: dict[str, list[ForeignKey]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def staging_area(folder: Path, source_bytes: int) -> duckdb.DuckDBPyConnection:
    """A connection to stage tables in: one thread, 1 GB, in memory for a small source, in `folder` for a large one."""
    connection = duckdb.connect(config={**ENGINE, "temp_directory": str(folder / "spill")})
    place = ":memory:" if source_bytes < _SMALL_FILE_BYTES else _escaped(folder / "staged.duckdb")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"ATTACH '{place}' AS staged")
    connection.execute("USE staged")
    return connection


def build(
    connection: duckdb.DuckDBPyConnection,
    target: Path,
    tables: Sequence[Table],
    unique: _Unique,
    seal: Seal,
    views: Sequence[str],
) -> Seal:
    """Writes the database `target` with its seal and ABOUT.md beside it; the seal, filled in.

    Args:
        connection: from `staging_area`; holds a table of each name, without constraints. Not to be used afterwards.
        target: the DuckDB file to write.
        tables: the tables as declared, in declared order; their keys and NOT NULLs are wishes.
        unique: further sets of columns that are declared unique, by table.
        seal: content, source and the notes so far.
        views: CREATE VIEW statements that are known to run.

    Raises:
        duckdb.Error: the engine is hurt, e.g. by a full disk.
    """
    size = _SMALL_BLOCK if sum(table.rows for table in tables) < _SMALL_ROWS else _BLOCK
    connection.execute(f"ATTACH '{_escaped(target)}' AS made (BLOCK_SIZE {size})")
    connection.execute("USE made")
    keys = _obeyed(connection, tables, unique)
    connection.execute("BEGIN")
    for table in _parents_first(tables, keys):
        connection.execute(_ddl(table, keys))
        connection.execute(f"INSERT INTO {quoted(table.name)} SELECT * FROM staged.main.{quoted(table.name)}")
    for statement in views:
        connection.execute(statement)
    connection.execute("COMMIT")
    connection.execute("USE memory")
    connection.execute("DETACH made")  # writes everything into the file
    whole = replace(
        seal,
        sha256=file_sha256(target),
        tables=tuple(table.name for table in tables),
        keys=keys.declared,
        joins={name: tuple(joins) for name, joins in keys.joins.items()},
        notes=(*seal.notes, *keys.notes),
    )
    write_seal(whole, seal_path(target))
    (target.parent / "ABOUT.md").write_text("\n".join(about(target.stem, whole)) + "\n", encoding="utf-8")
    return whole


def converted(path: Path, seal: Seal, skipped: bool = False) -> Converted:
    """A placed database as the importers report it."""
    return Converted(path.stem, path, as_sealed(read_schema(path), seal), seal.notes, seal.rejects, skipped)


def existing(root: ContentRoot, name: str) -> Converted:
    """A database that was there already, intact."""
    path = root.database_file(name)
    return converted(path, read_seal(path) or Seal(sha256="", tables=()), skipped=True)


def about(name: str, seal: Seal) -> list[str]:
    """The lines of ABOUT.md: origin and notes."""
    lines = [f"Imported from `{seal.source}`; tables: {', '.join(seal.tables)}."]
    return lines + (["", *(f"- {note}" for note in seal.notes)] if seal.notes else [])


def _obeyed(connection: duckdb.DuckDBPyConnection, tables: Sequence[Table], unique: _Unique) -> _Keys:
    keys = _Keys()
    known = {table.name: table for table in tables}
    for table in tables:
        key = tuple(column.name for column in table.columns if column.primary_key)
        if key and table.rows > _MOST_KEYED_ROWS:
            keys.declared[table.name] = key
            keys.notes.append(f"{table.name}: {table.rows} rows; its keys are declared, not enforced")
        elif key and (fault := _key_fault(connection, table, key)):
            keys.declared[table.name] = key
            keys.notes.append(f"{table.name}: the primary key ({', '.join(key)}) is declared, not enforced: {fault}")
        elif key:
            keys.primary[table.name] = key
        for columns in unique.get(table.name, ()):
            if table.rows <= _MOST_KEYED_ROWS and columns != key and not _repeated(connection, table, columns):
                keys.unique.setdefault(table.name, []).append(columns)
    for table in tables:
        for link in dict.fromkeys(table.foreign_keys):
            reason = _foreign_fault(connection, table, known[link.table], link, keys)
            if reason is None:
                keys.foreign.setdefault(table.name, []).append(link)
                continue
            keys.joins.setdefault(table.name, []).append(link)
            if reason:
                keys.notes.append(
                    f"{table.name}: the foreign key ({', '.join(link.columns)}) to {link.table} is declared, not "
                    f"enforced: {reason}"
                )
    return keys


def _key_fault(connection: duckdb.DuckDBPyConnection, table: Table, columns: Sequence[str]) -> str:
    missing = " OR ".join(f"{quoted(column)} IS NULL" for column in columns)
    if nulls := _count(connection, f"SELECT count(*) FROM staged.main.{quoted(table.name)} WHERE {missing}"):
        return f"{nulls} rows without it"
    repeated = _repeated(connection, table, columns)
    return f"{repeated} values stand more than once" if repeated else ""


def _repeated(connection: duckdb.DuckDBPyConnection, table: Table, columns: Sequence[str]) -> int:
    """How many values of the columns stand in several rows; rows with a NULL there do not count."""
    names = ", ".join(quoted(column) for column in columns)
    known = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in columns)
    inner = f"SELECT 1 FROM staged.main.{quoted(table.name)} WHERE {known} GROUP BY {names} HAVING count(*) > 1"
    return _count(connection, f"SELECT count(*) FROM ({inner})")


def _foreign_fault(
    connection: duckdb.DuckDBPyConnection, table: Table, parent: Table, key: ForeignKey, keys: _Keys
) -> str | None:
    """Why a foreign key is not a constraint: None where it is one, "" where only DuckDB is the reason."""
    own = {column.name: column.type for column in table.columns}
    other = {column.name: column.type for column in parent.columns}
    pairs = list(zip(key.columns, key.references, strict=True))
    for column, reference in pairs:
        if own[column] != other[reference]:
            return f"{column} is {own[column]}, {key.table}.{reference} is {other[reference]}"
    present = " AND ".join(f"c.{quoted(column)} IS NOT NULL" for column in key.columns)
    equal = " AND ".join(f"c.{quoted(column)} = p.{quoted(reference)}" for column, reference in pairs)
    orphans = _count(
        connection,
        f"SELECT count(*) FROM staged.main.{quoted(table.name)} AS c WHERE {present} AND NOT EXISTS "
        f"(SELECT 1 FROM staged.main.{quoted(parent.name)} AS p WHERE {equal})",
    )
    if orphans:
        return f"{orphans} of {table.rows} rows have no such row there"
    # DuckDB checks a self reference row by row, and indexes both sides.
    if parent.name == table.name or max(table.rows, parent.rows) > _MOST_KEYED_ROWS or _reaches(parent, table, keys):
        return ""
    if key.references in (keys.primary.get(parent.name), *keys.unique.get(parent.name, ())):
        return None
    if _repeated(connection, parent, key.references):
        return f"{', '.join(key.references)} is not unique there"
    keys.unique.setdefault(parent.name, []).append(key.references)
    return None


def _reaches(start: Table, goal: Table, keys: _Keys) -> bool:
    """Whether constraints accepted so far lead from `start` to `goal`: one more would close a circle."""
    seen, waiting = {start.name}, [start.name]
    while waiting:
        for key in keys.foreign.get(waiting.pop(), ()):
            if key.table == goal.name:
                return True
            if key.table not in seen:
                seen.add(key.table)
                waiting.append(key.table)
    return False


def _parents_first(tables: Sequence[Table], keys: _Keys) -> list[Table]:
    ordered: list[Table] = []
    waiting = list(tables)
    while waiting:
        done = {table.name for table in ordered}
        ready = [t for t in waiting if all(key.table in done for key in keys.foreign.get(t.name, ()))]
        ordered += ready
        waiting = [t for t in waiting if t not in ready]
    return ordered


def _ddl(table: Table, keys: _Keys) -> str:
    lines = [f"{quoted(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
    if key := keys.primary.get(table.name):
        lines.append(f"PRIMARY KEY ({_names(key)})")
    lines += [f"UNIQUE ({_names(columns)})" for columns in keys.unique.get(table.name, ())]
    lines += [
        f"FOREIGN KEY ({_names(k.columns)}) REFERENCES {quoted(k.table)} ({_names(k.references)})"
        for k in keys.foreign.get(table.name, ())
    ]
    return f"CREATE TABLE {quoted(table.name)} ({', '.join(lines)})"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(quoted(column) for column in columns)


def _count(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = connection.execute(sql).fetchone()
    return int(row[0]) if row else 0


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")

"""The databases folder becomes read-only DuckDB files: room 1, the door of `databases/`.

In: a folder with one folder a database, holding `schema.sql` (CREATE TABLE statements with their keys) and
`rows/TABLE.csv` (see `csv_rows.py`), or one ready file `NAME.duckdb`, with a seal where it was imported (`seals.py`).
Out: `Database` records whose instance 0 is a read-only DuckDB file, its schema, and a SHA-256 over what it was built
from. Keys and joins that a seal declares count as the file's own.

What always holds: a file in the cache is either complete and as it was built (a seal with its digest stands
beside it) or it is built anew; any number of processes may ask at once; bad content gives one `DataError` with
file, line and column, and leaves nothing behind. Not here: making rows up, running a candidate's SQL.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.csv_rows import load_table
from text2sql_rl.errors import DataError, RunError
from text2sql_rl.records import Column, Database, ForeignKey, Instance, Table
from text2sql_rl.seals import Seal, file_sha256, read_seal, seal_path, write_seal

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_CACHE_FIX = "Free disk space, or name another cache folder that is writable"
# A disk that fills surfaces as any of these, depending on what DuckDB was doing just then.
_ENGINE_HURT = (OSError, duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException)
_SCHEMA_WRONG = (duckdb.ProgrammingError, duckdb.DataError, duckdb.IntegrityError, duckdb.NotSupportedError)
# Small blocks keep a database of a few hundred rows at about 100 kB, so that hashing it at each start is free.
_BUILD = {"default_block_size": "16384", "threads": "1", "enable_external_access": "false"}
_READ = {"threads": "1", "enable_external_access": "false", "lock_configuration": "true"}


def quoted(name: str) -> str:
    """The identifier `name` as SQL, always in double quotes."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_read_only(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection for trusted SQL: one thread, no access to other files; closed at the end.

    Raises:
        DataError: the file is missing or is not a DuckDB database.
    """
    try:
        connection = duckdb.connect(str(path), read_only=True, config=dict(_READ))
    except duckdb.Error as error:
        raise DataError(f"cannot be opened as a DuckDB database ({_first_line(error)})", file=path) from error
    try:
        yield connection
    finally:
        connection.close()


def read_schema(path: Path) -> tuple[Table, ...]:
    """The tables of schema `main`, with keys and row counts; parents first, otherwise as the file lists them.

    Raises:
        DataError: the file is missing or is not a DuckDB database.
    """
    with open_read_only(path) as connection:
        return _tables(connection)


def sample_values(database: Database, table: str, column: str, limit: int) -> tuple[Any, ...]:
    """Up to `limit` distinct values of a column of instance 0: most frequent first, then in value order; no NULL.

    Raises:
        DataError: the database has no such table or column.
    """
    names = {one.name: {c.name for c in one.columns} for one in database.tables}
    if column not in names.get(table, set()):
        raise DataError(f"the database {database.name} has no column {table}.{column}")
    name = quoted(column)
    sql = (
        f"SELECT {name} FROM {quoted(table)} WHERE {name} IS NOT NULL GROUP BY {name} "
        f"ORDER BY count(*) DESC, {name} LIMIT {int(limit)}"
    )
    with open_read_only(database.instances[0].path) as connection:
        return tuple(row[0] for row in connection.execute(sql).fetchall())


class DatabaseStore:
    """All databases under `root`; what `get` builds is kept in `cache`.

    Args:
        root: the folder `databases/`.
        cache: a folder for built files; created on first use, safe to delete.
    """

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache = Path(root), Path(cache)
        self._known: dict[str, Database] = {}

    def names(self) -> tuple[str, ...]:
        """The names of all databases, in order.

        Raises:
            DataError: the root is not a folder.
        """
        if not self.root.is_dir():
            raise DataError("is not a folder", file=self.root, fix="Point to the folder that holds NAME/schema.sql")
        return tuple(sorted(p.name for p in self.root.iterdir() if _NAME.fullmatch(p.name) and _is_database(p)))

    def get(self, name: str) -> Database:
        """The database `name`, built on first use.

        Raises:
            DataError: there is no such database, or its content is bad; names the file, the line and the column.
            RunError: the cache folder cannot be written.
        """
        if name not in self._known:
            folder = self.root / name
            if not _NAME.fullmatch(name) or not _is_database(folder):
                near = difflib.get_close_matches(name, self.names(), n=3)
                fix = f"Near it: {', '.join(near)}" if near else "A database is a folder with schema.sql"
                raise DataError(f"there is no database {name!r}", file=self.root, fix=fix)
            self._known[name] = self._open(name, folder)
        return self._known[name]

    def _open(self, name: str, folder: Path) -> Database:
        ready = folder / f"{name}.duckdb"
        if ready.is_file():
            path, seal = ready, read_seal(ready)
            sha256 = (seal.content if seal else "") or file_sha256(ready)
        else:
            sha256 = _sources_sha256(folder)
            path = self.cache / f"{name}-{sha256[:16]}.duckdb"
            if (seal := read_seal(path)) is None:
                self._build(folder, path)
                seal = read_seal(path)
        tables = read_schema(path) if seal is None else as_sealed(read_schema(path), seal)
        if not tables:
            raise DataError("holds no table", file=folder, fix="Declare at least one CREATE TABLE")
        return Database(
            name=name,
            tables=tables,
            instances=(Instance(database=name, index=0, path=path, sha256=sha256),),
        )

    def _build(self, folder: Path, path: Path) -> None:
        temporary = path.with_name(f".{path.stem}-{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            # One builder a file; who waited finds it built. The lock file stays: removing it would race.
            with (self.cache / f".{path.stem}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if read_seal(path) is not None:
                    return
                order = build_file(folder, temporary)
                seal = temporary.with_suffix(".seal")
                write_seal(Seal(sha256=file_sha256(temporary), tables=order), seal)
                temporary.chmod(0o444)
                temporary.replace(path)
                seal.replace(seal_path(path))
        except _ENGINE_HURT as error:
            raise RunError(
                f"the database {folder.name} cannot be built there ({_first_line(error)})",
                file=self.cache,
                fix=_CACHE_FIX,
            ) from error
        finally:
            for left in self.cache.glob(f"{temporary.stem}.*"):
                left.unlink(missing_ok=True)


def as_sealed(tables: Sequence[Table], seal: Seal) -> tuple[Table, ...]:
    """The tables in the seal's order, with the keys and joins that it declares."""
    order = seal.tables
    return tuple(
        replace(
            table,
            columns=tuple(
                replace(c, primary_key=c.primary_key or c.name in seal.keys.get(table.name, ())) for c in table.columns
            ),
            foreign_keys=(*table.foreign_keys, *seal.joins.get(table.name, ())),
        )
        for table in sorted(tables, key=lambda t: order.index(t.name) if t.name in order else len(order))
    )


def build_file(folder: Path, target: Path) -> tuple[str, ...]:
    """Writes the new DuckDB file `target` from `folder`'s schema.sql and rows/*.csv; tables in declared order.

    Raises:
        DataError: bad content, with file, line and column. `target` may then be left half-written.
    """
    schema = folder / "schema.sql"
    with duckdb.connect(str(target), config=dict(_BUILD)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        _run_schema(connection, schema)
        tables = {table.name: table for table in _tables(connection)}
        for file in sorted((folder / "rows").glob("*")):
            if file.suffix != ".csv" or file.stem not in tables:
                raise DataError(
                    "belongs to no table of schema.sql", file=file, fix=f"Name it TABLE.csv ({', '.join(tables)})"
                )
        for table in _parents_first(tables, schema):
            load_table(connection, table, folder / "rows" / f"{table.name}.csv")
        connection.execute("CHECKPOINT")
    return tuple(tables)


def _run_schema(connection: duckdb.DuckDBPyConnection, schema: Path) -> None:
    """Runs schema.sql statement by statement, so that an error has a line."""
    text = _read_text(schema)
    line = 1
    try:
        for statement in connection.extract_statements(text):
            place = text.find(statement.query.strip())
            line = text.count("\n", 0, max(place, 0)) + 1
            if not re.match(r"CREATE\s+(TABLE|TYPE)\b", _without_comments(statement.query), re.IGNORECASE):
                raise DataError("only CREATE TABLE and CREATE TYPE may stand here", file=schema, field=f"line {line}")
            connection.execute(statement)
    except _SCHEMA_WRONG as error:
        found = re.search(r"LINE (\d+)", str(error))
        if isinstance(error, duckdb.ParserException) and found:
            line = int(found[1])
        raise DataError(_first_line(error), file=schema, field=f"line {line}") from error


def _without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", "", sql, flags=re.DOTALL).strip()


def _tables(connection: duckdb.DuckDBPyConnection) -> tuple[Table, ...]:
    found = connection.execute(
        "SELECT table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND schema_name = 'main' ORDER BY table_oid"
    ).fetchall()
    columns = connection.execute(
        "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
        "WHERE database_name = current_database() AND schema_name = 'main' ORDER BY table_oid, column_index"
    ).fetchall()
    constraints = connection.execute(
        "SELECT table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names "
        "FROM duckdb_constraints() WHERE database_name = current_database() AND schema_name = 'main' "
        "ORDER BY table_oid, constraint_index"
    ).fetchall()
    tables = []
    for (name,) in found:
        keys = {c for owner, kind, names, _, _ in constraints if owner == name and kind == "PRIMARY KEY" for c in names}
        count = connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()
        tables.append(
            Table(
                name=name,
                columns=tuple(
                    Column(name=c, type=kind, nullable=bool(nullable), primary_key=c in keys)
                    for owner, c, kind, nullable in columns
                    if owner == name
                ),
                foreign_keys=tuple(
                    ForeignKey(columns=tuple(names), table=parent, references=tuple(references))
                    for owner, kind, names, parent, references in constraints
                    if owner == name and kind == "FOREIGN KEY"
                ),
                rows=count[0] if count else 0,
            )
        )
    return tuple(tables)


def _parents_first(tables: dict[str, Table], schema: Path) -> list[Table]:
    ordered: list[Table] = []
    waiting = list(tables.values())
    while waiting:
        done = {table.name for table in ordered}
        ready = [t for t in waiting if all(k.table in done or k.table == t.name for k in t.foreign_keys)]
        if not ready:
            raise DataError("foreign keys run in a circle", file=schema, field=", ".join(t.name for t in waiting))
        ordered += ready
        waiting = [t for t in waiting if t not in ready]
    return ordered


def _is_database(folder: Path) -> bool:
    return (folder / "schema.sql").is_file() or (folder / f"{folder.name}.duckdb").is_file()


def _sources_sha256(folder: Path) -> str:
    """SHA-256 over the relative path and the content of schema.sql and every file under rows/."""
    total = hashlib.sha256()
    for file in [folder / "schema.sql", *sorted((folder / "rows").glob("*"))]:
        if file.is_file():
            total.update(f"{file.relative_to(folder).as_posix()}\0{file_sha256(file)}\n".encode())
    return total.hexdigest()


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes().count(b"\n", 0, error.start) + 1
        raise DataError("is not UTF-8 text", file=path, field=f"line {line}", fix="Save the file as UTF-8") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]

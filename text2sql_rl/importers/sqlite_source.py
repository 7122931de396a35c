"""A SQLite file becomes a database of a content root.

In: a SQLite file, the content root, a name. Out: `databases/NAME/` with a read-only DuckDB file that holds the same
rows in the same order, and notes on all that is not as in the source. Rows stream in batches, so memory does not grow
with the file. The source is opened read-only, with Python's own sqlite3. Not here: the gold SQL asked of it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from text2sql_rl.databases import quoted
from text2sql_rl.errors import DataError
from text2sql_rl.importers.build import Converted, build, converted, existing, staging_area
from text2sql_rl.importers.layout import ContentRoot, check_name, database_name
from text2sql_rl.importers.sqlite_tables import StoredTable, read_tables
from text2sql_rl.importers.sqlite_views import translated_views
from text2sql_rl.seals import Seal, file_sha256

# Raise it when another file would be made from the same source.
_VERSION = 1
_HEADER = b"SQLite format 3\0"
_BATCH_ROWS, _BATCH_BYTES = 20_000, 32 << 20
_ARROW = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(), "BLOB": pa.binary()}


def convert_sqlite(
    source: Path,
    out_dir: Path,
    name: str = "",
    *,
    replace: bool = False,
    advance: Callable[[int], None] = lambda rows: None,
) -> Converted:
    """Imports a SQLite file as the database `name`; one that is there from the same file is left as it is.

    Args:
        source: the SQLite file.
        out_dir: the content root; made where it is missing.
        name: of the database; the file's own where it is empty.
        replace: whether a database of that name with other content is replaced.
        advance: called with the number of rows that were read since the last call.

    Raises:
        DataError: the source is missing, no SQLite database, encrypted or damaged, or has no table; the name is taken.
        RunError: the content root cannot be written.
    """
    source = Path(source)
    name = name or database_name(source)
    check_name(name)
    content = hashlib.sha256(f"sqlite {_VERSION} {_sources_sha256(source)}".encode()).hexdigest()
    root = ContentRoot(out_dir)
    if not root.accepts(name, content, replace):
        return existing(root, name)
    with root.staging(name) as folder, opened(source) as connection:
        notes: list[str] = []
        tables = read_tables(connection, notes)
        if not tables:
            raise DataError("holds no table", file=source, fix="Give a database with tables")
        built, size = folder / name, source.stat().st_size
        built.mkdir()
        with closing(staging_area(folder, size)) as target:
            for table in tables:
                if damaged := _load(connection, target, table, size, advance):
                    notes.append(f"{table.name}: {damaged} texts are not UTF-8; read as Windows-1252")
            views = translated_views(connection, target, notes)
            seal = build(
                target,
                built / f"{name}.duckdb",
                [table.as_table() for table in tables],
                {table.name: table.unique for table in tables},
                Seal(sha256="", tables=(), content=content, source=source.name, notes=tuple(notes)),
                views,
            )
        return converted(root.place(name, built), seal)


@contextmanager
def opened(source: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection to a SQLite file; nothing is written beside it unless it has a write-ahead log.

    Raises:
        DataError: the file is missing, is no SQLite database, is encrypted or damaged (also while it is being read).
    """
    try:
        with source.open("rb") as file:
            header = file.read(len(_HEADER))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=source) from error
    if header and header != _HEADER:
        raise DataError(
            "is not a SQLite database, or it is encrypted", file=source, fix="Give an unencrypted SQLite 3 file"
        )
    # A log holds rows that are not in the file yet; without one, nothing may change the file while it is read.
    mode = "mode=ro" if _logs(source) else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{source.resolve().as_uri()}?{mode}", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise DataError(f"cannot be read as a SQLite database ({error})", file=source, fix="Repair the file") from error


def decoded(text: bytes) -> str:
    """A text of a SQLite file: UTF-8, or Windows-1252 where it is none."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("cp1252", "replace")


def _logs(source: Path) -> list[Path]:
    found = [source.with_name(source.name + suffix) for suffix in ("-wal", "-journal")]
    return [path for path in found if path.is_file() and path.stat().st_size]


def _sources_sha256(source: Path) -> str:
    try:
        return " ".join(file_sha256(path) for path in (source, *_logs(source)))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=source) from error


def _load(
    connection: sqlite3.Connection,
    target: duckdb.DuckDBPyConnection,
    table: StoredTable,
    source_bytes: int,
    advance: Callable[[int], None],
) -> int:
    """Writes the rows of a table to the staged file; how many texts were not UTF-8."""
    columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in table.columns)
    shown = ", ".join(f"CAST({quoted(c.source)} AS TEXT)" if c.as_text else quoted(c.source) for c in table.columns)
    schema = pa.schema([(str(at), _ARROW[column.type]) for at, column in enumerate(table.columns)])
    # No table is larger than the file, so this many rows stay within the batch's bytes.
    most = _BATCH_BYTES * table.rows // max(source_bytes, 1)
    batch_rows = max(1, min(_BATCH_ROWS, 2_000_000 // len(table.columns), most))
    damaged = 0

    def tolerant(text: bytes) -> str:
        nonlocal damaged
        read = decoded(text)
        damaged += read.encode() != text
        return read

    for factory in (str, tolerant):
        target.execute(f"CREATE OR REPLACE TABLE {quoted(table.name)} ({columns})")
        connection.text_factory = factory
        # An index that covers all columns would give the rows in its own order.
        cursor = connection.execute(f"SELECT {shown} FROM {quoted(table.source)} NOT INDEXED")
        try:
            while rows := cursor.fetchmany(batch_rows):
                batch = _arrow(rows, schema)
                target.register("batch", batch)
                target.execute(f"INSERT INTO {quoted(table.name)} SELECT * FROM batch")
                target.unregister("batch")
                advance(len(rows))
            return damaged
        except sqlite3.OperationalError as error:
            if "decode" not in str(error).lower() or factory is tolerant:
                raise
        finally:
            connection.text_factory = str
    return damaged


def _arrow(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    arrays = []
    for at, field in enumerate(schema):
        values = [row[at] for row in rows]
        if field.type == pa.float64():
            # pyarrow refuses whole numbers beyond 2^53 here.
            values = [float(value) if isinstance(value, int) else value for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=schema)

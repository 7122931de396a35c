"""Reading the real rows, writing a counterfactual file.

In: a DuckDB file. Out: its tables with a sample of their rows, and new files of the same schema. A file appears
under its name only when it is complete. Rows that a CHECK or another constraint of the schema refuses are left out.
Not here: which rows (rows.py).
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.databases import quoted, read_schema
from text2sql_rl.errors import DataError, RunError
from text2sql_rl.instances.recipes import Recipe
from text2sql_rl.instances.rows import Maker, Place, Row, Source
from text2sql_rl.records import Column, ForeignKey, Instance, Table

# So many real rows of a table are enough to draw from.
_SAMPLE = 400
# The Python client cannot write these as it reads them; they travel as text.
_AS_TEXT = re.compile(r"\]$|^(STRUCT|MAP|UNION|TUPLE|INTERVAL|BIT|VARIANT|TIMESTAMP_NS)", re.IGNORECASE)

_REFUSED = (duckdb.ConstraintException, duckdb.ConversionException, duckdb.OutOfRangeException)


@contextmanager
def opened(real: Instance) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that sees the real rows, read-only, as `real`.

    Raises:
        DataError: the file is missing or no DuckDB database.
    """
    try:
        connection = duckdb.connect(config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"ATTACH '{_escaped(real.path)}' AS real (READ_ONLY)")
    except duckdb.Error as error:
        raise DataError(f"cannot be opened: {error}", file=real.path) from error
    with connection:
        yield connection


def read_sources(connection: duckdb.DuckDBPyConnection, real: Instance) -> tuple[Source, ...]:
    """The tables of the real instance, parents first, with the keys that nobody declared but the rows keep."""
    sources = [_source(connection, table) for table in read_schema(real.path)]
    sources = [_referring(source, sources) for source in sources]
    return tuple(sorted(sources, key=lambda source: _depth(source, sources)))


def make_instance(
    connection: duckdb.DuckDBPyConnection,
    real: Instance,
    sources: Sequence[Source],
    recipe: Recipe,
    borders: Mapping[str, Sequence[object]],
    stamp: str,
    folder: Path,
    meets: Mapping[Place, Sequence[Place]] | None = None,
) -> Instance | None:
    """Make one instance after a recipe, or find it made before; None when the recipe cannot keep the schema's promises.

    Args:
        connection: sees the real rows, see `opened`.
        real: instance 0.
        sources: its tables, see `read_sources`.
        recipe: how rows change.
        borders: lower-cased column name -> values around the golds' literals.
        stamp: all that the rows depend on beside the recipe.
        folder: where the file goes.
        meets: (table, column) -> columns that a statement compares it with.
    """
    sha = hashlib.sha256(f"{stamp}{recipe.name}".encode()).hexdigest()
    path = folder / f"{real.database}-{sha[:16]}.duckdb"
    if not path.exists():
        referred = frozenset(key.table for source in sources if source.rows for key in source.table.foreign_keys)
        maker = Maker(random.Random(sha), recipe, borders, meets or {}, referred)
        try:
            write_instance(connection, path, sources, {source.table.name: maker.make(source) for source in sources})
        except DataError:
            return None
    return Instance(database=real.database, index=0, path=path, sha256=sha)


def write_instance(
    connection: duckdb.DuckDBPyConnection, target: Path, sources: Sequence[Source], rows: Mapping[str, Sequence[Row]]
) -> None:
    """Write a file with the schema of the real instance and other rows.

    Raises:
        DataError: the schema cannot be copied.
        RunError: the file cannot be written: a verdict must not depend on how full the disk is.
    """
    partial = target.with_name(f".{target.stem}-{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        connection.execute(
            f"ATTACH '{_escaped(partial)}' AS made (BLOCK_SIZE 16384)"
        )  # few rows: a file of some kilobytes
        try:
            connection.execute("COPY FROM DATABASE real TO made (SCHEMA)")
            for source in sources:
                _insert(connection, source.table, rows[source.table.name])
        finally:
            connection.execute("DETACH made")
        partial.replace(target)
    except (duckdb.IOException, OSError) as error:
        partial.unlink(missing_ok=True)
        fix = "Free disk space, or name another folder: in TEXT2SQL_CACHE for the cache, in TMPDIR for a judge's own"
        raise RunError(f"instances cannot be kept there ({error})", file=target.parent, fix=fix) from error
    except duckdb.Error as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"no counterfactual rows: {error}", file=target) from error


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")


def _source(connection: duckdb.DuckDBPyConnection, table: Table) -> Source:
    shown = ", ".join(
        f"CAST({quoted(column.name)} AS VARCHAR)" if _AS_TEXT.search(column.type) else quoted(column.name)
        for column in table.columns
    )
    # Every n-th row, so that the sample spans the table and is the same each time.
    step = max(1, table.rows // _SAMPLE)
    sql = f"SELECT {shown} FROM real.main.{quoted(table.name)} WHERE rowid % {step} = 0 ORDER BY rowid LIMIT {_SAMPLE}"
    rows = connection.execute(sql).fetchall()
    declared = connection.execute(
        "SELECT constraint_column_names FROM duckdb_constraints() WHERE database_name = 'real' AND table_name = ? "
        "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_index",
        [table.name],
    ).fetchall()
    at = {column.name: position for position, column in enumerate(table.columns)}
    unique = [tuple(at[name] for name in names) for (names,) in declared]
    unique += [(position,) for position in _inferred(table, rows) if (position,) not in unique]
    return Source(table, rows, tuple(unique))


def _inferred(table: Table, rows: Sequence[Sequence[Any]]) -> Iterator[int]:
    """Columns called id that hold no value twice: keys, though nobody declared them."""
    for position, column in enumerate(table.columns):
        cells = [row[position] for row in rows]
        if column.name.lower() == "id" and None not in cells and len(set(cells)) == len(cells):
            yield position


def _referring(source: Source, sources: Sequence[Source]) -> Source:
    """With a foreign key for every column named after another table's key whose values are all found there."""
    table, keys = source.table, list(source.table.foreign_keys)
    bound = {name for key in keys for name in key.columns}
    for at, column in enumerate(table.columns):
        cells = {row[at] for row in source.rows} - {None}
        for other in sources:
            single = [group[0] for group in other.unique if len(group) == 1]
            if column.name in bound or other.table.name == table.name or not single or not cells:
                continue
            target = other.table.columns[single[0]]
            name, home = column.name.lower(), other.table.name.lower()
            named = name == target.name.lower() != "id" or name.replace("_", "") in (f"{home}id", f"{home[:-1]}id")
            if named and cells <= {row[single[0]] for row in other.rows}:
                keys.append(ForeignKey(columns=(column.name,), table=other.table.name, references=(target.name,)))
                bound.add(column.name)
    # One direction only: two tables that hold each other's keys share them, and neither comes first.
    keys = [key for key in keys if key in table.foreign_keys or not _depends(key.table, table.name, sources)]
    return replace(source, table=replace(table, foreign_keys=tuple(keys)))


def _depends(name: str, on: str, sources: Sequence[Source]) -> bool:
    """Whether the declared foreign keys of table `name` lead to table `on`, or it stands before it by name."""
    own = next(source.table for source in sources if source.table.name == name)
    return any(key.table == on for key in own.foreign_keys)


def _depth(source: Source, sources: Sequence[Source], seen: frozenset[str] = frozenset()) -> int:
    """Steps to a table without parents; a circle ends where it closes."""
    name = source.table.name
    parents = {key.table for key in source.table.foreign_keys} - seen - {name}
    homes = [other for other in sources if other.table.name in parents]
    return max((1 + _depth(other, sources, seen | {name}) for other in homes), default=0)


def _insert(connection: duckdb.DuckDBPyConnection, table: Table, rows: Sequence[Row]) -> None:
    if not rows:
        return
    target = f"made.main.{quoted(table.name)}"
    columns = [list(cells) for cells in zip(*rows, strict=True)]
    try:
        if all(_of_one_type(cells) for cells in columns):
            lists = ", ".join(f"unnest(CAST(? AS {_castable(column)}[]))" for column in table.columns)
            connection.execute(f"INSERT INTO {target} SELECT {lists}", columns)
            return
    except _REFUSED:
        pass  # by one row at least: each is tried on its own
    holder = "(" + ", ".join(f"CAST(? AS {_castable(column)})" for column in table.columns) + ")"
    for row in rows:
        _insert_one(connection, f"INSERT INTO {target} VALUES {holder}", row)


def _of_one_type(cells: Sequence[Any]) -> bool:
    """Whether a list of these holds each as it is: the engine would write a number beside a text as text."""
    return len({type(cell) for cell in cells if cell is not None}) <= 1


def _insert_one(connection: duckdb.DuckDBPyConnection, sql: str, row: Row) -> None:
    try:
        connection.execute(sql, row)
    except _REFUSED:
        return  # the schema refuses this row: the instance does without it


def _castable(column: Column) -> str:
    return "VARCHAR" if column.type == "JSON" else column.type

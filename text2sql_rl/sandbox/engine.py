"""DuckDB made safe: open instances locked down, run one statement on one of them under caps.

In: the paths of read-only database files, a statement that the gate has passed. Out: a `Run`: an outcome, and for
ROWS the encoded rows. A statement runs on a cursor of its own, closed after it, so that nothing temporary outlives
it. Rows are fetched in small batches and counted while they stream.

Memory: `memory_limit` bounds DuckDB's operators; scalar functions, constant folding and planning only end at the
address space cap of the process (confine.py). An end that may have left the process crooked, or that may have come
from what ran before, is marked `hurt`: the process is not used again.

Not here: the gate, the deadline's clock (worker.py), the process (confine.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from text2sql_rl.records import Outcome
from text2sql_rl.sandbox.gate import Names
from text2sql_rl.sandbox.limits import ONE_THREAD, Limits
from text2sql_rl.sandbox.wire import encode_rows

_FIRST_ROWS, _BATCH_ROWS = 16, 512  # few at first: one row may be huge
_BLOCK = re.compile(r"allocate block of (\d+) bytes \(bad allocation\)")
_REASON_CHARS = 500
_TYPE_CHARS = 10_000
_HURT = (duckdb.FatalException, duckdb.InternalException, duckdb.IOException)
_TABLES = """
    SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary
    UNION ALL
    SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary
"""
_COLUMNS = "SELECT DISTINCT database_name, column_name FROM duckdb_columns() WHERE NOT internal"


@dataclass(frozen=True, slots=True)
class Opened:
    """An open instance and the names it has. Instances that share an engine share its connection."""

    connection: duckdb.DuckDBPyConnection
    catalog: str
    names: Names
    shares: bool = False

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A fresh cursor on this instance; the caller closes it."""
        cursor = self.connection.cursor()
        if self.shares:
            cursor.execute(f"USE {_quoted(self.catalog)}")
        return cursor


@dataclass(frozen=True, slots=True)
class Run:
    """What one statement came to. `chunks` are the encoded rows; `hurt` asks for a new process."""

    outcome: Outcome
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    chunks: tuple[bytes, ...] = ()
    rows: int = 0
    reason: str = ""
    hurt: bool = False


def open_instances(paths: Sequence[Path], limits: Limits, locked: bool = True) -> list[Opened]:
    """Open database files read-only in one engine and lock it down.

    Args:
        paths: DuckDB files, each of another name; at least one.
        limits: memory of the operators; the engine's own clock, which knows no processor time, is set to the end of
            all patience.
        locked: false leaves only read-only and the memory cap (tests of the other layers).

    Raises:
        duckdb.Error: a file is missing or is not a database of this engine version.
    """
    config = ONE_THREAD | {"memory_limit": f"{limits.memory_mb}MB"}
    if locked:
        config |= {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": "",
        }
    # The first is the engine's own database, so that no catalogue is open that could be written.
    connection = duckdb.connect(str(paths[0]), read_only=True, config=config)
    catalogs = [str(connection.execute("SELECT current_database()").fetchall()[0][0])]
    for path in paths[1:]:
        catalogs.append(path.stem)
        connection.execute(f"ATTACH '{_escaped(path)}' AS {_quoted(path.stem)} (READ_ONLY)")
    # GLOBAL, because a plain SET holds for this cursor and not for those the statements run on.
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    tables = connection.execute(_TABLES).fetchall()
    columns = connection.execute(_COLUMNS).fetchall()
    if locked:
        connection.execute("SET GLOBAL enable_external_access = false")
        connection.execute(f"SET GLOBAL max_execution_time = {round(limits.patience_s * 1000)}")
        connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
        connection.execute("SET lock_configuration = true")
    return [Opened(connection, one, _names(one, tables, columns), len(paths) > 1) for one in catalogs]


def _names(catalog: str, tables: Iterable[tuple[str, str, str]], columns: Iterable[tuple[str, str]]) -> Names:
    own = [(schema.lower(), table.lower()) for home, schema, table in tables if home == catalog]
    return Names(
        catalog=catalog.lower(),
        schemas=frozenset({"main"} | {schema for schema, _ in own}),
        tables=frozenset(table for _, table in own),
        columns=frozenset(column.lower() for home, column in columns if home == catalog),
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")


def run_statement(cursor: duckdb.DuckDBPyConnection, sql: str, limits: Limits, expired: Callable[[], bool]) -> Run:
    """Run one statement and fetch it under the caps.

    Args:
        cursor: a fresh cursor, closed by the caller.
        sql: a statement that passed the gate.
        limits: row and byte caps.
        expired: whether the deadline has passed.
    """
    try:
        run = _fetch(cursor, sql, limits, expired)
    except duckdb.InterruptException:
        return Run(Outcome.TIMEOUT, reason=_timeout(limits))
    except duckdb.OutOfMemoryException as error:
        run = Run(Outcome.MEMORY, reason=_reason(error), hurt=not _foreseeable(str(error), limits))
    except MemoryError:
        run = Run(Outcome.MEMORY, reason="no memory left for the rows", hurt=True)
    except duckdb.Error as error:
        run = Run(Outcome.ERROR, reason=_reason(error), hurt=isinstance(error, _HURT))
    except (RuntimeError, ValueError, OverflowError) as error:  # the client cannot turn a value into Python
        run = Run(Outcome.ERROR, reason=_reason(error))
    if expired():
        return Run(Outcome.TIMEOUT, reason=_timeout(limits))
    return run


def _fetch(cursor: duckdb.DuckDBPyConnection, sql: str, limits: Limits, expired: Callable[[], bool]) -> Run:
    cursor.execute(sql)
    if cursor.description is None:
        return Run(Outcome.ERROR, reason="the statement has no result")
    columns = tuple(str(column[0]) for column in cursor.description)
    types = tuple(str(column[1])[:_TYPE_CHARS] for column in cursor.description)
    chunks: list[bytes] = []
    count = size = 0
    step = _FIRST_ROWS
    while batch := cursor.fetchmany(min(step, limits.max_rows + 1 - count)):
        count += len(batch)
        step = min(_BATCH_ROWS, 4 * step)
        if count > limits.max_rows:
            return Run(Outcome.TOO_LARGE, columns, types, reason=f"more than {limits.max_rows} rows")
        chunks.append(encode_rows(batch))
        size += len(chunks[-1])
        if size > limits.max_bytes:
            return Run(Outcome.TOO_LARGE, columns, types, reason=f"more than {limits.max_bytes} bytes")
        if expired():
            break
    return Run(Outcome.ROWS, columns, types, tuple(chunks), count)


def _foreseeable(message: str, limits: Limits) -> bool:
    """Whether memory ended in a way that does not depend on what ran before and leaves the process whole.

    That is so when DuckDB's own cap ended it (the message says how much is `used`), and when one single block was
    asked for that no worker has room for.
    """
    block = _BLOCK.search(message)
    return " used)" in message or (block is not None and int(block[1]) > limits.address_space_bytes)


def _timeout(limits: Limits) -> str:
    return f"not done after {limits.timeout_s:g} s"


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:_REASON_CHARS]

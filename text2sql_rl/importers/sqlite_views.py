"""The views of a SQLite file as views of DuckDB.

In: the SQLite file and the staged tables. Out: CREATE VIEW statements whose rows in DuckDB are SQLite's own. A view
that does not translate, or gives other rows, is left out and named. Not here: gold SQL; it has a bridge of its own.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from text2sql_rl.databases import quoted

_MOST_ROWS = 100_000


def translated_views(connection: sqlite3.Connection, target: duckdb.DuckDBPyConnection, notes: list[str]) -> list[str]:
    """CREATE VIEW statements, each after the views that it reads; what is left out is added to `notes`."""
    waiting = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view' ORDER BY rowid"))
    kept: list[str] = []
    problems: dict[str, str] = {}
    while waiting:
        # A view may read another that is declared after it.
        done = [name for name, sql in waiting.items() if _translate(connection, target, name, sql, kept, problems)]
        if not done:
            break
        for name in done:
            del waiting[name]
    notes += [f"{name}: a view; left out: {problems[name]}" for name in waiting]
    return kept


def _translate(
    connection: sqlite3.Connection,
    target: duckdb.DuckDBPyConnection,
    name: str,
    sql: str,
    kept: list[str],
    problems: dict[str, str],
) -> bool:
    statement = ""
    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
        query = tree.expression if isinstance(tree, exp.Create) else None
        if query is None:
            problems[name] = "it does not parse"
            return False
        cursor = connection.execute(f"SELECT * FROM {quoted(name)} LIMIT {_MOST_ROWS}")
        expected = cursor.fetchall()
        columns = ", ".join(quoted(column[0]) for column in cursor.description)
        statement = f"CREATE VIEW {quoted(name)} ({columns}) AS {query.sql(dialect='duckdb')}"
        target.execute(statement)
        found = target.execute(f"SELECT * FROM {quoted(name)} LIMIT {_MOST_ROWS}").fetchall()
    except (sqlglot.errors.SqlglotError, sqlite3.Error, duckdb.Error) as error:
        problems[name] = " ".join(str(error).split("\n")[0].split())
        found, expected = [], [()]
    if _bag(found) == _bag(expected):
        kept.append(statement)
        return True
    problems.setdefault(name, "its rows differ in DuckDB")
    target.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
    return False


def _bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return f"{float(value):.9g}"
    return value if value is None or isinstance(value, bytes) else str(value)

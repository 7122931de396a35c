"""What the rules must know of a database beside its schema: affinities, and texts that all read as numbers.

In: a converted DuckDB file and, where there is one, its SQLite source. Out: a `Schema` for the dialect bridge, with the
views in it. Not here: conversion.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import duckdb

from text2sql_rl.databases import open_read_only, quoted, read_schema
from text2sql_rl.importers.dialect.values import Affinity, Fact, Schema, affinity_of, schema_of
from text2sql_rl.records import Column, Table

_VIEW_COLUMNS = (
    "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = current_database() "
    "AND schema_name = 'main' AND table_name IN (SELECT view_name FROM duckdb_views() WHERE NOT internal) "
    "ORDER BY table_oid, column_index"
)


def read_facts(path: Path, source: sqlite3.Connection | None = None) -> Schema:
    """The schema of the DuckDB file `path` as the rules read it.

    Args:
        path: the converted database.
        source: the SQLite database it was made of.

    Raises:
        DataError: the DuckDB file cannot be read.
    """
    tables = read_schema(path)
    declared = _declared(source) if source is not None else {}
    with open_read_only(path) as connection:
        views: dict[str, list[Column]] = defaultdict(list)
        for view, column, kind in connection.execute(_VIEW_COLUMNS).fetchall():
            views[view].append(Column(name=column, type=kind))
        facts = {key: Fact(affinity) for key, affinity in declared.items()}
        for table in tables:
            for name, pure in _numbers_among(source, table, facts) if source is not None else ():
                facts[(table.name.lower(), name)] = Fact(Affinity.NUMBER, pure=pure)
        for table in tables:
            for name in _nocase(source, table) if source is not None else ():
                key = (table.name.lower(), name.lower())
                facts[key] = replace(facts.get(key, Fact(Affinity.TEXT)), nocase=True)
        for table in tables:
            for name in _clean(connection, table):
                key = (table.name.lower(), name.lower())
                facts[key] = replace(facts.get(key, Fact(Affinity.TEXT)), clean=True)
    return schema_of([*tables, *(Table(name=name, columns=tuple(columns)) for name, columns in views.items())], facts)


def _declared(source: sqlite3.Connection) -> dict[tuple[str, str], Affinity]:
    found = {}
    tables = source.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    for (table,) in tables:
        try:
            columns = source.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
        except sqlite3.OperationalError:  # a view on a table that is gone
            continue
        found.update({(table.lower(), row[1].lower()): affinity_of(row[2] or "") for row in columns})
    return found


def _clean(connection: duckdb.DuckDBPyConnection, table: Table) -> list[str]:
    """The text columns whose every value reads as a number."""
    texts = [column.name for column in table.columns if column.type == "VARCHAR"]
    if not texts or not table.rows:
        return []
    shown = ", ".join(
        f"count({quoted(name)}) > 0 AND count({quoted(name)}) = count(TRY_CAST({quoted(name)} AS DOUBLE))"
        for name in texts
    )
    row = connection.execute(f"SELECT {shown} FROM {quoted(table.name)}").fetchone() or ()
    return [name for name, clean in zip(texts, row, strict=True) if clean]


def _numbers_among(
    source: sqlite3.Connection, table: Table, facts: dict[tuple[str, str], Fact]
) -> list[tuple[str, bool]]:
    """Lower-cased text columns that may hold numbers in the source, with whether they hold none after all.

    Of number affinity all; of none (no declared type) those that hold numbers: they compare like those of number
    affinity, as long as no text in them reads as a number.
    """
    keys = [(table.name.lower(), column.name.lower()) for column in table.columns if column.type == "VARCHAR"]
    asked = [key[1] for key in keys if key in facts and facts[key].affinity is not Affinity.TEXT]
    if not asked:
        return []
    shown = ", ".join(f"total(typeof({quoted(name)}) IN ('integer', 'real'))" for name in asked)
    row = source.execute(f"SELECT {shown} FROM {quoted(table.name)}").fetchone()
    kept = []
    for name, numbers in zip(asked, row, strict=True):
        if numbers or facts[(table.name.lower(), name)].affinity is Affinity.NUMBER:
            kept.append((name, not numbers))
    return kept


def _nocase(source: sqlite3.Connection, table: Table) -> list[str]:
    """The text columns that SQLite compares without letter case, as far as their values show it."""
    declared = source.execute(
        "SELECT 1 FROM sqlite_master WHERE lower(name) = lower(?) AND sql LIKE '%nocase%'", (table.name,)
    ).fetchone()
    found = []
    for column in table.columns if declared else ():
        name = quoted(column.name)
        shows = f"{name} = upper({name}) AND {name} COLLATE BINARY <> upper({name})"
        asked = f"SELECT 1 FROM {quoted(table.name)} WHERE typeof({name}) = 'text' AND {shows} LIMIT 1"
        if column.type == "VARCHAR" and source.execute(asked).fetchone():
            found.append(column.name)
    return found

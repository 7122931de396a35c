"""Keys that nobody declared: columns named like a key whose values are one.

In: staged tables. Out: the same tables with a primary key each where one is found, and foreign keys to them. A primary
key is one column without NULLs and without repeated values that is called id, TABLE_id or like the table, or the
first column where its name ends in id, code, key or no. A foreign key has the name and the type of another table's key
(or TABLE_id, TABLE_code ... for a key of a plain name), and all its values are found there. Not here: keys of several
columns; any key that is declared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import duckdb

from text2sql_rl.databases import quoted
from text2sql_rl.records import Column, ForeignKey, Table

_KEY_TYPES = {"INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UINTEGER", "SMALLINT", "VARCHAR", "UUID"}
_KEY_NAME = re.compile(r"(^|.*[_\sa-z0-9])(id|code|key|no)$", re.IGNORECASE)
_PLAIN = {"id", "code", "key", "no", "name"}


def with_keys(connection: duckdb.DuckDBPyConnection, tables: Sequence[Table]) -> list[Table]:
    """The tables with the keys that their names and rows suggest."""
    keyed = [_with_primary(connection, table) for table in tables]
    return [_with_foreign(connection, table, keyed) for table in keyed]


def _with_primary(connection: duckdb.DuckDBPyConnection, table: Table) -> Table:
    own = _names_of(table.name)
    wanted = {"id", *own, *(f"{name}{end}" for name in own for end in ("id", "code", "key", "no"))}
    candidates = [c for c in table.columns if _flat(c.name) in wanted]
    if table.columns and _KEY_NAME.fullmatch(table.columns[0].name):
        candidates.append(table.columns[0])
    for column in candidates:
        if table.rows and column.type in _KEY_TYPES and _is_key(connection, table, column):
            columns = tuple(replace(c, primary_key=True, nullable=False) if c == column else c for c in table.columns)
            return replace(table, columns=columns)
    return table


def _with_foreign(connection: duckdb.DuckDBPyConnection, table: Table, tables: Sequence[Table]) -> Table:
    found: list[ForeignKey] = []
    for column in table.columns:
        for parent in tables:
            key = next((c for c in parent.columns if c.primary_key), None)
            if key is None or parent is table or key.type != column.type or not _names(column, parent, key):
                continue
            # Two tables with the same key: the one that came first is the parent.
            if column.primary_key and tables.index(parent) > tables.index(table) and _names(key, table, column):
                continue
            if _all_found(connection, table, column, parent, key):
                found.append(ForeignKey(columns=(column.name,), table=parent.name, references=(key.name,)))
                break
    return replace(table, foreign_keys=tuple(found))


def _names(column: Column, parent: Table, key: Column) -> bool:
    """Whether a column is called as one that refers to the key of `parent` would be."""
    name, target = _flat(column.name), _flat(key.name)
    if target not in _PLAIN and name == target:
        return True
    return name in {f"{own}{target if target in _PLAIN else 'id'}" for own in _names_of(parent.name)}


def _is_key(connection: duckdb.DuckDBPyConnection, table: Table, column: Column) -> bool:
    name = quoted(column.name)
    row = connection.execute(f"SELECT count({name}), count(DISTINCT {name}) FROM {quoted(table.name)}").fetchone()
    return row == (table.rows, table.rows)


def _all_found(connection: duckdb.DuckDBPyConnection, table: Table, column: Column, parent: Table, key: Column) -> bool:
    own, other = quoted(column.name), quoted(key.name)
    row = connection.execute(
        f"SELECT count(c.{own}), count(p.{other}) FROM {quoted(table.name)} AS c "
        f"LEFT JOIN {quoted(parent.name)} AS p ON c.{own} = p.{other}"
    ).fetchone()
    return row is not None and row[0] == row[1] > 0


def _names_of(table: str) -> set[str]:
    """A table's name as it may stand in a column's: as it is, and without the ending of its plural."""
    name = _flat(table)
    return {name, name.removesuffix("s"), name.removesuffix("es"), re.sub("ies$", "y", name)}


def _flat(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()

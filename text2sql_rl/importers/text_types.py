"""The types of a table whose cells all came as text.

In: a staged table of VARCHAR columns. Out: the same table with the narrowest type that loses nothing, a column: BIGINT,
HUGEINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP or VARCHAR. Every cell is looked at, not a sample. Cells that say there is no
value ('', NULL, N/A, NaN) become NULL where all others fit a type other than text. What starts with a zero, or is a
number longer than 38 digits, stays text: it is a code. Not here: reading files.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from text2sql_rl.databases import quoted
from text2sql_rl.records import Column

_COLUMNS_AT_ONCE = 50
_VOID = "('', 'null', 'n/a', 'nan', '\\n')"
_WHOLE = r"[+-]?(0|[1-9]\d*)"
_DAY = r"\d{4}-\d{2}-\d{2}"
# The narrowest first: what a cell must look like beside being castable.
_LOOKS = {
    "BIGINT": _WHOLE,
    "HUGEINT": _WHOLE,
    "DOUBLE": rf"({_WHOLE}(\.\d*)?|[+-]?\.\d+)([eE][+-]?\d+)?",
    "BOOLEAN": "(?i)(true|false)",
    "DATE": _DAY,
    "TIMESTAMP": rf"{_DAY}([ T]\d{{2}}:\d{{2}}(:\d{{2}}(\.\d{{1,6}})?)?)?",
}


def typed(
    connection: duckdb.DuckDBPyConnection, raw: str, table: str, columns: Sequence[str], notes: list[str]
) -> tuple[Column, ...]:
    """Replaces the table `raw` by `table`, with the same rows in the same order and typed columns.

    Args:
        connection: of the staged file.
        raw: a table of VARCHAR columns called `columns`.
        table: the name of the new table.
        columns: its columns in order.
        notes: what became NULL is added here.
    """
    found: list[Column] = []
    for start in range(0, len(columns), _COLUMNS_AT_ONCE):
        found += _types(connection, raw, table, columns[start : start + _COLUMNS_AT_ONCE], notes)
    shown = ", ".join(
        f"{quoted(c.name)}"
        if c.type == "VARCHAR"
        else f"TRY_CAST(trim({quoted(c.name)}) AS {c.type}) AS {quoted(c.name)}"
        for c in found
    )
    connection.execute(f"CREATE TABLE {quoted(table)} AS SELECT {shown} FROM {quoted(raw)}")
    connection.execute(f"DROP TABLE {quoted(raw)}")
    return tuple(found)


def _types(
    connection: duckdb.DuckDBPyConnection, raw: str, table: str, columns: Sequence[str], notes: list[str]
) -> list[Column]:
    counts = []
    for column in columns:
        name = f"trim({quoted(column)})"
        real = f"lower({name}) NOT IN {_VOID}"
        fits = (
            f"regexp_full_match({name}, '{look}') AND TRY_CAST({name} AS {kind}) IS NOT NULL"
            for kind, look in _LOOKS.items()
        )
        counts += [f"count({name})", f"count(*) FILTER ({real})"]
        counts += [f"count(*) FILTER ({real} AND {fit})" for fit in fits]
    row = connection.execute(f"SELECT {', '.join(counts)} FROM {quoted(raw)}").fetchone() or ()
    width = 2 + len(_LOOKS)
    found = []
    for at, column in enumerate(columns):
        known, real, *fit = row[at * width : (at + 1) * width]
        kind = next((kind for kind, number in zip(_LOOKS, fit, strict=True) if number == real), "VARCHAR")
        # A fraction holds 15 digits: whole numbers that HUGEINT refused would lose the others.
        if kind == "DOUBLE" and _too_long(connection, raw, column):
            kind = "VARCHAR"
        kind = kind if real else "VARCHAR"
        if kind != "VARCHAR" and known > real:
            notes.append(f"{table}.{column}: {known - real} cells say that there is no value ('', NULL, N/A or NaN)")
        found.append(Column(name=column, type=kind))
    return found


def _too_long(connection: duckdb.DuckDBPyConnection, raw: str, column: str) -> bool:
    long = f"SELECT 1 FROM {quoted(raw)} WHERE regexp_full_match(trim({quoted(column)}), '[+-]?\\d{{39,}}') LIMIT 1"
    return connection.execute(long).fetchone() is not None

"""The types of a table whose cells all came as text.

In: a staged table of VARCHAR columns. Out: the same table with the narrowest type that loses nothing, a column: BIGINT,
HUGEINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP or VARCHAR. Every cell is looked at, not a sample. Cells that say there is no
value ('', NULL, N/A, NaN) become NULL where all others fit a type other than text. What starts with a zero, or is a
number longer than 38 digits, stays text: it is a code. Numbers with a decimal comma become DOUBLE where no comma
separates the cells and one number shows that it is none of thousands (1,5 and not 1,500). Not here: reading files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from text2sql_rl.databases import quoted
from text2sql_rl.records import Column

_COLUMNS_AT_ONCE = 50
_VOID = "('', 'null', 'n/a', 'nan', '\\n')"
_WHOLE = r"[+-]?(0|[1-9]\d*)"
_COMMA = rf"{_WHOLE}(,\d+)?"
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
    connection: duckdb.DuckDBPyConnection,
    raw: str,
    table: str,
    columns: Sequence[str],
    notes: list[str],
    *,
    decimal_commas: bool,
) -> tuple[Column, ...]:
    """Replaces the table `raw` by `table`, with the same rows in the same order and typed columns.

    Args:
        connection: of the staged file.
        raw: a table of VARCHAR columns called `columns`.
        table: the name of the new table.
        columns: its columns in order.
        notes: what became NULL is added here.
        decimal_commas: whether 1,5 may be a number; not where commas separate the cells.
    """
    found: list[Column] = []
    for start in range(0, len(columns), _COLUMNS_AT_ONCE):
        found += _types(connection, raw, table, columns[start : start + _COLUMNS_AT_ONCE], notes)
    texts = [column for column in found if column.type == "VARCHAR" and decimal_commas]
    commas = {column.name for column in texts if _has_decimal_commas(connection, raw, table, column, notes)}
    found = [replace(c, type="DOUBLE") if c.name in commas else c for c in found]
    shown = ", ".join(_read_as(column, column.name in commas) for column in found)
    connection.execute(f"CREATE TABLE {quoted(table)} AS SELECT {shown} FROM {quoted(raw)}")
    connection.execute(f"DROP TABLE {quoted(raw)}")
    return tuple(found)


def _read_as(column: Column, comma: bool) -> str:
    name = quoted(column.name)
    if column.type == "VARCHAR":
        return name
    text = f"replace(trim({name}), ',', '.')" if comma else f"trim({name})"
    return f"TRY_CAST({text} AS {column.type}) AS {name}"


def _has_decimal_commas(
    connection: duckdb.DuckDBPyConnection, raw: str, table: str, column: Column, notes: list[str]
) -> bool:
    """Whether all texts of a column are numbers with a decimal comma; where thousands are as likely, a note says so."""
    name = f"trim({quoted(column.name)})"
    real = f"lower({name}) NOT IN {_VOID}"
    row = connection.execute(
        f"SELECT count(*) FILTER ({real}), count(*) FILTER ({real} AND regexp_full_match({name}, '{_COMMA}')), "
        f"count(*) FILTER (contains({name}, ',')), "
        f"count(*) FILTER (regexp_full_match({name}, '.*,(\\d{{1,2}}|\\d{{4,}})')) FROM {quoted(raw)}"
    ).fetchone()
    known, numbers, commas, plain = row or (0, 0, 0, 0)
    if not commas or numbers < known:
        return False
    if not plain:
        notes.append(f"{table}.{column.name}: a comma of decimals or of thousands (1,500); kept as text")
        return False
    notes.append(f"{table}.{column.name}: numbers with a decimal comma")
    return True


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

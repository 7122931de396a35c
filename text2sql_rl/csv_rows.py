"""CSV files of rows: the format of `databases/NAME/rows/TABLE.csv`.

In: a UTF-8 file whose first record names the table's columns in any order; fields are separated by commas and
may stand in double quotes ("" inside is one quote). An empty field without quotes is NULL, `""` is the empty
text. Out: the rows in a table of an open DuckDB connection. Every fault is a `DataError` with file, line and
column. Not here: guessing of separators, types or dates.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from text2sql_rl.errors import DataError
from text2sql_rl.records import Table

# A field in quotes or a bare one, and what ends it.
_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|\Z)')
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_INTEGER_TYPES = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
# Other errors of the engine (a full disk) are no fault of the file.
_ROWS_WRONG = (duckdb.DataError, duckdb.IntegrityError)

Record = tuple[int, tuple[str | None, ...]]


def read_records(path: Path) -> list[Record]:
    """The records of a CSV file as (line number from 1, fields); NULL is None. Blank lines are skipped.

    Raises:
        DataError: not UTF-8, or a quote in the wrong place (with the line).
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes().count(b"\n", 0, error.start) + 1
        raise DataError("is not UTF-8 text", file=path, field=f"line {line}", fix="Save the file as UTF-8") from error
    records: list[Record] = []
    fields: list[str | None] = []
    place, line, start = 0, 1, 1
    while place < len(text):
        found = _FIELD.match(text, place)
        if found is None:
            raise DataError(
                "a quote in the wrong place",
                file=path,
                field=f"line {line}",
                fix='Put fields with quotes or commas in double quotes and write "" for one quote',
            )
        inner, bare, end = found.groups()
        fields.append(inner.replace('""', '"') if inner is not None else (bare or None))
        line += found[0].count("\n")
        place = found.end()
        # A comma at the very end of the file is followed by one more, empty field.
        if end == "," and place == len(text):
            fields.append(None)
        if end != "," or place == len(text):
            if fields != [None]:
                records.append((start, tuple(fields)))
            fields, start = [], line
    return records


def load_table(connection: duckdb.DuckDBPyConnection, table: Table, path: Path) -> None:
    """Inserts the rows of `path` into the empty table `table`.

    Raises:
        DataError: missing file, wrong header, ragged record, a value that is not of the column's type, a
            violated key or constraint; with file, line and, where one is to blame, the column.
    """
    if not path.is_file():
        raise DataError(f"the rows of table {table.name} are missing", file=path, fix="Add it (a header is enough)")
    records = read_records(path)
    if not records:
        raise DataError("is empty", file=path, fix="The first line must name the columns")
    types = {column.name: column.type for column in table.columns}
    names = _header(records[0], types, path)
    rows = records[1:]
    for line, fields in rows:
        if len(fields) != len(names):
            raise DataError(
                f"has {len(fields)} fields where the header names {len(names)}", file=path, field=f"line {line}"
            )
        for name, value in zip(names, fields, strict=True):
            if value is not None and types[name] in _INTEGER_TYPES and not _INTEGER.fullmatch(value):
                raise _not_of_type(path, line, name, value, types[name])
    if not rows:
        return
    insert = _insert(table.name, names, types)
    columns = [[fields[i] for _, fields in rows] for i in range(len(names))]
    many = re.sub(r"\$(\d+)", r"unnest($\1::VARCHAR[])", insert)
    try:
        connection.execute(many, columns)
    except _ROWS_WRONG as error:
        _blame(connection, insert, names, types, rows, path)
        raise DataError(str(error).split("\n")[0], file=path) from error


def _header(record: Record, types: dict[str, str], path: Path) -> list[str]:
    line, fields = record
    names = [field or "" for field in fields]
    for name in names:
        if name not in types:
            known = ", ".join(types)
            raise DataError(f"there is no column {name!r}", file=path, field=f"line {line}", fix=f"Columns: {known}")
    wrong = [n for n in types if names.count(n) != 1]
    if wrong:
        raise DataError(f"must name each column once; wrong: {', '.join(wrong)}", file=path, field=f"line {line}")
    return names


def _insert(table: str, names: list[str], types: dict[str, str]) -> str:
    columns = ", ".join('"' + n.replace('"', '""') + '"' for n in names)
    values = ", ".join(f"CAST(${i} AS {types[n]})" for i, n in enumerate(names, 1))
    return f'INSERT INTO "{table.replace(chr(34), chr(34) * 2)}" ({columns}) SELECT {values}'


def _blame(
    connection: duckdb.DuckDBPyConnection,
    insert: str,
    names: list[str],
    types: dict[str, str],
    rows: list[Record],
    path: Path,
) -> None:
    """Inserts row by row until one fails, to say which; slow, and only after the fast way failed."""
    for line, fields in rows:
        try:
            connection.execute(insert, list(fields))
        except _ROWS_WRONG as error:
            for name, value in zip(names, fields, strict=True):
                cast = connection.execute(f"SELECT TRY_CAST($1 AS {types[name]})", [value]).fetchone()
                if value is not None and cast is not None and cast[0] is None:
                    raise _not_of_type(path, line, name, value, types[name]) from error
            raise DataError(str(error).split("\n")[0], file=path, field=f"line {line}") from error


def _not_of_type(path: Path, line: int, column: str, value: str, kind: str) -> DataError:
    return DataError(f"{value!r} is not of type {kind}", file=path, field=f"line {line}, column {column}")

"""The cells of a CSV file as texts, whatever is wrong with some of its lines.

In: a CSV file with the column names in its first line. Out: a staged table of texts, and a reject with the line's
number for every line that does not fit. DuckDB reads the file; where quotes are wrong, which may swallow the lines
after them, we read it line by line and leave out only those. Not here: types (text_types.py).
"""

from __future__ import annotations

import csv
import gzip
import io
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa

from text2sql_rl.databases import quoted
from text2sql_rl.errors import DataError
from text2sql_rl.importers.names import Names
from text2sql_rl.seals import Reject

_SEPARATORS = ",;\t|"
# More broken lines than these say that the file is of another kind, not that some lines are broken.
_MOST_BROKEN_SHARE = 0.5
# A quoted cell of more lines is taken for a quote that nobody closed.
_MOST_CELL_LINES = 200
_HEADER_BYTES, _BATCH_ROWS = 1 << 20, 5_000


@dataclass(frozen=True, slots=True)
class _Broken:
    """A record that does not fit: its physical line (from 1) and what is wrong."""

    line: int
    reason: str
    wrong_encoding: bool = False
    wrong_quote: bool = False


@dataclass(frozen=True, slots=True)
class _Format:
    separator: str
    columns: tuple[str, ...]
    encoding: str


def load_csv(
    target: duckdb.DuckDBPyConnection, path: Path, table: str, raw: str, notes: list[str]
) -> tuple[tuple[str, ...], list[Reject]]:
    """Writes the file's cells to the table `raw`; its columns, and the lines that were left out.

    Args:
        target: a connection to the staging area.
        path: the file, also with .gz behind.
        table: the name of the table it becomes, for notes.
        raw: the staged table to write.
        notes: what is not as in the file is added here.

    Raises:
        DataError: the file is empty, or most of its lines are broken.
        duckdb.Error: the file cannot be read at all.
    """
    found = _format(path, table, notes)
    broken = _read(target, path, found, raw)
    if found.encoding == "utf-8" and any(one.wrong_encoding for one in broken):
        found = _Format(found.separator, found.columns, "latin-1")
        broken = _read(target, path, found, raw)
    if any(one.wrong_quote for one in broken):
        broken = _read_by_line(target, path, found, raw)
    if found.encoding != "utf-8":
        notes.append(f"{table}: not UTF-8 text; read as {found.encoding.upper()}")
    (rows,) = target.execute(f"SELECT count(*) FROM {quoted(raw)}").fetchone() or (0,)
    if len(broken) > _MOST_BROKEN_SHARE * (rows + len(broken)):
        first = broken[0]
        share = f"{len(broken)} of {rows + len(broken)} lines are broken"
        raise DataError(f"{share}, the first is line {first.line}: {first.reason}")
    return found.columns, [Reject(f"{path.name}:{one.line}", one.reason) for one in broken]


def _format(path: Path, table: str, notes: list[str]) -> _Format:
    """The separator, the column names and the encoding, as far as the first line tells."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        start = file.read(_HEADER_BYTES)
    encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        text = start.decode("utf-16" if encoding == "utf-16" else "utf-8-sig")
    except UnicodeDecodeError:
        text = start.decode("latin-1")
    first = text.lstrip("\r\n").split("\n", 1)[0]
    bare = "".join(first.split('"')[::2])
    is_tab = path.name.removesuffix(".gz").endswith(".tsv")
    separator = "\t" if is_tab else max(_SEPARATORS, key=bare.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
    if not any(header):
        raise DataError("is empty; the first line must name the columns")
    if any(name.replace(".", "", 1).isdigit() for name in header):
        notes.append(f"{table}: numbers among the column names; the first line must hold the names")
    return _Format(separator, renamed(table, header, notes), encoding)


def renamed(table: str, columns: list[str], notes: list[str]) -> tuple[str, ...]:
    """The columns' names, changed where DuckDB could not tell them apart; each change is added to `notes`."""
    names = Names()
    found = tuple(names.fresh(column.strip(), "column") for column in columns)
    notes += [
        f"{table}.{new}: is called {old.strip()!r} in the source"
        for new, old in zip(found, columns, strict=True)
        if new != old.strip()
    ]
    return found


def _read(target: duckdb.DuckDBPyConnection, path: Path, how: _Format, raw: str) -> list[_Broken]:
    shown = ", ".join(f"{_text(column)}: 'VARCHAR'" for column in how.columns)
    for rejects in ("reject_errors", "reject_scans"):
        target.execute(f"DROP TABLE IF EXISTS {rejects}")
    try:
        target.execute(
            f"CREATE OR REPLACE TABLE {quoted(raw)} AS SELECT * FROM read_csv({pattern_of(path)}, "
            f"delim = {_text(how.separator)}, quote = '\"', escape = '\"', header = true, columns = {{{shown}}}, "
            f"auto_detect = false, allow_quoted_nulls = false, encoding = '{how.encoding}', max_line_size = 16777216, "
            "store_rejects = true, rejects_limit = 0)"
        )
    except duckdb.InvalidInputException as error:
        return [_Broken(1, str(error).split("\n")[0], wrong_quote=True)]
    rows = target.execute(
        "SELECT line, any_value(line_byte_position), min(error_message), "
        "bool_or(error_type = 'INVALID ENCODING'), bool_or(error_type = 'UNQUOTED VALUE') "
        "FROM reject_errors GROUP BY line ORDER BY line"
    ).fetchall()
    # DuckDB counts records; where quoted cells have line breaks, its numbers are not the editor's.
    plain = path.suffix != ".gz" and how.encoding == "utf-8"
    numbers = _lines_at(path, [row[1] - 1 for row in rows]) if plain else [row[0] for row in rows]
    return [_Broken(number, row[2], row[3], row[4]) for number, row in zip(numbers, rows, strict=True)]


def _lines_at(path: Path, positions: list[int]) -> list[int]:
    """The lines (from 1) of ascending byte positions; DuckDB names the line break before a line after CRLF."""
    found: list[int] = []
    line, at = 1, 0
    with path.open("rb") as file:
        for position in positions:
            part = file.read(position - at)
            line, at = line + part.count(b"\n"), position
            follows = file.read(1)
            at += len(follows)
            line += follows == b"\n"
            found.append(line)
    return found


def _read_by_line(target: duckdb.DuckDBPyConnection, path: Path, how: _Format, raw: str) -> list[_Broken]:
    """Reads record by record; a wrong one costs its first line only. Empty cells are NULL, quoted or not."""
    columns = ", ".join(f"{quoted(column)} VARCHAR" for column in how.columns)
    target.execute(f"CREATE OR REPLACE TABLE {quoted(raw)} ({columns})")
    schema = pa.schema([(str(at), pa.string()) for at in range(len(how.columns))])
    broken: list[_Broken] = []
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as binary:
        text = io.TextIOWrapper(binary, encoding=how.encoding.replace("utf-8", "utf-8-sig"), newline="")
        records = _records(text, how, broken)
        next(records, None)  # the header
        while rows := list(islice(records, _BATCH_ROWS)):
            cells = [pa.array([row[at] or None for row in rows], pa.string()) for at in range(len(how.columns))]
            target.register("batch", pa.table(cells, schema=schema))
            target.execute(f"INSERT INTO {quoted(raw)} SELECT * FROM batch")
            target.unregister("batch")
    return broken


def _records(file: Iterable[str], how: _Format, broken: list[_Broken]) -> Iterator[list[str]]:
    waiting: deque[str] = deque()
    source = iter(file)
    number = 0

    def line(at: int) -> str | None:
        while len(waiting) <= at and (following := next(source, None)) is not None:
            waiting.append(following)
        return waiting[at] if at < len(waiting) else None

    while line(0) is not None:
        taken, row, reason = 1, None, ""
        while row is None and not reason:
            try:
                row = next(csv.reader(islice(waiting, taken), delimiter=how.separator, strict=True), [])
            except csv.Error as error:
                # An open quote may be closed on a later line.
                is_open = "unexpected end of data" in str(error)
                if is_open and taken < _MOST_CELL_LINES and line(taken) is not None:
                    taken += 1
                else:
                    reason = "a quote that is not closed" if is_open else str(error)
        if row and len(row) != len(how.columns):
            reason, taken = f"{len(how.columns)} columns expected, {len(row)} found", 1
        if reason:
            broken.append(_Broken(number + 1, reason))
            taken = 1
        elif row:
            yield row
        for _ in range(taken):
            waiting.popleft()
        number += taken


def pattern_of(path: Path) -> str:
    """A path as a SQL text that DuckDB's file functions read as just this file."""
    return _text("".join(f"[{sign}]" if sign in "*?[" else sign for sign in str(path.resolve())))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"

"""The cells of a CSV file as texts, whatever is wrong with some of its lines.

In: a CSV file with the column names in its first line. Out: a staged table of texts, and a reject with the line's
number for every line that does not fit. A file that is not UTF-8 is read as UTF-16 where it has the mark, else line by
line as Windows-1252 where a line is not UTF-8. DuckDB reads the file; where quotes are wrong, which may swallow the
lines after them, we read it line by line and leave out only those. Not here: types (text_types.py).
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import tempfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa

from text2sql_rl.databases import quoted
from text2sql_rl.errors import DataError
from text2sql_rl.importers.names import Names
from text2sql_rl.importers.sqlite_source import decoded
from text2sql_rl.seals import Reject

_SEPARATORS = ",;\t|"
# More broken lines than these say that the file is of another kind, not that some lines are broken.
_MOST_BROKEN_SHARE = 0.5
# A quoted cell of more lines is taken for a quote that nobody closed.
_MOST_CELL_LINES = 200
_HEADER_BYTES, _BATCH_ROWS, _CHUNK_BYTES = 1 << 20, 5_000, 1 << 20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class _Broken:
    """A record that does not fit: its physical line (from 1) and what is wrong."""

    line: int
    reason: str
    wrong_quote: bool = False


@dataclass(frozen=True, slots=True)
class _Format:
    separator: str
    columns: tuple[str, ...]


class Cells(NamedTuple):
    """What was read of a file: its columns, what separates them, and the lines that were left out."""

    columns: tuple[str, ...]
    separator: str
    rejects: list[Reject]


def load_csv(target: duckdb.DuckDBPyConnection, path: Path, table: str, raw: str, notes: list[str]) -> Cells:
    """Writes the file's cells to the table `raw`.

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
    with _as_utf8(path, table, notes) as readable:
        found = _format(readable, table, notes)
        broken = _read(target, readable, found, raw)
        if any(one.wrong_quote for one in broken):
            broken = _read_by_line(target, readable, found, raw)
    (rows,) = target.execute(f"SELECT count(*) FROM {quoted(raw)}").fetchone() or (0,)
    if len(broken) > _MOST_BROKEN_SHARE * (rows + len(broken)):
        first = broken[0]
        share = f"{len(broken)} of {rows + len(broken)} lines are broken"
        raise DataError(f"{share}, the first is line {first.line}: {first.reason}")
    return Cells(found.columns, found.separator, [Reject(f"{path.name}:{one.line}", one.reason) for one in broken])


@contextmanager
def _as_utf8(path: Path, table: str, notes: list[str]) -> Iterator[Path]:
    """The file, or a copy of it in UTF-8 with line feeds where it is not that; its lines keep their numbers."""
    encoding = _encoding(path)
    if encoding == "utf-8":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name.removesuffix(".gz")
        with _opened(path) as source, copy.open("w", encoding="utf-8", newline="") as file:
            if encoding == "cr":
                file.writelines(_chunks(source, "utf-8-sig"))
            elif encoding == "utf-16":
                file.writelines(_chunks(source, "utf-16"))
            else:
                file.writelines(decoded(line) for line in source)
        words = {
            "utf-16": "read as UTF-16", "cr": "its lines end in a carriage return",
            "": "not UTF-8 text; lines that are not are read as Windows-1252",
        }  # fmt: skip
        notes.append(f"{table}: {words[encoding]}")
        yield copy


def _encoding(path: Path) -> str:
    """utf-8, utf-16, cr (UTF-8 whose lines end in a carriage return alone), or empty for anything else."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    returns = feeds = 0
    with _opened(path) as file:
        try:
            part = file.read(_CHUNK_BYTES)
            if part[:2] in _UTF16:
                return "utf-16"
            while part:
                decoder.decode(part)
                returns, feeds = returns + part.count(b"\r"), feeds + part.count(b"\n")
                part = file.read(_CHUNK_BYTES)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return ""
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"is no whole gzip file: {error}") from error
    return "cr" if returns and not feeds else "utf-8"


def _opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _chunks(source: gzip.GzipFile | io.BufferedReader, encoding: str) -> Iterator[str]:
    """The text with line feeds for every kind of line end; what is no text becomes a replacement character."""
    with io.TextIOWrapper(source, encoding=encoding, errors="replace") as text:
        while chunk := text.read(_CHUNK_BYTES):
            yield chunk


def _format(path: Path, table: str, notes: list[str]) -> _Format:
    """The separator and the column names, as far as the first line tells."""
    with _opened(path) as file:
        text = file.read(_HEADER_BYTES).decode("utf-8-sig", "replace")
    first = text.lstrip("\r\n").split("\n", 1)[0].rstrip("\r")
    bare = "".join(first.split('"')[::2])
    is_tab = path.name.removesuffix(".gz").endswith(".tsv")
    separator = "\t" if is_tab else max(_SEPARATORS, key=bare.count)
    try:
        header = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
    except csv.Error as error:
        raise DataError(f"its first line, which must name the columns, cannot be read: {error}") from error
    if not any(header):
        raise DataError("is empty; the first line must name the columns")
    if any(name.replace(".", "", 1).isdigit() for name in header):
        notes.append(f"{table}: numbers among the column names; the first line must hold the names")
    return _Format(separator, renamed(table, header, notes))


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
            "auto_detect = false, allow_quoted_nulls = false, encoding = 'utf-8', max_line_size = 16777216, "
            "store_rejects = true, rejects_limit = 0)"
        )
    except duckdb.InvalidInputException as error:
        return [_Broken(1, str(error).split("\n")[0], wrong_quote=True)]
    rows = target.execute(
        "SELECT line, any_value(line_byte_position), min(error_message), bool_or(error_type = 'UNQUOTED VALUE') "
        "FROM reject_errors GROUP BY line ORDER BY line"
    ).fetchall()
    # DuckDB counts records; where quoted cells have line breaks, its numbers are not the editor's.
    plain = path.suffix != ".gz"
    numbers = _lines_at(path, [row[1] - 1 for row in rows]) if plain else [row[0] for row in rows]
    return [_Broken(number, row[2], row[3]) for number, row in zip(numbers, rows, strict=True)]


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
    with _opened(path) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
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

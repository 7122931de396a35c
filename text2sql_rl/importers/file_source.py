"""A folder of CSV, Parquet and JSON files becomes a database of a content root, one table a file.

In: a folder with .csv, .tsv, .parquet, .json, .jsonl and .ndjson files, also with .gz behind. Out: `databases/NAME/`,
with types and keys inferred from all rows. A CSV has its column names in the first line; its separator is the one of
comma, semicolon, tab and bar that stands most often there. A line that does not fit is left out and named with file
and line; so is a file that cannot be read. Not here: folders in the folder, files without column names.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb

from text2sql_rl.databases import quoted
from text2sql_rl.errors import DataError
from text2sql_rl.importers.build import Converted, build, converted, existing, staging_area
from text2sql_rl.importers.inferred_keys import with_keys
from text2sql_rl.importers.layout import ContentRoot, check_name, database_name
from text2sql_rl.importers.names import Names
from text2sql_rl.importers.text_types import typed
from text2sql_rl.records import Column, Table
from text2sql_rl.seals import Reject, Seal, file_sha256

_VERSION = 1
_READERS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "read_parquet",
    ".json": "read_json_auto",
    ".jsonl": "read_json_auto",
    ".ndjson": "read_json_auto",
}
_SEPARATORS = ",;\t|"
_RAW = "__raw"
# More broken lines than these say that the file is of another kind, not that some lines are broken.
_MOST_BROKEN_SHARE = 0.5
_WRONG = (duckdb.ProgrammingError, duckdb.DataError, duckdb.IntegrityError, duckdb.NotSupportedError, DataError)
# A file that is damaged surfaces as the same kind of error as a disk that is full.
_UNREADABLE = (*_WRONG, duckdb.IOException)


def convert_files(
    folder: Path,
    out_dir: Path,
    name: str = "",
    *,
    replace: bool = False,
    advance: Callable[[int], None] = lambda rows: None,
) -> Converted:
    """Imports the files of a folder as the database `name`; one that is there from the same files is left as it is.

    Args:
        folder: the folder.
        out_dir: the content root; made where it is missing.
        name: of the database; the folder's own where it is empty.
        replace: whether a database of that name with other content is replaced.
        advance: called with the number of rows of every file that is read.

    Raises:
        DataError: no such folder, no file in it that can be read, or the name is taken.
        RunError: the content root cannot be written.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError("is not a folder", file=folder, fix="Give the folder that holds the files")
    name = name or database_name(folder.resolve() / ".folder" if not folder.name else folder)
    check_name(name)
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    readable = [path for path in files if _kind(path)]
    if not readable:
        raise DataError("holds no CSV, Parquet or JSON file", file=folder, fix=f"Known: {', '.join(_READERS)}")
    hashes = "".join(f"{path.name}\0{file_sha256(path)}\n" for path in readable)
    content = hashlib.sha256(f"files {_VERSION} {hashes}".encode()).hexdigest()
    root = ContentRoot(out_dir)
    if not root.accepts(name, content, replace):
        return existing(root, name)
    notes = [f"{path.name}: not a table file; left out" for path in files if path not in readable]
    rejects: list[Reject] = []
    with root.staging(name) as work:
        built, source = work / name, folder.resolve().name
        built.mkdir()
        with closing(staging_area(work, sum(path.stat().st_size for path in readable))) as target:
            target.execute("SET autoinstall_known_extensions = false")
            tables = with_keys(target, _load_all(target, readable, notes, rejects, advance))
            if not tables:
                reasons = "; ".join(f"{reject.place}: {reject.reason}" for reject in rejects[:3])
                raise DataError(f"none of its files can be read ({reasons})", file=folder)
            known = Seal(
                sha256="", tables=(), content=content, source=source, notes=tuple(notes), rejects=tuple(rejects)
            )
            seal = build(target, built / f"{name}.duckdb", tables, {}, known, ())
        return converted(root.place(name, built), seal)


def _load_all(
    target: duckdb.DuckDBPyConnection,
    files: list[Path],
    notes: list[str],
    rejects: list[Reject],
    advance: Callable[[int], None],
) -> list[Table]:
    tables: list[Table] = []
    origin: dict[str, str] = {}
    for path in files:
        table = path.name.removesuffix(".gz").rsplit(".", 1)[0]
        if table.lower() in origin:
            rejects.append(Reject(path.name, f"the table {table} comes from {origin[table.lower()]} already"))
            continue
        try:
            columns = _load(target, path, table, notes, rejects)
        except _UNREADABLE as error:
            target.execute(f"DROP TABLE IF EXISTS {quoted(_RAW)}")
            rejects.append(_fault(path, error))
            continue
        origin[table.lower()] = path.name
        (rows,) = target.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone() or (0,)
        if not rows:
            notes.append(f"{table}: holds no row")
        tables.append(Table(name=table, columns=columns, rows=rows))
        advance(rows)
    return tables


def _load(
    target: duckdb.DuckDBPyConnection, path: Path, table: str, notes: list[str], rejects: list[Reject]
) -> tuple[Column, ...]:
    kind = _kind(path)
    if kind == "csv":
        columns = _load_csv(target, path, table, notes, rejects)
        return typed(target, _RAW, table, columns, notes)
    options = ", sample_size = -1, maximum_object_size = 67108864" if kind == "read_json_auto" else ""
    source = f"{kind}('{_escaped(path)}'{options})"
    described = target.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    columns = _renamed(table, [column for column, *_ in described], notes)
    inner = ", ".join(quoted(column) for column in columns)
    target.execute(f"CREATE TABLE {quoted(table)} AS SELECT * FROM {source} AS t({inner})")
    return tuple(Column(name=column, type=facts[1]) for column, facts in zip(columns, described, strict=True))


def _load_csv(
    target: duckdb.DuckDBPyConnection, path: Path, table: str, notes: list[str], rejects: list[Reject]
) -> list[str]:
    """Writes the file's rows as text to the table `_RAW`; its columns. Broken lines go to `rejects`."""
    separator, header, marked = _header(path)
    columns = _renamed(table, header, notes)
    if any(name.strip().replace(".", "", 1).isdigit() for name in header):
        notes.append(f"{table}: numbers among the column names; the first line must hold the names")
    for encoding in dict.fromkeys((marked, "latin-1")):
        target.execute("DROP TABLE IF EXISTS reject_errors")
        target.execute("DROP TABLE IF EXISTS reject_scans")
        shown = ", ".join(f"{_text(column)}: 'VARCHAR'" for column in columns)
        target.execute(
            f"CREATE OR REPLACE TABLE {quoted(_RAW)} AS SELECT * FROM read_csv('{_escaped(path)}', "
            f"delim = {_text(separator)}, quote = '\"', escape = '\"', header = true, columns = {{{shown}}}, "
            f"auto_detect = false, allow_quoted_nulls = false, encoding = '{encoding}', max_line_size = 16777216, "
            "store_rejects = true, rejects_limit = 0)"
        )
        broken = target.execute(
            "SELECT line, min(error_message), bool_or(error_type = 'INVALID ENCODING') FROM reject_errors "
            "GROUP BY line ORDER BY line"
        ).fetchall()
        if not any(row[2] for row in broken):
            break
    if encoding != "utf-8":
        notes.append(f"{table}: not UTF-8 text; read as {encoding.upper()}")
    (rows,) = target.execute(f"SELECT count(*) FROM {quoted(_RAW)}").fetchone() or (0,)
    if len(broken) > _MOST_BROKEN_SHARE * (rows + len(broken)):
        line, reason, _ = broken[0]
        raise DataError(f"{len(broken)} of {rows + len(broken)} lines are broken, the first is line {line}: {reason}")
    rejects += [Reject(f"{path.name}:{line}", reason) for line, reason, _ in broken]
    target.execute("DROP TABLE IF EXISTS reject_errors")
    target.execute("DROP TABLE IF EXISTS reject_scans")
    return columns


def _header(path: Path) -> tuple[str, list[str], str]:
    """The separator, the names in the first line and the encoding that a mark at its start tells."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        start = file.read(1 << 20)
    encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    text = start.decode("utf-16" if encoding == "utf-16" else "utf-8-sig", "replace")
    first = text.lstrip("\r\n").split("\n", 1)[0]
    bare = "".join(first.split('"')[::2])
    is_tab = path.name.removesuffix(".gz").endswith(".tsv")
    separator = "\t" if is_tab else max(_SEPARATORS, key=bare.count)
    header = next(csv.reader([first], delimiter=separator), [])
    if not any(name.strip() for name in header):
        raise DataError("is empty; the first line must name the columns")
    return separator, header, encoding


def _renamed(table: str, columns: list[str], notes: list[str]) -> list[str]:
    names = Names()
    found = [names.fresh(column.strip(), "column") for column in columns]
    notes += [
        f"{table}.{new}: is called {old.strip()!r} in the source"
        for new, old in zip(found, columns, strict=True)
        if new != old.strip()
    ]
    return found


def _fault(path: Path, error: Exception) -> Reject:
    line = ""
    if _kind(path) == "read_json_auto" and not path.name.endswith(".json"):
        line = _broken_json_line(path)
    return Reject(f"{path.name}{line}", " ".join(str(error).strip().split("\n")[0].split()))


def _broken_json_line(path: Path) -> str:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                json.loads(line) if line.strip() else None
            except ValueError:
                return f":{number}"
    return ""


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    kind = _READERS.get(f".{name.rsplit('.', 1)[-1]}", "") if "." in name else ""
    return "" if kind == "read_parquet" and path.suffix.lower() == ".gz" else kind


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _escaped(path: Path) -> str:
    # DuckDB reads signs of a pattern in the name; a class of one sign is that sign.
    plain = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in str(path.resolve()))
    return plain.replace("'", "''")

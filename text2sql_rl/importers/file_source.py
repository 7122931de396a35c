"""A folder of CSV, Parquet and JSON files becomes a database of a content root, one table a file.

In: a folder with .csv, .tsv, .parquet, .json, .jsonl and .ndjson files, also with .gz behind. Out: `databases/NAME/`,
with types and keys inferred from all rows. A CSV has its column names in the first line; its separator is the one of
comma, semicolon, tab and bar that stands most often there. A line that does not fit is left out and named with file
and line; so is a file that cannot be read. Not here: folders in the folder, files without column names.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from text2sql_rl.databases import quoted
from text2sql_rl.errors import DataError
from text2sql_rl.importers.build import Converted, build, converted, existing, staging_area
from text2sql_rl.importers.csv_source import load_csv, pattern_of, renamed
from text2sql_rl.importers.inferred_keys import with_keys
from text2sql_rl.importers.layout import ContentRoot, check_name, database_name
from text2sql_rl.importers.text_types import typed
from text2sql_rl.records import Column, Table
from text2sql_rl.seals import Reject, Seal, file_sha256

_VERSION = 2
_READERS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "read_parquet",
    ".json": "read_json_auto",
    ".jsonl": "read_json_auto",
    ".ndjson": "read_json_auto",
}
_RAW = "__raw"
_NESTED = re.compile(r"STRUCT\(|MAP\(|UNION\(|\]$")
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
        cells = load_csv(target, path, table, _RAW, notes)
        rejects += cells.rejects
        return typed(target, _RAW, table, cells.columns, notes, decimal_commas=cells.separator != ",")
    if kind == "read_json_auto":
        _refuse_cut(path)
        if not path.name.removesuffix(".gz").lower().endswith(".json"):
            with _whole_lines(path, rejects) as readable:
                return _read_whole(target, kind, readable, table, notes)
    return _read_whole(target, kind, path, table, notes)


def _read_whole(
    target: duckdb.DuckDBPyConnection, kind: str, path: Path, table: str, notes: list[str]
) -> tuple[Column, ...]:
    """A file that DuckDB reads by itself; what has no type of its own there becomes text."""
    options = ", sample_size = -1, maximum_object_size = 67108864" if kind == "read_json_auto" else ""
    source = f"{kind}({pattern_of(path)}{options})"
    described = target.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    columns = renamed(table, [column for column, *_ in described], notes)
    shown, found = [], []
    for column, (_, type_name, *_) in zip(columns, described, strict=True):
        name, called = quoted(column), type_name
        if type_name == "JSON":
            notes.append(f"{table}.{column}: values of several types; kept as text")
            name, called = f"{name} ->> '$' AS {name}", "VARCHAR"
        elif type_name.strip('"') == "NULL":
            name, called = f"CAST({name} AS VARCHAR) AS {name}", "VARCHAR"
        elif _NESTED.search(type_name):
            notes.append(f"{table}.{column}: nested values ({type_name[:60]}); kept as they are")
        shown.append(name)
        found.append(Column(name=column, type=called))
    inner = ", ".join(quoted(column) for column in columns)
    target.execute(
        f"CREATE TABLE {quoted(table)} AS SELECT {', '.join(shown)} FROM (SELECT * FROM {source} AS t({inner}))"
    )
    return tuple(found)


@contextmanager
def _whole_lines(path: Path, rejects: list[Reject]) -> Iterator[Path]:
    """The file of JSON lines, or a copy without the lines that are no JSON; each of those is a reject.

    Raises:
        DataError: more than half of the lines are none.
    """
    broken: dict[int, str] = {}
    number = 0
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                json.loads(line) if line.strip() else None
            except (ValueError, RecursionError) as error:
                broken[number] = f"is no JSON: {error}"
    if not broken:
        yield path
        return
    if len(broken) > number / 2:
        first, reason = next(iter(broken.items()))
        raise DataError(f"{len(broken)} of {number} lines are broken, the first is line {first}: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name.removesuffix(".gz")
        with _opened(path) as file, copy.open("wb") as clean:
            clean.writelines(line for at, line in enumerate(file, 1) if at not in broken)
        rejects += [Reject(f"{path.name}:{at}", reason) for at, reason in broken.items()]
        yield copy


def _fault(path: Path, error: Exception) -> Reject:
    return Reject(path.name, " ".join(str(error).strip().split("\n")[0].split()))


def _refuse_cut(path: Path) -> None:
    """DuckDB reads a list that ends in its middle as far as it goes."""
    if path.suffix == ".gz":
        return
    with path.open("rb") as file:
        start = file.read(4096).lstrip()[:1]
        file.seek(max(0, path.stat().st_size - 4096))
        if start == b"[" and not file.read().rstrip().endswith(b"]"):
            raise DataError("is cut off: a list that is not closed")


def _opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    kind = _READERS.get(f".{name.rsplit('.', 1)[-1]}", "") if "." in name else ""
    return "" if kind == "read_parquet" and path.suffix.lower() == ".gz" else kind

"""A DuckDB file becomes a database of a content root.

In: a DuckDB file, also one written by an older release. Out: `databases/NAME/` with a read-only copy of it, so that
types, keys, views and macros stay as they are. Prompts show the tables of the schema `main`; others are named.
Not here: files that DuckDB can attach (SQLite, CSV).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb

from text2sql_rl.databases import open_read_only, read_schema
from text2sql_rl.errors import DataError
from text2sql_rl.importers.build import Converted, about, converted, existing
from text2sql_rl.importers.layout import ContentRoot, check_name, database_name
from text2sql_rl.seals import Seal, file_sha256, seal_path, write_seal

_VERSION = 1
_MAGIC = slice(8, 12)


def convert_duckdb(
    source: Path,
    out_dir: Path,
    name: str = "",
    *,
    replace: bool = False,
    advance: Callable[[int], None] = lambda rows: None,
) -> Converted:
    """Imports a DuckDB file as the database `name`; one that is there from the same file is left as it is.

    Args:
        source: the DuckDB file; a write-ahead log beside it is part of it.
        out_dir: the content root; made where it is missing.
        name: of the database; the file's own where it is empty.
        replace: whether a database of that name with other content is replaced.
        advance: called with the number of rows once it is copied.

    Raises:
        DataError: the source is missing, no DuckDB database, encrypted, or has no table in `main`; the name is taken.
        RunError: the content root cannot be written.
    """
    source = Path(source)
    name = name or database_name(source)
    check_name(name)
    try:
        with source.open("rb") as file:
            if file.read(16)[_MAGIC] != b"DUCK":
                raise DataError("is not a DuckDB database", file=source, fix="Give a .duckdb file")
        log = source.with_name(f"{source.name}.wal")
        parts = [path for path in (source, log) if path.is_file()]
        hashes = " ".join(file_sha256(path) for path in parts)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=source) from error
    content = hashlib.sha256(f"duckdb {_VERSION} {hashes}".encode()).hexdigest()
    root = ContentRoot(out_dir)
    if not root.accepts(name, content, replace):
        return existing(root, name)
    with root.staging(name) as folder:
        built = folder / name
        built.mkdir()
        target = built / f"{name}.duckdb"
        shutil.copyfile(source, target)
        if len(parts) > 1:
            shutil.copyfile(log, target.with_name(f"{target.name}.wal"))
            _checkpoint(target, source)
        seal = _seal(target, source, content)
        write_seal(seal, seal_path(target))
        (built / "ABOUT.md").write_text("\n".join(about(name, seal)) + "\n", encoding="utf-8")
        found = converted(root.place(name, built), seal)
    advance(found.rows)
    return found


def _checkpoint(target: Path, source: Path) -> None:
    try:
        with duckdb.connect(str(target)) as connection:
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"its write-ahead log cannot be read ({reason})", file=source) from error


def _seal(target: Path, source: Path, content: str) -> Seal:
    try:
        tables = read_schema(target)
        with open_read_only(target) as connection:
            others = connection.execute(
                "SELECT schema_name || '.' || table_name FROM duckdb_tables() "
                "WHERE database_name = current_database() AND schema_name <> 'main' ORDER BY 1"
            ).fetchall()
            views = connection.execute(
                "SELECT view_name FROM duckdb_views() WHERE database_name = current_database() AND NOT internal "
                "ORDER BY 1"
            ).fetchall()
    except DataError as error:
        raise DataError(error.problem, file=source, fix=error.fix) from error
    except duckdb.Error as error:
        raise DataError(f"cannot be read ({str(error).strip().splitlines()[0]})", file=source) from error
    if not tables:
        raise DataError("holds no table in the schema main", file=source, fix="Give a database with tables")
    notes = [f"{name}: outside the schema main; prompts do not show it" for (name,) in others]
    notes += [f"{name}: a view; prompts do not show it" for (name,) in views]
    notes += [f"{table.name}: holds no row" for table in tables if not table.rows]
    return Seal(
        sha256=file_sha256(target),
        tables=tuple(table.name for table in tables),
        content=content,
        source=source.name,
        notes=tuple(notes),
    )

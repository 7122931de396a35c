"""What an import of SQLite databases costs over reading the files once.

In: the SQLite files of ../shared/data/spider, or of the folder in $TEXT2SQL_SPIDER. Out: processor time of importing a
file, over the time of reading every row of it with SQLite's own client; one ratio a file, their median. Not here: the
golds of questions, whose proof runs each of them in both engines.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from measure import Result, median, scaled

from text2sql_rl.databases import quoted
from text2sql_rl.errors import DataError
from text2sql_rl.importers.sqlite_source import convert_sqlite

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "spider"
_FILES = 20
# Of smaller ones the time of opening files and writing ABOUT.md says more than that of rows.
_LEAST_ROWS = 10_000


def measure() -> Result:
    """The median ratio over the largest files.

    Raises:
        DataError: there are no files.
    """
    root = Path(os.environ.get("TEXT2SQL_SPIDER") or _DEFAULT)
    found = sorted(root.glob("database/*/*.sqlite"), key=lambda path: -path.stat().st_size)[: scaled(_FILES)]
    if not found:
        raise DataError("holds no SQLite files", file=root, fix="Set TEXT2SQL_SPIDER to a folder in Spider's layout.")
    ratios = []
    with tempfile.TemporaryDirectory() as place:
        for file in found:
            read, rows = _timed(lambda file=file: _read(file))  # type: ignore[misc]
            if rows < _LEAST_ROWS:
                continue
            imported, _ = _timed(lambda file=file: _import(file, Path(place)))  # type: ignore[misc]
            ratios.append(imported / read)
    return median("import.time_over_reading", ratios, "ratio", 1.0)


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def _read(file: Path) -> int:
    """Read every row of every table once; how many there are."""
    rows = 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        connection.text_factory = bytes  # not every text is UTF-8
        for (name,) in names:
            rows += sum(1 for _ in connection.execute(f"SELECT * FROM {quoted(name)}"))
    return rows


def _import(file: Path, place: Path) -> int:
    convert_sqlite(file, place, file.stem)
    return 0

"""The Spider dev questions with DuckDB databases, where the shared data is at hand; else the bundled dev questions.

In: ../shared/data/spider, or the folder in $TEXT2SQL_SPIDER: `dev_duckdb_verified.jsonl` and the SQLite files. Out:
questions with their databases. A column's type is that of its stored values (integers BIGINT, numbers DOUBLE, the
others VARCHAR), as the golds there expect; NOT NULL stands where SQLite declares it, or a key, and the rows keep it.
Built files lie in the cache folder. Not here: importing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.content import cache_folder, open_content
from text2sql_rl.databases import quoted, read_schema
from text2sql_rl.records import Database, Instance, Question, Split

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "spider"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its database; `sqlite` is the file it came from and `sqlite_gold` its gold there, if any."""

    question: Question
    database: Database
    sqlite: Path | None = None
    sqlite_gold: str = ""


def dev_questions() -> list[Asked]:
    """All Spider dev questions that have a verified gold, or all bundled dev questions."""
    root = Path(os.environ.get("TEXT2SQL_SPIDER") or _DEFAULT)
    listed = root / "dev_duckdb_verified.jsonl"
    if not listed.is_file():
        content = open_content()
        return [Asked(*pair) for pair in content.pairs(content.questions.role("dev"))]
    lines = [json.loads(line) for line in listed.read_text(encoding="utf-8").splitlines()]
    built: dict[str, Database] = {}
    found = []
    for line in lines:
        name = line["db_id"]
        source = root / "database" / name / f"{name}.sqlite"
        if name not in built:
            built[name] = _database(name, source)
        question = Question(
            id=line["id"], database=name, text=line["question"], gold_sql=line["duckdb_sql"], split=Split.DEV,
            role="spider_dev", hardness=line["hardness"],
        )  # fmt: skip
        found.append(Asked(question, built[name], source, line["gold_sql"]))
    return found


def spread(asked: Sequence[Asked], count: int) -> list[Asked]:
    """`count` of them, evenly over the list, each gold once."""
    different = list({(one.question.database, one.question.gold_sql): one for one in asked}.values())
    step = max(1.0, len(different) / count)
    return [different[int(at * step)] for at in range(min(count, len(different)))]


def _database(name: str, source: Path) -> Database:
    sha256 = hashlib.sha256(b"2" + source.read_bytes()).hexdigest()
    path = cache_folder() / "spider" / f"{name}-{sha256[:16]}.duckdb"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.stem}-{os.getpid()}.partial")
        partial.unlink(missing_ok=True)
        with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old, duckdb.connect(str(partial)) as new:
            _copy(old, new)
        partial.replace(path)
    instance = Instance(database=name, index=0, path=path, sha256=sha256)
    return Database(name=name, tables=read_schema(path), instances=(instance,))


def _copy(old: sqlite3.Connection, new: duckdb.DuckDBPyConnection) -> None:
    tables = [name for (name,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in (name for name in tables if not name.startswith("sqlite_")):
        cursor = old.execute(f"SELECT * FROM {quoted(table)}")
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
        kinds = [_kind({type(row[at]) for row in rows} - {type(None)}) for at in range(len(names))]
        promised = {name for _, name, _, notnull, _, key in old.execute(f"PRAGMA table_info({quoted(table)})")
                    if notnull or key}  # fmt: skip
        kept = {name for at, name in enumerate(names) if name in promised and all(row[at] is not None for row in rows)}
        declared = ", ".join(
            f"{quoted(name)} {kind}{' NOT NULL' if name in kept else ''}"
            for name, kind in zip(names, kinds, strict=True)
        )
        new.execute(f"CREATE TABLE {quoted(table)} ({declared})")
        for start in range(0, len(rows), 500):
            batch = rows[start : start + 500]
            values = [_cell(cell, kind) for row in batch for cell, kind in zip(row, kinds, strict=True)]
            holders = ", ".join(["(" + ", ".join("?" * len(names)) + ")"] * len(batch))
            new.execute(f"INSERT INTO {quoted(table)} VALUES {holders}", values)


def _kind(types: set[type]) -> str:
    if types and types <= {int}:
        return "BIGINT"
    return "DOUBLE" if types and types <= {int, float} else "VARCHAR"


def _cell(cell: Any, kind: str) -> Any:
    return str(cell) if kind == "VARCHAR" and cell is not None else cell

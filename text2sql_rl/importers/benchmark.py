"""Folders of benchmarks: where their question files, databases and descriptions lie.

In: a folder in the layout of Spider or BIRD, or one like them: question files anywhere down to the third level,
databases as NAME/NAME.sqlite (also .db, .sqlite3, .duckdb) or NAME.sqlite below any folder. Out: paths by name, and
what the folder says in words about tables and columns (Spider's tables.json, BIRD's database_description/*.csv). Not
here: reading questions or databases.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql_rl.errors import DataError
from text2sql_rl.importers.sqlite_source import decoded
from text2sql_rl.records import Split

DATABASE_SUFFIXES = (".sqlite", ".db", ".sqlite3", ".duckdb")
_DEPTH = 4
# By split: alternatives, of which the first that is there is taken, whole.
_FILES: dict[Split, tuple[tuple[str, ...], ...]] = {
    Split.TRAIN: (("train_spider", "train_others"), ("train",)),
    Split.DEV: (("dev",), ("mini_dev_sqlite",), ("mini_dev",)),
    Split.HELDOUT: (("test",), ("heldout",)),
}
# What BIRD's columns of descriptions are called, by what they are called here.
_SAID = {"name": "column_name", "description": "column_description", "values": "value_description"}
_SEPARATORS = ",;\t"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
Descriptions = dict[str, dict[str, dict[str, str]]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark's folder. `databases` maps a database's name to its file."""

    root: Path
    databases: dict[str, Path]

    def question_files(self, split: Split, named: Sequence[str] = ()) -> tuple[Path, ...]:
        """The question files of a split, or those that are named, relative to the folder.

        Raises:
            DataError: there is none.
        """
        if named:
            return tuple(self._named(name) for name in named)
        here = {path.stem.lower(): path for path in reversed(list(_walk(self.root, (".json", ".jsonl"))))}
        for names in _FILES[split]:
            found = [here[name] for name in names if name in here]
            if found:
                return tuple(found)
        tried = ", ".join(f"{name}.json" for names in _FILES[split] for name in names)
        raise DataError(
            f"holds no question file of the split {split.value} ({tried})",
            file=self.root,
            fix="Name it with --questions, e.g. --questions dev.json",
        )

    def _named(self, name: str) -> Path:
        path = self.root / name
        if path.is_file():
            return path
        if Path(name).is_file():
            return Path(name)
        raise DataError("there is no such question file", file=path, field="--questions")

    def descriptions(self, database: str) -> Descriptions:
        """What is said about a database: table -> column -> name, description, values; only what is not empty."""
        found = self._spider_words().get(database, {})
        folder = self.databases[database].parent / "database_description"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.suffix.lower() == ".csv" and not path.name.startswith("."):
                table = found.setdefault(path.stem, {})
                for column, texts in _described(path):
                    table.setdefault(column, {}).update(texts)
        return {table: columns for table, columns in found.items() if columns}

    def _spider_words(self) -> dict[str, Descriptions]:
        """Column names in words, from tables.json, where they say more than the column's own name."""
        words: dict[str, Descriptions] = {}
        for path in _walk(self.root, (".json",)):
            if not path.stem.lower().endswith("tables"):
                continue
            try:
                entries = json.loads(path.read_bytes().decode("utf-8-sig"))
            except (OSError, ValueError):
                continue  # words are a help; what they name can be read without them
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, dict) and isinstance(entry.get("db_id"), str):
                    words[entry["db_id"]] = _column_words(entry)
        return words


def open_benchmark(root: Path) -> Benchmark:
    """The benchmark in a folder.

    Raises:
        DataError: it is no folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError("is not a folder", file=root, fix="Give the folder that holds the question files")
    return Benchmark(root, find_databases(root))


def find_databases(root: Path) -> dict[str, Path]:
    """The database files below a folder, by name: the folder's where the only file in it is called otherwise."""
    found: dict[str, Path] = {}
    by_folder: dict[Path, list[Path]] = {}
    for path in _walk(root, DATABASE_SUFFIXES):
        by_folder.setdefault(path.parent, []).append(path)
    for folder, paths in by_folder.items():
        for path in paths:
            found.setdefault(path.stem, path)
        if len(paths) == 1 and folder != root:
            found.setdefault(folder.name, paths[0])
    return found


def _walk(root: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    """Files of such suffixes, nearest first, then by name."""
    level = [root]
    for _ in range(_DEPTH):
        deeper: list[Path] = []
        for folder in level:
            with os.scandir(folder) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    if entry.name.startswith((".", "__")):
                        continue
                    if entry.is_dir():
                        deeper.append(Path(entry.path))
                    elif entry.name.lower().endswith(tuple(suffixes)):
                        yield Path(entry.path)
        level = deeper


def _described(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """What a file of BIRD's database_description says of each column, up to a line that is no CSV."""
    data = path.read_bytes()
    text = data.decode("utf-16", "replace") if data[:2] in _UTF16 else decoded(data.removeprefix(b"\xef\xbb\xbf"))
    first = text.split("\n", 1)[0]
    separator = max(_SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text.replace("\0", ""), newline=""), delimiter=separator)
    header: list[str] = []
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            return  # words are a help; what they name can be read without them
        if row is None:
            return
        if not header:
            header = [name.strip("\ufeff ").lower() for name in row]
            continue
        values = dict(zip(header, (" ".join(cell.split()) for cell in row), strict=False))
        texts = {key: values[name] for key, name in _SAID.items() if values.get(name)}
        if (column := values.get("original_column_name", "")) and texts:
            yield column, texts


def _column_words(entry: dict[str, Any]) -> Descriptions:
    tables = entry.get("table_names_original") or []
    found: Descriptions = {}
    pairs = zip(entry.get("column_names_original") or (), entry.get("column_names") or (), strict=False)
    for original, words in pairs:
        (at, name), said = original, str(words[1]).strip()
        if 0 <= at < len(tables) and said and _plain(said) != _plain(str(name)):
            found.setdefault(str(tables[at]), {})[str(name)] = {"name": said}
    return found


def _plain(name: str) -> str:
    return name.replace("_", " ").casefold()

"""Files of questions as other people write them: JSON, JSONL, CSV and TSV.

In: a file. Out: `Asked` records in file order, and a `Reject` for every entry that is none. Keys are known by their
usual names, in any letter case (`_KEYS`); further keys are ignored. UTF-8, with or without a byte order mark. A JSON
file is a list of objects, or an object that holds one. Not here: databases, SQL.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql_rl.errors import DataError

# The first of these that holds a text is taken; Spider's `sql` is a parse tree, its `query` the text.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "text": ("question", "spidersynquestion", "utterance", "question_text", "nl", "natural_language", "text"),
    "database": ("database", "db_id", "db_name", "database_id", "database_name", "db"),
    "sql": ("gold_sql", "sql", "query", "gold", "gold_query", "answer"),
    "dialect": ("dialect",),
    "evidence": ("evidence", "hint", "external_knowledge", "instructions"),
    "hardness": ("hardness", "difficulty", "level"),
    "id": ("id", "question_id", "qid"),
}
_NEEDED = {"text": "question", "database": "database", "sql": "SQL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One entry of a question file, as written. `place` is "file:line" or "file:number", counted from 1."""

    place: str
    id: str
    text: str
    database: str
    sql: str
    dialect: str = ""
    evidence: str = ""
    hardness: str = ""


@dataclass(frozen=True, slots=True)
class Malformed:
    """An entry that is no question: where it stands, why, and what it holds."""

    place: str
    words: str
    entry: str


def read_questions(path: Path, database: str = "") -> tuple[list[Asked], list[Malformed]]:
    """All entries of a question file.

    Args:
        path: .json, .jsonl (.ndjson), .csv or .tsv.
        database: of entries that name none.

    Raises:
        DataError: the file is missing, not UTF-8, of another kind, or as a whole not JSON.
    """
    path = Path(path)
    found: list[Asked] = []
    malformed: list[Malformed] = []
    for number, entry in _entries(path, _text(path)):
        place = f"{path.name}:{number}"
        if isinstance(entry, Malformed):
            malformed.append(Malformed(place, entry.words, entry.entry))
            continue
        values = _values(entry)
        values["database"] = values.get("database") or database
        missing = [name for key, name in _NEEDED.items() if not values.get(key)]
        if missing:
            shown = json.dumps(entry, ensure_ascii=False, default=str)[:500]
            malformed.append(Malformed(place, f"has no {' and no '.join(missing)}", shown))
            continue
        values["id"] = values.get("id") or str(number)
        found.append(Asked(place=place, **values))
    return found, malformed


def _values(entry: Mapping[str, Any]) -> dict[str, str]:
    lower = {str(key).strip().lower(): value for key, value in entry.items()}
    values: dict[str, str] = {}
    for name, keys in _KEYS.items():
        for key in keys:
            value = lower.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and name == "id":
                value = str(value)
            if isinstance(value, str) and value.strip():
                values[name] = value.strip()
                break
    return values


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=path) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8 text", file=path, fix="Save the file as UTF-8") from error


def _entries(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any] | Malformed]]:
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        yield from _lines(text)
    elif suffix == ".json":
        yield from _json(path, text)
    elif suffix in (".csv", ".tsv"):
        yield from _rows(path, text, "\t" if suffix == ".tsv" else ",")
    else:
        raise DataError("is of no known kind", file=path, fix="Question files end in .json, .jsonl, .csv or .tsv")


def _lines(text: str) -> Iterator[tuple[int, Mapping[str, Any] | Malformed]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            yield number, Malformed("", f"is not JSON ({error})", line[:500])
            continue
        yield number, entry if isinstance(entry, dict) else Malformed("", "is not a JSON object", line[:500])


def _json(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any] | Malformed]]:
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"is not JSON ({error})", file=path, fix="Repair the file, or give JSONL") from error
    if isinstance(content, dict):
        lists = [value for value in content.values() if _objects(value)]
        content = lists[0] if len(lists) == 1 else [content]
    if not isinstance(content, list):
        raise DataError("holds no list of questions", file=path, fix="Give a list of objects")
    for number, entry in enumerate(content, 1):
        shown = json.dumps(entry, ensure_ascii=False)[:500]
        yield number, entry if isinstance(entry, dict) else Malformed("", "is not a JSON object", shown)


def _objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _rows(path: Path, text: str, separator: str) -> Iterator[tuple[int, Mapping[str, Any] | Malformed]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header: Sequence[str] | None = None
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            yield number, Malformed("", f"is not CSV ({error})", "")
            continue
        if not row:
            continue
        if header is None:
            header = row
        elif len(row) != len(header):
            words = f"has {len(row)} fields, the header {len(header)}"
            yield number, Malformed("", words, separator.join(row)[:500])
        else:
            yield number, dict(zip(header, row, strict=True))
    if header is None:
        raise DataError("is empty", file=path, fix="The first line names the columns")

"""Files of predictions that somebody else made -> completions by question.

In: a file and the questions it answers, in order. Out: the texts for each question, or a `DataError` that names the
line or the key. Every question must have its prediction and nothing may be left over: a file that is off by one line
would otherwise score every question against its neighbour's gold.

Three formats, by the ending of the name:
- `.jsonl`: one object a line, `id` with `completion` (a text) or `completions` (a list of texts, of one length for all
  questions; the first is the answer, all are samples).
- `.json`, as BIRD has it: one object; the keys are question ids, or 0, 1, ... in the order of the questions; a value
  is the SQL, which `\\t----- bird -----\\tDATABASE` may follow.
- `.sql`, `.txt`, as Spider has it: line n answers question n; `\\tDATABASE` may follow the SQL. An empty line is an
  empty answer.
Where a database is named it must be the question's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from text2sql_rl.errors import DataError
from text2sql_rl.records import Question

BIRD_MARK = "\t----- bird -----\t"
_SHOWN = 3


def read_predictions(path: Path, questions: Sequence[Question]) -> list[tuple[str, ...]]:
    """The predictions for each question, in the order of `questions`; as many for each.

    Raises:
        DataError: the file cannot be read, or does not answer exactly these questions.
    """
    readers = {".jsonl": _jsonl, ".json": _bird, ".sql": _spider, ".txt": _spider}
    if path.suffix not in readers:
        raise DataError(
            "has no ending that tells its format", file=path,
            fix="End it in .jsonl (id and completion), .json (BIRD) or .sql (Spider, one SQL a line).",
        )  # fmt: skip
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=path, fix="Give a file of predictions.") from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8 text", file=path, fix="Save the file as UTF-8.") from error
    return readers[path.suffix](text, questions, path)


def _jsonl(text: str, questions: Sequence[Question], path: Path) -> list[tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        record = _json(line, path, place)
        if not isinstance(record, dict) or not isinstance(record.get("id"), str):
            raise DataError("is no object with a text `id`", file=path, field=place, fix="One JSON object a line.")
        if record["id"] in found:
            raise DataError(f"answers question {record['id']!r} again", file=path, field=place, fix="Keep one of them.")
        found[record["id"]] = _texts(record, path, place)
    _check_keys(found, [question.id for question in questions], path)
    sizes = {len(texts): name for name, texts in found.items()}
    if len(sizes) > 1:
        (few, one), (many, other) = sorted(sizes.items())[:: len(sizes) - 1]
        raise DataError(
            f"question {one!r} has {few} completions and question {other!r} has {many}", file=path, field="completions",
            fix="Give as many for every question.",
        )  # fmt: skip
    return [found[question.id] for question in questions]


def _texts(record: Mapping[str, Any], path: Path, place: str) -> tuple[str, ...]:
    if unknown := sorted(set(record) - {"id", "completion", "completions"}):
        raise DataError(
            f"unknown key {unknown[0]!r}", file=path, field=place, fix="Keys: id, and completion or completions."
        )
    texts = record.get("completions", [record.get("completion")])
    if ("completion" in record) == ("completions" in record) or not isinstance(texts, list) or not texts:
        raise DataError(
            "has not one of completion and completions", file=path, field=place,
            fix="Give `completion` as a text, or `completions` as a list of texts.",
        )  # fmt: skip
    for text in texts:
        if not isinstance(text, str):
            raise DataError("is no text", file=path, field=f"{place}, completion", fix='An empty answer is "".')
    return tuple(texts)


def _bird(text: str, questions: Sequence[Question], path: Path) -> list[tuple[str, ...]]:
    pairs = _json(text, path, "", as_pairs=True)
    if not isinstance(pairs, _Pairs):
        raise DataError("is no JSON object", file=path, fix="Write {question: SQL}, as BIRD does.")
    found: dict[str, str] = {}
    for key, value in pairs:
        if key in found:
            raise DataError("is there twice", file=path, field=f"key {key!r}", fix="Keep one of them.")
        if not isinstance(value, str):
            raise DataError("is no text", file=path, field=f"key {key!r}", fix="Write the SQL as a text.")
        found[key] = value
    ids = [question.id for question in questions]
    keys = ids if found and set(found) <= set(ids) else [str(number) for number in range(len(questions))]
    _check_keys(found, keys, path)
    out: list[tuple[str, ...]] = []
    for key, question in zip(keys, questions, strict=True):
        sql, mark, database = found[key].partition(BIRD_MARK)
        if mark and database.strip() != question.database:
            raise _other_database(database.strip(), question, path, f"key {key!r}")
        out.append((sql,))
    return out


def _spider(text: str, questions: Sequence[Question], path: Path) -> list[tuple[str, ...]]:
    lines = text.removesuffix("\n").split("\n") if text else []
    if len(lines) != len(questions):
        blank = sum(1 for line in lines if not line.strip())
        empty = f", {blank} of them empty," if blank else ""
        raise DataError(
            f"has {len(lines)} lines{empty} for {len(questions)} questions", file=path,
            fix="Give one line a question, in the order of the question file.",
        )  # fmt: skip
    databases = {question.database for question in questions}
    out: list[tuple[str, ...]] = []
    for number, (line, question) in enumerate(zip(lines, questions, strict=True), 1):
        sql, tab, last = line.removesuffix("\r").rpartition("\t")
        if tab and last.strip() == question.database:
            out.append((sql,))
        elif tab and last.strip() in databases:
            raise _other_database(last.strip(), question, path, f"line {number}")
        else:
            out.append((line.removesuffix("\r"),))
    return out


def _other_database(named: str, question: Question, path: Path, place: str) -> DataError:
    return DataError(
        f"is for database {named!r}, but question {question.id!r} is about {question.database!r}", file=path,
        field=place, fix="Give the predictions in the order of the question file.",
    )  # fmt: skip


def _check_keys(found: Mapping[str, object], wanted: Sequence[str], path: Path) -> None:
    missing = [key for key in wanted if key not in found]
    known = set(wanted)
    extra = [key for key in found if key not in known]
    for names, words in ((missing, "has no prediction for"), (extra, "predicts what is no question here:")):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise DataError(
                f"{words} {', '.join(map(repr, names[:_SHOWN]))}{more}", file=path,
                fix="Give exactly one prediction for each question of the question file.",
            )  # fmt: skip


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object as written: a plain dict would keep the last of two equal keys in silence."""


def _json(text: str, path: Path, place: str, as_pairs: bool = False) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Pairs if as_pairs else None)
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({error})", file=path, field=place, fix="Correct it there.") from error

"""The question sets: room 1, the door of `data/`.

In: the folder `data/` with `train/sft.jsonl`, `train/rl.jsonl`, `dev/dev.jsonl`, `heldout/heldout.jsonl`,
`heldout/handwritten.jsonl` and any further `SPLIT/ROLE.jsonl`; the folder is the split, the file's stem the
role. One JSON object a line: `id`, `database`, `question`, `gold_sql`, and optionally `shape`, `hardness`, `evidence`.
Out: `Question` records by role, without those that `exclude.yaml` leaves out (`exclusions.py`).

The wall stands here: a database in two splits is a `LeakError`, and nothing is loaded then. Not here: whether a
gold runs (`gold.py` says so), where questions come from (`synthesis/`, `importers/`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError, LeakError
from text2sql_rl.exclusions import excluded
from text2sql_rl.records import Question, Split

_REQUIRED = ("id", "database", "question", "gold_sql")
_OPTIONAL = ("shape", "hardness", "evidence")


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """All question sets of one data folder, in file order, by role."""

    by_role: dict[str, tuple[Question, ...]]

    def roles(self) -> tuple[str, ...]:
        """The names of the sets, e.g. ("sft", "rl", "dev", "heldout", "handwritten"), in order of split and name."""
        return tuple(self.by_role)

    def role(self, name: str) -> tuple[Question, ...]:
        """The questions of one set.

        Raises:
            DataError: there is no such set.
        """
        if name not in self.by_role:
            raise DataError(f"there is no question set {name!r}", fix=f"Sets here: {', '.join(self.by_role)}")
        return self.by_role[name]

    def databases(self, split: Split) -> tuple[str, ...]:
        """The names of the databases that questions of a split use, in order."""
        return tuple(sorted({q.database for qs in self.by_role.values() for q in qs if q.split is split}))


def load_questions(root: Path, store: DatabaseStore | None = None) -> QuestionSet:
    """Loads every `SPLIT/ROLE.jsonl` under `root`.

    Args:
        root: the folder `data/`.
        store: when given, a question on a database it does not have is refused.

    Raises:
        DataError: no set at all, an unknown split folder, a malformed line, an id used twice, an unknown
            database, a malformed exclude.yaml; names the file, the line and the field.
        LeakError: a database stands in two splits.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError("is not a folder", file=root, fix="Point to the folder that holds train/, dev/ and heldout/")
    for folder in sorted(p for p in root.iterdir() if p.is_dir() and any(p.glob("*.jsonl"))):
        if folder.name not in {split.value for split in Split}:
            raise DataError("is not a split", file=folder, fix="Question sets lie in train/, dev/ or heldout/")
    by_role: dict[str, tuple[Question, ...]] = {}
    for split in Split:
        for path in sorted((root / split.value).glob("*.jsonl")):
            if path.stem in by_role:
                raise DataError(f"the set {path.stem!r} stands in two splits", file=path, fix="Rename the file")
            by_role[path.stem] = load_file(path, split)
    left_out = excluded(root)
    by_role = {
        role: tuple(question for question in questions if (role, question.id) not in left_out)
        for role, questions in by_role.items()
    }
    if not by_role:
        raise DataError("holds no question set", file=root, fix="Add for example train/rl.jsonl")
    questions = [question for questions in by_role.values() for question in questions]
    _check_ids(questions, root)
    check_wall(questions, root)
    if store is not None:
        _check_databases(questions, store, root)
    return QuestionSet(by_role)


def load_file(path: Path, split: Split) -> tuple[Question, ...]:
    """The questions of one JSONL file; its stem is their role. Blank lines are skipped.

    Raises:
        DataError: the file is missing or not UTF-8, or a line is malformed; names the line and the field.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=path) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8 text", file=path, fix="Save the file as UTF-8") from error
    return tuple(_question(line, n, path, split) for n, line in enumerate(lines, 1) if line.strip())


def question_file(root: Path, question: Question) -> Path:
    """The file under `root` that a question stands in."""
    return root / question.split.value / f"{question.role}.jsonl"


def dump_line(question: Question) -> str:
    """One question as its JSONL line, without the newline; `load_file` reads it back."""
    record = {
        "id": question.id,
        "database": question.database,
        "question": question.text,
        "gold_sql": question.gold_sql,
    }
    if question.shape:
        record["shape"] = question.shape
    if question.hardness != "unknown":
        record["hardness"] = question.hardness
    if question.evidence:
        record["evidence"] = question.evidence
    return json.dumps(record, ensure_ascii=False)


def check_wall(questions: Iterable[Question], root: Path | None = None) -> None:
    """Refuses a database that stands in two splits.

    Raises:
        LeakError: names the database, both splits and a question of each.
    """
    seen: dict[str, Question] = {}
    for question in questions:
        other = seen.setdefault(question.database, question)
        if other.split is not question.split:
            raise LeakError(
                f"the database {question.database!r} stands in two splits: {other.split} (question {other.id}) "
                f"and {question.split} (question {question.id})",
                file=root,
                fix="Splits are by database: move the questions of one side",
            )


def _question(line: str, number: int, path: Path, split: Split) -> Question:
    place = f"line {number}"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"is not JSON ({getattr(error, 'msg', error)})", file=path, field=place, fix="One JSON object a line"
        ) from error
    if not isinstance(record, dict):
        raise DataError("is not a JSON object", file=path, field=place, fix="One JSON object a line")
    for key, value in record.items():
        if key not in _REQUIRED + _OPTIONAL:
            known = ", ".join(_REQUIRED + _OPTIONAL)
            raise DataError(f"unknown key {key!r}", file=path, field=place, fix=f"Keys: {known}")
        if not isinstance(value, str) or (key in _REQUIRED and not value.strip()):
            raise DataError("must be a text that is not empty", file=path, field=f"{place}, {key}")
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise DataError("holds half a character (a lone surrogate)", file=path, field=f"{place}, {key}")
    for key in _REQUIRED:
        if key not in record:
            raise DataError(f"the key {key!r} is missing", file=path, field=place)
    return Question(
        id=record["id"],
        database=record["database"],
        text=record["question"],
        gold_sql=record["gold_sql"],
        split=split,
        role=path.stem,
        shape=record.get("shape", ""),
        hardness=record.get("hardness", "unknown"),
        evidence=record.get("evidence", ""),
    )


def _check_ids(questions: Sequence[Question], root: Path) -> None:
    seen: dict[str, Question] = {}
    for question in questions:
        other = seen.setdefault(question.id, question)
        if other is not question:
            raise DataError(
                f"the id {question.id!r} is used twice ({other.role} and {question.role})", file=root, field="id"
            )


def _check_databases(questions: Sequence[Question], store: DatabaseStore, root: Path) -> None:
    known = set(store.names())
    for question in questions:
        if question.database not in known:
            raise DataError(
                f"question {question.id} of {question.role} names the unknown database {question.database!r}",
                file=question_file(root, question),
                field="database",
                fix=f"Databases lie in {store.root}",
            )

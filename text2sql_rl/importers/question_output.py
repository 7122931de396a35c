"""What an import of questions leaves behind: the question sets, what became of every question, and the counts.

In: questions with their proofs. Out: `data/SPLIT/ROLE.jsonl` for each role, and in `imports/`, named after the roles:
`.jsonl` with one line a kept question (its status, flags, rules and the SQL as written), `-rejects.jsonl` with one line
a dropped one (place, reason, words), `.json` with the summary. Question sets are written last and in one step each. Not
here: reading, proving.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from text2sql_rl.errors import DataError
from text2sql_rl.importers.layout import ContentRoot, write_lines
from text2sql_rl.importers.proof import Proof, Status
from text2sql_rl.importers.question_file import Asked
from text2sql_rl.records import Question, Split

_HARDNESS = {"simple": "easy", "moderate": "medium", "challenging": "hard"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A question that is not imported: where it stands, one word why, and more words."""

    place: str
    reason: str
    words: str
    database: str = ""
    question: str = ""
    sql: str = ""
    translation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """A question with its SQL's dialect, the name of its database in the content root, and its proof."""

    asked: Asked
    dialect: str
    database: str
    proof: Proof

    @property
    def flags(self) -> tuple[str, ...]:
        """What weakens its gold."""
        tie = ("tie",) if self.proof.status is Status.TIE else ()
        return tuple(dict.fromkeys((*tie, *self.proof.flags)))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSummary:
    """What an import of questions came to; `unproved` counts the golds that only run, by the dialect they are in."""

    files: tuple[Path, ...]
    rejects_file: Path
    questions: int
    statuses: Mapping[str, int]
    unproved: Mapping[str, int]
    flags: Mapping[str, int]
    flagged: int
    rejected: Mapping[str, int]
    databases: int
    elapsed_s: float

    def as_json(self) -> dict[str, Any]:
        """{questions, imported, same_answer, ties, unproved, flagged, flags, rejected, ..., seconds} for json.dumps."""
        return {
            "questions": self.questions,
            "imported": sum(self.statuses.values()),
            "same_answer": self.statuses.get(Status.SAME, 0),
            "ties": self.statuses.get(Status.TIE, 0),
            "unproved": self.statuses.get(Status.UNPROVED, 0),
            "unproved_by_dialect": dict(self.unproved),
            "flagged": self.flagged,
            "flags": dict(self.flags),
            "rejected": dict(self.rejected),
            "databases": self.databases,
            "files": [str(path) for path in self.files],
            "rejects_file": str(self.rejects_file),
            "seconds": round(self.elapsed_s, 2),
        }

    def lines(self) -> Iterator[str]:
        """The same in words."""
        counts = self.as_json()
        yield (
            f"{counts['imported']} of {counts['questions']} questions imported, on {counts['databases']} databases, "
            f"in {counts['seconds']:.1f} s"
        )
        if counts["same_answer"]:
            yield f"  proved    {counts['same_answer']}: SQLite gives the same rows for the SQL as it was written"
        if counts["ties"]:
            yield f"  proved    {counts['ties']} up to a tie: LIMIT cuts equal rows, or a column is of any row"
        yield from (f"  unproved  {count} {_UNPROVED[dialect]}" for dialect, count in self.unproved.items())
        yield from (f"  flagged   {flag}: {count}" for flag, count in self.flags.items())
        yield from (f"  rejected  {reason}: {count}" for reason, count in self.rejected.items())
        if self.rejected:
            yield f"the reason of each rejected question: {self.rejects_file}"
        yield from (f"questions: {path}" for path in self.files)


_UNPROVED = {
    "duckdb": "in DuckDB's own SQL: they run as they were written",
    "sqlite": "in SQLite's SQL: translated, and run; their database is at hand in DuckDB only",
    "mysql": "in MySQL's SQL: translated, and run; there is no MySQL to compare with",
    "postgres": "in Postgres' SQL: translated, and run; there is no Postgres to compare with",
}


def summarise(
    root: ContentRoot, split: Split, roles: Sequence[str], kept: Sequence[Proved], rejects: Sequence[Rejected],
    databases: int, elapsed_s: float,
) -> QuestionSummary:  # fmt: skip
    """The counts of one import."""
    return QuestionSummary(
        files=tuple(root.data / split.value / f"{role}.jsonl" for role in roles),
        rejects_file=root.path / "imports" / f"{'-'.join(roles)}-rejects.jsonl",
        questions=len(kept) + len(rejects),
        statuses=Counter(one.proof.status.value for one in kept),
        unproved=dict(Counter(one.dialect for one in kept if one.proof.status is Status.UNPROVED).most_common()),
        flags=dict(Counter(flag for one in kept for flag in one.flags).most_common()),
        flagged=sum(bool(one.flags) for one in kept),
        rejected=dict(Counter(one.reason for one in rejects).most_common()),
        databases=databases,
        elapsed_s=elapsed_s,
    )


def questions_of(kept: Sequence[Proved], split: Split, role: str) -> tuple[Question, ...]:
    """The questions of one set, with ids of their own."""
    ids: Counter[str] = Counter()
    made = []
    for one in kept:
        asked = one.asked
        stem = asked.place.rsplit(":", 1)[0].rsplit(".", 1)[0]
        own = f"{role}-{asked.id}" if stem == role else f"{role}-{stem}-{asked.id}"
        ids[own] += 1
        made.append(
            Question(
                id=own if ids[own] == 1 else f"{own}-again-{ids[own]}",
                database=one.database,
                text=asked.text,
                gold_sql=one.proof.sql,
                split=split,
                role=role,
                hardness=_HARDNESS.get(asked.hardness.lower(), asked.hardness.lower()) or "unknown",
                evidence=asked.evidence,
            )
        )
    return tuple(made)


def check_free(root: ContentRoot, split: Split, role: str, sources: Sequence[Path]) -> None:
    """Refuse to overwrite a set that these files did not give.

    Raises:
        DataError: it came from elsewhere.
    """
    file = root.data / split.value / f"{role}.jsonl"
    if not file.exists():
        return
    for record in (root.path / "imports").glob("*.json"):
        try:
            known = json.loads(record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if known.get("sources") == _named(sources) and str(file) in known.get("files", ()):
            return
    raise DataError(
        f"the set {role!r} is there already, from elsewhere",
        file=file,
        fix="Give another --role, or --replace to take the new one",
    )


def write_import(
    root: ContentRoot, split: Split, sources: Sequence[Path], sets: Mapping[str, tuple[Question, ...]],
    kept: Sequence[Proved], rejects: Sequence[Rejected], summary: QuestionSummary,
) -> None:  # fmt: skip
    """Write the files beside the question sets first, the sets last."""
    base = "-".join(sets)
    folder = root.path / "imports"
    ids = [[question.id for question in questions] for questions in sets.values()]
    lines = []
    for at, one in enumerate(kept):
        line = {
            "ids": [own[at] for own in ids],
            "place": one.asked.place,
            "database": one.database,
            "status": one.proof.status.value,
            "flags": list(one.flags),
            "rules": list(one.proof.rules),
            "dialect": one.dialect,
            "sql": one.asked.sql,
        }
        lines.append(json.dumps(line, ensure_ascii=False))
    write_lines(folder / f"{base}.jsonl", lines)
    write_lines(summary.rejects_file, [json.dumps(asdict(one), ensure_ascii=False) for one in rejects])
    for role, questions in sets.items():
        root.write_questions(split, role, questions)
    content = replace(summary, elapsed_s=0.0).as_json() | {"sources": _named(sources)}
    del content["seconds"]  # so that the same import gives the same file
    write_lines(folder / f"{base}.json", [json.dumps(content, ensure_ascii=False, indent=1)])


def _named(sources: Sequence[Path]) -> list[str]:
    return [str(path.resolve()) for path in sources]

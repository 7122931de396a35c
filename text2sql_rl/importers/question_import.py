"""Questions of other people become question sets: their databases converted, their golds translated and proved.

In: question files, the databases they name, a split and its roles. Out: `data/SPLIT/ROLE.jsonl` in the content root
for each role, and in `imports/`, named after the roles: `.jsonl` with one line a kept question (its status, flags,
rules and the SQL as written), `-rejects.jsonl` with one line a dropped one (place, reason, words), `.json` with the
summary. Question sets are written last and in one step each, so an import that is interrupted leaves whole databases
and no question; the same import again gives the same files. Not here: parsing, conversion, proof.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError
from text2sql_rl.importers.benchmark import Descriptions
from text2sql_rl.importers.dialect import DIALECTS, TranslationError, translate
from text2sql_rl.importers.duckdb_source import convert_duckdb
from text2sql_rl.importers.facts import read_facts
from text2sql_rl.importers.layout import ContentRoot, database_name, write_lines
from text2sql_rl.importers.proof import PROOF_LIMITS, Proof, Status, prove
from text2sql_rl.importers.question_file import Asked, read_questions
from text2sql_rl.importers.sqlite_source import convert_sqlite, decoded, opened
from text2sql_rl.questions import check_wall, load_file
from text2sql_rl.records import Database, Question, Split
from text2sql_rl.sandbox import Sandbox

_HARDNESS = {"simple": "easy", "moderate": "medium", "challenging": "hard"}
_DUCKDB_SUFFIX = ".duckdb"


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
class Source:
    """What is imported.

    Args:
        files: the question files, in order.
        databases: files of databases by name; one that is missing here must be in the content root already.
        dialect: of golds that name none.
        database: of questions that name none.
        describe: what is said about a database in words; stored beside it.
        only: databases whose questions are imported; all where none is named.
        without: databases whose questions are not.
        most: questions at most, taken in turn from each database so that few still cover all; None for all.
    """

    files: tuple[Path, ...]
    databases: Mapping[str, Path] = field(default_factory=dict)
    dialect: str = "sqlite"
    database: str = ""
    describe: Callable[[str], Descriptions] | None = None
    only: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSummary:
    """What an import of questions came to."""

    files: tuple[Path, ...]
    rejects_file: Path
    questions: int
    statuses: Mapping[str, int]
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
            f"{counts['questions']} questions on {counts['databases']} databases: {counts['same_answer']} give the "
            f"source's own answer, {counts['ties']} differ by a tie, {counts['unproved']} run but have no source to "
            f"be compared with, {sum(self.rejected.values())} rejected; {counts['seconds']:.1f} s"
        )
        yield from (f"  flagged   {flag}: {count}" for flag, count in self.flags.items())
        yield from (f"  rejected  {reason}: {count}" for reason, count in self.rejected.items())
        if self.rejected:
            yield f"each with its reason in {self.rejects_file}"
        yield from (str(path) for path in self.files)


def import_questions(
    source: Source,
    out: Path,
    split: Split,
    roles: Sequence[str],
    *,
    replace_others: bool = False,
    started: Callable[[str, int], None] = lambda database, total: None,
    advance: Callable[[int], None] = lambda questions: None,
) -> QuestionSummary:
    """Import question files.

    Args:
        source: what is imported.
        out: the content root.
        split: of all questions.
        roles: question sets to write; each gets all questions, with ids of its own.
        replace_others: whether a set that came from another source is replaced.
        started: called with each database and the number of all questions before it begins.
        advance: called with the number of questions that are done.

    Raises:
        DataError: a file cannot be read, the dialect is unknown, a set of that name came from elsewhere.
        LeakError: a database would stand in two splits.
        RunError: the content root cannot be written.
    """
    if source.dialect not in DIALECTS:
        raise DataError(f"the dialect {source.dialect!r} is none of {', '.join(DIALECTS)}", field="--dialect")
    began = time.monotonic()
    asked: list[Asked] = []
    rejects: list[Rejected] = []
    for file in source.files:
        found, malformed = read_questions(file, source.database)
        asked += found
        rejects += [
            Rejected(place=one.place, reason="malformed", words=one.words, question=one.entry) for one in malformed
        ]
    asked = _chosen(asked, source)
    total = len(asked) + len(rejects)
    root = ContentRoot(out)
    for role in roles:
        if not replace_others:
            _check_free(root, split, role, source)
    by_database: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        by_database[one.database].append(one)
    proofs: dict[Asked, tuple[str, Proof]] = {}
    used = 0
    with Sandbox(PROOF_LIMITS) as sandbox:
        for name, items in by_database.items():
            started(name, len(asked))
            try:
                proved = _prove(name, items, source, out, sandbox)
                used += 1
            except DataError as error:
                reason = "no_database" if _file_of(name, source.databases) is None else "broken_database"
                proved = [("", _without_database(one, source.dialect, reason, str(error))) for one in items]
            proofs.update(zip(items, proved, strict=True))
            advance(len(items))
    kept = [one for one in asked if proofs[one][1].kept]
    for one in asked:
        proof = proofs[one][1]
        if not proof.kept:
            rejects.append(
                Rejected(
                    place=one.place, reason=proof.reason, words=proof.words, database=one.database, question=one.text,
                    sql=one.sql, translation=proof.sql,
                )
            )  # fmt: skip
    sets = {role: _questions(kept, proofs, split, role) for role in roles}
    _check_wall(root, split, sets)
    flags = Counter(flag for one in kept for flag in _flags(proofs[one][1]))
    summary = QuestionSummary(
        files=tuple(root.data / split.value / f"{role}.jsonl" for role in roles),
        rejects_file=root.path / "imports" / f"{'-'.join(roles)}-rejects.jsonl",
        questions=total,
        statuses=Counter(proofs[one][1].status.value for one in kept),
        flags=dict(flags.most_common()),
        flagged=sum(bool(_flags(proofs[one][1])) for one in kept),
        rejected=dict(Counter(one.reason for one in rejects).most_common()),
        databases=used,
        elapsed_s=time.monotonic() - began,
    )
    _write(root, source, split, sets, kept, proofs, rejects, summary)
    return summary


def _chosen(asked: Sequence[Asked], source: Source) -> list[Asked]:
    """The questions that the source asks for, in file order."""
    known = {one.database for one in asked}
    for option, names in (("--only", source.only), ("--without", source.without)):
        if unknown := sorted(names - known):
            raise DataError(f"no question asks the database {unknown[0]!r}", field=option, fix="Check the name.")
    left = [one for one in asked if one.database not in source.without]
    left = [one for one in left if one.database in source.only or not source.only]
    if source.most is None:
        return left
    turns: Counter[str] = Counter()
    ranked = []
    for number, one in enumerate(left):
        ranked.append((turns[one.database], number))
        turns[one.database] += 1
    return [left[number] for number in sorted(number for _, number in sorted(ranked)[: source.most])]


# ---- databases ---------------------------------------------------------------------------------------------


def _prove(name: str, items: Sequence[Asked], source: Source, out: Path, sandbox: Sandbox) -> list[tuple[str, Proof]]:
    """The name the database has in the content root with one proof a question, in order.

    Raises:
        DataError: the database is missing or cannot be read.
    """
    file = _file_of(name, source.databases)
    database = _database(name, file, out)
    if source.describe is not None and (said := source.describe(name)):
        file_said = database.instances[0].path.with_name("descriptions.json")
        write_lines(file_said, [json.dumps(said, ensure_ascii=False, indent=1)])
    with ExitStack() as stack:
        original: sqlite3.Connection | None = None
        if file is not None and file.suffix.lower() != _DUCKDB_SUFFIX:
            original = stack.enter_context(opened(file))
            original.text_factory = decoded
        schema = read_facts(database.instances[0].path, original)
        found: dict[Asked, Proof] = {}
        for dialect in dict.fromkeys(one.dialect or source.dialect for one in items):
            own = [one for one in items if (one.dialect or source.dialect) == dialect]
            comparable = original if dialect == "sqlite" else None
            done = prove([one.sql for one in own], dialect, database.instances[0], schema, sandbox, comparable)
            found.update(zip(own, done, strict=True))
    return [(database.name, found[one]) for one in items]


def _without_database(one: Asked, dialect: str, reason: str, words: str) -> Proof:
    """The rejection of a question whose database cannot be had; what is wrong with its SQL anyway comes first."""
    try:
        translate(one.sql, one.dialect or dialect, ())
    except TranslationError as error:
        return Proof(status=Status.REJECTED, reason=error.reason, words=str(error))
    return Proof(status=Status.REJECTED, reason=reason, words=words)


def _file_of(name: str, databases: Mapping[str, Path]) -> Path | None:
    exact = databases.get(name)
    if exact is not None:
        return exact
    return next((path for known, path in databases.items() if known.lower() == name.lower()), None)


def _database(name: str, file: Path | None, out: Path) -> Database:
    called = database_name(Path(f"{name}.sqlite"))
    if file is not None:
        convert = convert_duckdb if file.suffix.lower() == _DUCKDB_SUFFIX else convert_sqlite
        convert(file, out, called)
    return DatabaseStore(out / "databases", out / ".cache" / "databases").get(called)


# ---- questions ---------------------------------------------------------------------------------------------


def _questions(
    kept: Sequence[Asked], proofs: Mapping[Asked, tuple[str, Proof]], split: Split, role: str
) -> tuple[Question, ...]:
    ids: Counter[str] = Counter()
    made = []
    for one in kept:
        stem = one.place.rsplit(":", 1)[0].rsplit(".", 1)[0]
        own = f"{role}-{one.id}" if stem == role else f"{role}-{stem}-{one.id}"
        ids[own] += 1
        database, proof = proofs[one]
        made.append(
            Question(
                id=own if ids[own] == 1 else f"{own}-again-{ids[own]}",
                database=database,
                text=one.text,
                gold_sql=proof.sql,
                split=split,
                role=role,
                hardness=_HARDNESS.get(one.hardness.lower(), one.hardness.lower()) or "unknown",
                evidence=one.evidence,
            )
        )
    return tuple(made)


def _flags(proof: Proof) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(("tie",) if proof.status is Status.TIE else ()), *proof.flags)))


def _check_wall(root: ContentRoot, split: Split, sets: Mapping[str, tuple[Question, ...]]) -> None:
    """Refuse questions whose database stands in another split of the content root."""
    others = [
        question
        for other in Split
        if other is not split
        for path in sorted((root.data / other.value).glob("*.jsonl"))
        for question in load_file(path, other)
    ]
    check_wall([*others, *(question for questions in sets.values() for question in questions)], root.data)


# ---- writing -----------------------------------------------------------------------------------------------


def _check_free(root: ContentRoot, split: Split, role: str, source: Source) -> None:
    """Refuse to overwrite a set that this source did not write."""
    file = root.data / split.value / f"{role}.jsonl"
    if not file.exists():
        return
    for record in (root.path / "imports").glob("*.json"):
        try:
            known = json.loads(record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if known.get("sources") == _sources(source) and str(file) in known.get("files", ()):
            return
    raise DataError(
        f"the set {role!r} is there already, from elsewhere",
        file=file,
        fix="Give another --role, or --replace to take the new one",
    )


def _sources(source: Source) -> list[str]:
    return [str(path.resolve()) for path in source.files]


def _write(
    root: ContentRoot,
    source: Source,
    split: Split,
    sets: Mapping[str, tuple[Question, ...]],
    kept: Sequence[Asked],
    proofs: Mapping[Asked, tuple[str, Proof]],
    rejects: Sequence[Rejected],
    summary: QuestionSummary,
) -> None:
    """The files beside the question sets first, the sets last."""
    base = "-".join(sets)
    folder = root.path / "imports"
    ids = [[question.id for question in questions] for questions in sets.values()]
    lines = []
    for at, one in enumerate(kept):
        database, proof = proofs[one]
        line = {
            "ids": [own[at] for own in ids],
            "place": one.place,
            "database": database,
            "status": proof.status.value,
            "flags": list(_flags(proof)),
            "rules": list(proof.rules),
            "dialect": one.dialect or source.dialect,
            "sql": one.sql,
        }
        lines.append(json.dumps(line, ensure_ascii=False))
    write_lines(folder / f"{base}.jsonl", lines)
    write_lines(summary.rejects_file, [json.dumps(asdict(one), ensure_ascii=False) for one in rejects])
    for role, questions in sets.items():
        root.write_questions(split, role, questions)
    content = replace(summary, elapsed_s=0.0).as_json() | {"sources": _sources(source)}
    del content["seconds"]  # so that the same import gives the same file
    write_lines(folder / f"{base}.json", [json.dumps(content, ensure_ascii=False, indent=1)])

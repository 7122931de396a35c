"""Questions of other people become question sets: their databases converted, their golds translated and proved.

In: question files, the databases they name, a split and its roles. Out: what `question_output.py` writes into the
content root, and its summary. An import that is interrupted leaves whole databases and no question; the same import
again gives the same files. Not here: parsing, conversion, proof, writing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError
from text2sql_rl.importers.benchmark import Descriptions
from text2sql_rl.importers.dialect import DIALECTS, TranslationError, translate
from text2sql_rl.importers.duckdb_source import convert_duckdb
from text2sql_rl.importers.facts import read_facts
from text2sql_rl.importers.layout import ContentRoot, database_name, write_lines
from text2sql_rl.importers.proof import PROOF_LIMITS, Proof, Status, prove
from text2sql_rl.importers.question_file import Asked, read_questions
from text2sql_rl.importers.question_output import (
    Proved,
    QuestionSummary,
    Rejected,
    check_free,
    questions_of,
    summarise,
    write_import,
)
from text2sql_rl.importers.sqlite_source import convert_sqlite, decoded, opened
from text2sql_rl.questions import check_wall, load_file
from text2sql_rl.records import Database, Question, Split
from text2sql_rl.sandbox import Sandbox

_DUCKDB_SUFFIX = ".duckdb"


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
    root = ContentRoot(out)
    for role in roles:
        if not replace_others:
            check_free(root, split, role, source.files)
    by_database: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        by_database[one.database].append(one)
    proofs: dict[Asked, Proved] = {}
    used = 0
    with Sandbox(PROOF_LIMITS) as sandbox:
        for name, items in by_database.items():
            started(name, len(asked))
            sandbox.allow([out])  # with the first database there is such a folder
            try:
                proofs.update(_prove(name, items, source, out, sandbox))
                used += 1
            except DataError as error:
                reason = "no_database" if _file_of(name, source.databases) is None else "broken_database"
                proofs.update({one: _without_database(one, source.dialect, reason, str(error)) for one in items})
            advance(len(items))
    kept = [proofs[one] for one in asked if proofs[one].proof.kept]
    rejects += [_rejected(proofs[one]) for one in asked if not proofs[one].proof.kept]
    sets = {role: questions_of(kept, split, role) for role in roles}
    _check_wall(root, split, sets)
    summary = summarise(root, split, roles, kept, rejects, used, time.monotonic() - began)
    write_import(root, split, source.files, sets, kept, rejects, summary)
    return summary


def _rejected(one: Proved) -> Rejected:
    asked, proof = one.asked, one.proof
    return Rejected(
        place=asked.place, reason=proof.reason, words=proof.words, database=asked.database, question=asked.text,
        sql=asked.sql, translation=proof.sql,
    )  # fmt: skip


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


def _prove(name: str, items: Sequence[Asked], source: Source, out: Path, sandbox: Sandbox) -> dict[Asked, Proved]:
    """The questions of one database with their proofs.

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
        found: dict[Asked, Proved] = {}
        for dialect in dict.fromkeys(one.dialect or source.dialect for one in items):
            own = [one for one in items if (one.dialect or source.dialect) == dialect]
            comparable = original if dialect == "sqlite" else None
            done = prove([one.sql for one in own], dialect, database.instances[0], schema, sandbox, comparable)
            for one, proof in zip(own, done, strict=True):
                found[one] = Proved(asked=one, dialect=dialect, database=database.name, proof=proof)
    return found


def _without_database(one: Asked, dialect: str, reason: str, words: str) -> Proved:
    """The rejection of a question whose database cannot be had; what is wrong with its SQL anyway comes first."""
    used = one.dialect or dialect
    try:
        translate(one.sql, used, ())
    except TranslationError as error:
        reason, words = error.reason, str(error)
    proof = Proof(status=Status.REJECTED, reason=reason, words=words)
    return Proved(asked=one, dialect=used, database="", proof=proof)


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

"""The dialect bridge proves itself: the original runs in SQLite, the translation in DuckDB, the answers are compared.

In: golds of one database as they were written, its DuckDB instance, and its SQLite source where there is one. Out: one
`Proof` a gold, in order: the same answer, another answer that only a tie explains, or a rejection with its reason.
Without a source a gold is translated and run only (`unproved`). The translation runs in the sandbox, under the limits
candidates have or wider ones; comparison is `compare`, with the translation as gold and SQLite's rows as the candidate.

What counts as a tie: LIMIT cuts rows that sort equal, or a value is any row's; the gold's preparation tells (gold/).
A translation whose whole answer depends on the order of rows is rejected: nothing could be judged by it.

Numbers of a column that mixes numbers and texts are texts in DuckDB; they are compared as texts. Not here: conversion,
reading question files.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import sqlglot
from sqlglot import exp

from text2sql_rl.compare import compare
from text2sql_rl.compare.cells import Family, family
from text2sql_rl.errors import SandboxError
from text2sql_rl.gold import prepare_golds
from text2sql_rl.importers.dialect import Translation, TranslationError, translate
from text2sql_rl.importers.dialect.values import Schema
from text2sql_rl.records import Execution, Gold, Instance, Match, Outcome
from text2sql_rl.sandbox import Job, Limits, Sandbox

_ORDERED = re.compile(r"\b(ORDER\s+BY|LIMIT|FIRST|ARG_MIN|ARG_MAX|ARG_MIN_NULL|ARG_MAX_NULL)\b", re.IGNORECASE)
_ANY_ROW = re.compile(r"\bARG_(MIN|MAX)_NULL\(")
_OPCODES_BETWEEN_CHECKS = 20_000
# Wider than what candidates have: a gold that is right is kept, and flagged where a candidate's limits would cut it.
PROOF_LIMITS = Limits(timeout_s=10.0, max_rows=200_000, max_bytes=128 << 20, max_sql_chars=100_000)
_JUDGED = Limits()
_PAUSES_S = (0.0, 1.0, 5.0, 20.0, 60.0)


class Status(StrEnum):
    """What became of a gold."""

    SAME = "same_answer"
    TIE = "tie"
    UNPROVED = "unproved"  # there is no SQLite source to compare with; it runs
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A gold after translation. `reason` is one word for counting, `words` says more; both empty unless rejected.

    `flags` weaken a gold that is kept: empty, constant, the name of the tie, numbers_as_text, and large or slow where
    the default limits of the judge would not let it finish.
    """

    status: Status
    sql: str = ""
    rules: tuple[str, ...] = ()
    reason: str = ""
    words: str = ""
    flags: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether the question is imported."""
        return self.status is not Status.REJECTED


def prove(
    golds: Sequence[str],
    dialect: str,
    instance: Instance,
    schema: Schema,
    sandbox: Sandbox,
    source: sqlite3.Connection | None = None,
    source_timeout_s: float = 5.0,
) -> tuple[Proof, ...]:
    """Translate and prove the golds of one database.

    Args:
        golds: SQL as written; equal ones are done once.
        dialect: of all of them.
        instance: the DuckDB database.
        schema: of it, from `facts.read_facts`.
        sandbox: where the translations run.
        source: the SQLite database the instance was made of; its `text_factory` is the conversion's.
        source_timeout_s: processor seconds an original may run in SQLite.

    Raises:
        SandboxError: the sandbox itself cannot work; nothing is said about any gold then.
    """
    distinct = dict.fromkeys(golds)
    proofs: dict[str, Proof] = {}
    originals: dict[str, _Rows] = {}
    translations: dict[str, Translation] = {}
    for gold in distinct:
        try:
            translations[gold] = translate(gold, dialect, schema)
        except TranslationError as error:
            proofs[gold] = _rejected(error.reason, str(error))
            if error.reason == "not_a_query" or source is None:
                continue
        if source is not None:
            original = _original(source, gold, source_timeout_s, sandbox.limits.max_rows)
            if isinstance(original, Proof):
                proofs[gold] = original
                translations.pop(gold, None)
            else:
                originals[gold] = original
    todo = list(translations)
    ran = _run(sandbox, [Job(instance, translations[gold].sql) for gold in todo])
    doubtful = []
    for gold, execution in zip(todo, ran, strict=True):
        proof = _first_look(translations[gold], execution, originals.get(gold))
        if proof is None:
            doubtful.append(gold)
        else:
            proofs[gold] = proof
    prepared = prepare_golds([(instance, translations[gold].sql) for gold in doubtful], sandbox)
    for gold, ready in zip(doubtful, prepared, strict=True):
        proofs[gold] = _second_look(translations[gold], ready, originals[gold])
    for gold in [one for one in doubtful if proofs[one].status is Status.TIE and "bare" in proofs[one].rules]:
        # Two translations of one meaning: the one that breaks the tie as SQLite does is preferred.
        other = translate(gold, dialect, schema, group_by_determined=False)
        (execution,) = _run(sandbox, [Job(instance, other.sql)])
        if other.sql != proofs[gold].sql and execution.rows == _as_execution(originals[gold], execution)[0].rows:
            proofs[gold] = replace(proofs[gold], status=Status.SAME, sql=other.sql, rules=other.rules)
    return tuple(proofs[gold] for gold in golds)


def _run(sandbox: Sandbox, jobs: Sequence[Job]) -> list[Execution]:
    """Run all; what the sandbox itself failed at again, after longer and longer pauses: the machine may be busy."""
    ran = list(sandbox.run(jobs))
    for pause_s in _PAUSES_S:
        again = [at for at, execution in enumerate(ran) if execution.outcome is Outcome.FAULT]
        if not again:
            break
        time.sleep(pause_s)
        for at, execution in zip(again, sandbox.run([jobs[at] for at in again]), strict=True):
            ran[at] = execution
    fault = next((execution for execution in ran if execution.outcome is Outcome.FAULT), None)
    if fault is not None:
        raise SandboxError(f"the sandbox cannot work: {fault.reason}", fix="Try again when the machine is less busy")
    return ran


_Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]


def _original(source: sqlite3.Connection, sql: str, timeout_s: float, max_rows: int) -> _Rows | Proof:
    """Column names and rows SQLite gives, or why the gold is rejected."""
    # Processor time, so that a busy machine drops nothing; and an end to all patience.
    busy, late = time.thread_time() + timeout_s, time.monotonic() + 20 * timeout_s
    source.set_progress_handler(
        lambda: int(time.thread_time() > busy or time.monotonic() > late), _OPCODES_BETWEEN_CHECKS
    )
    try:
        cursor = source.execute(sql)
        names = tuple(str(column[0]) for column in cursor.description or ())
        rows = cursor.fetchmany(max_rows + 1)
        cursor.close()
    except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
        if "interrupted" in str(error):
            return _rejected("source_timeout", f"the original does not end within {timeout_s:g} s in SQLite")
        return _rejected("source_fails", f"the original does not run in SQLite: {error}")
    finally:
        source.set_progress_handler(None, 0)
    if len(rows) > max_rows:
        return _rejected("too_large", f"the answer has more than {max_rows} rows")
    return names, rows


def _first_look(translation: Translation, execution: Execution, original: _Rows | None) -> Proof | None:
    """The cheap cases; None where the gold must be prepared to tell."""
    if execution.outcome is not Outcome.ROWS:
        reason = "fails" if execution.outcome is Outcome.ERROR else execution.outcome.value
        return replace(
            _rejected(reason, f"the translation does not run: {execution.reason}"),
            sql=translation.sql,
            rules=translation.rules,
        )
    found = {
        "empty": not execution.rows,
        "constant": not execution.reads_tables,
        "large": len(execution.rows) > _JUDGED.max_rows,
        "slow": execution.elapsed_s > _JUDGED.timeout_s,
    }
    flags = tuple(flag for flag, holds in found.items() if holds)
    plain = Proof(status=Status.UNPROVED, sql=translation.sql, rules=translation.rules, flags=flags)
    if original is None:
        return plain
    candidate, as_text = _as_execution(original, execution)
    proof = replace(plain, status=Status.SAME, flags=flags + (("numbers_as_text",) if as_text else ()))
    if candidate.rows == execution.rows and len(candidate.columns) == len(execution.columns):
        return proof
    if _ORDERED.search(translation.sql):
        return None
    verdict = compare(Gold(sql=translation.sql, execution=execution), candidate)
    return proof if verdict.match is Match.MATCH else None


def _second_look(translation: Translation, gold: Gold, original: _Rows) -> Proof:
    candidate, as_text = _as_execution(original, gold.execution)
    flags = tuple(flag for flag in gold.flags if flag != "order_unchecked")
    flags += ("numbers_as_text",) if as_text else ()
    proof = Proof(status=Status.SAME, sql=translation.sql, rules=translation.rules, flags=flags)
    if gold.unverifiable:
        reason = "order_dependent" if "stored" in gold.unverifiable else "unverifiable"
        return replace(proof, status=Status.REJECTED, reason=reason, words=gold.unverifiable, flags=())
    verdict = compare(gold, candidate)
    if verdict.match is Match.MISMATCH:
        reason, why = _difference(translation.sql)
        words = f"SQLite gives another answer{why}: {verdict.words}"
        return replace(proof, status=Status.REJECTED, reason=reason, words=words, flags=())
    width = len(gold.execution.columns) - gold.hidden
    own = replace(
        gold.execution,
        columns=gold.execution.columns[:width],
        types=gold.execution.types[:width],
        rows=tuple(row[:width] for row in gold.execution.rows),
    )
    bag = compare(Gold(sql=translation.sql, execution=own), candidate)
    if verdict.match is Match.MATCH and bag.match is Match.MATCH:
        return proof
    return replace(proof, status=Status.TIE)


def _difference(sql: str) -> tuple[str, str]:
    """What a difference may come from: nobody says which row LIMIT takes from a tie, or a bare column is of."""
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    if any(limit.parent is not tree for limit in tree.find_all(exp.Limit)):
        return "inner_tie", ", as it may where LIMIT cuts a tie in a subquery"
    if tree.find(exp.First, exp.ArgMax, exp.ArgMin) or _ANY_ROW.search(sql):
        return "arbitrary_row", ", as it may where a column is of any row"
    return "differs", ""


def _as_execution(original: _Rows, like: Execution) -> tuple[Execution, bool]:
    """SQLite's rows as an execution; whether numbers were read as texts because DuckDB's column holds texts."""
    names, rows = original
    texts = [family(name) is Family.TEXT for name in like.types[: len(names)]]
    texts += [False] * (len(names) - len(texts))
    columns = [[row[at] for row in rows] for at in range(len(names))]
    as_text = False
    types = []
    for at, values in enumerate(columns):
        if texts[at] and any(isinstance(value, int | float) for value in values):
            columns[at] = values = [_text(value) for value in values]
            as_text = True
        kinds = {type(value) for value in values if value is not None}
        if not kinds:
            types.append("NULL")
        elif kinds <= {int, float}:
            types.append("DOUBLE" if float in kinds else "HUGEINT")
        else:
            types.append("BLOB" if kinds == {bytes} else "VARCHAR")
    execution = Execution(
        outcome=Outcome.ROWS, columns=names, types=tuple(types), rows=tuple(zip(*columns, strict=True))
    )
    return execution, as_text


def _text(value: Any) -> Any:
    """A number as SQLite's CAST writes it."""
    if isinstance(value, float):
        short = f"{value:.15g}"
        return short if any(sign in short for sign in ".en") else f"{short}.0"
    return str(value) if isinstance(value, int) else value


def _rejected(reason: str, words: str) -> Proof:
    return Proof(status=Status.REJECTED, reason=reason, words=words)

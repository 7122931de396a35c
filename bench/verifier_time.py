"""What safety costs: sandbox and comparison against a bare DuckDB connection, and against the usual plain reward.

In: Spider dev questions (or the bundled ones), eight distinct candidates each: the gold, mutants of it, two that fail.
Out: two medians of ratios of wall times. The first over bare DuckDB: the same statements one after another on one
connection a database, with fetchall; on a machine with two cores the sandbox uses both. The second over what is usually
written: SQLite in a thread with a time limit, gold and candidate each time, frozensets compared; where the questions
have SQLite files. Golds are prepared and workers started before. Not here: reward rules, extraction.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from measure import Result, median, scaled
from spider import Asked, dev_questions, spread
from sqlglot.errors import ErrorLevel, SqlglotError

from text2sql_rl.compare import compare
from text2sql_rl.gold import prepare_golds
from text2sql_rl.instances.mutants import mutants
from text2sql_rl.records import Database, Gold, Question
from text2sql_rl.sandbox import Job, Limits, Sandbox

_QUESTIONS = 1000
_CANDIDATES = 8
_RUNS = 5
_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate with the gold it is compared with, and both for SQLite where there is a file."""

    job: Job
    gold: Gold
    sqlite: Path | None = None
    sqlite_gold: str = ""
    sqlite_sql: str = ""


def candidates(question: Question, database: Database) -> list[str]:
    """Distinct statements: the gold, a syntax error, an unknown column, and as many mutants as there are, up to 8."""
    table = database.tables[0].name
    # A gold that has few mutants gets plain scans, which cost about the same.
    plain = [f'SELECT "{column.name}" FROM "{one.name}"' for one in database.tables for column in one.columns]
    wrong = [f'SELECT no_such_column FROM "{table}"', f'SELEC * FROM "{table}"']
    made = mutants(question.gold_sql, database.tables, _CANDIDATES)
    return list(dict.fromkeys([question.gold_sql, *wrong, *made, *plain]))[:_CANDIDATES]


def measure() -> list[Result]:
    """The ratios; each run times all ways, one after the other, so that a busy machine slows all of them."""
    asked = spread(dev_questions(), scaled(_QUESTIONS))
    with Sandbox(Limits(timeout_s=_LIMIT_S), workers=min(2, os.cpu_count() or 1)) as sandbox, ExitStack() as stack:
        cases = _cases(asked, sandbox)
        paths = {case.job.instance.path for case in cases}
        bare = {path: stack.enter_context(duckdb.connect(str(path), read_only=True)) for path in paths}
        for connection in bare.values():
            connection.execute("SET threads = 1")
        over_bare, over_usual = [], []
        for number in range(scaled(_RUNS) + 1):
            ours, theirs, usual = _verify(cases, sandbox), _run_bare(cases, bare), _run_usual(cases)
            if number:  # the first run warms all
                over_bare.append(ours / theirs)
                over_usual.append(ours / usual if usual else 0.0)
    results = [median("verifier.time_over_bare_duckdb", over_bare, "ratio", 1.5)]
    if all(over_usual):
        results.append(median("verifier.time_over_usual_sqlite_reward", over_usual, "ratio", 1.0))
    return results


def _cases(asked: Sequence[Asked], sandbox: Sandbox) -> list[Case]:
    golds = prepare_golds([(one.database.instances[0], one.question.gold_sql) for one in asked], sandbox)
    return [
        Case(Job(one.database.instances[0], sql), gold, one.sqlite, one.sqlite_gold, _for_sqlite(sql))
        for one, gold in zip(asked, golds, strict=True)
        for sql in candidates(one.question, one.database)
    ]


def _for_sqlite(sql: str) -> str:
    try:
        return sqlglot.transpile(sql, read="duckdb", write="sqlite", unsupported_level=ErrorLevel.IGNORE)[0]
    except SqlglotError:
        return sql


def _verify(cases: Sequence[Case], sandbox: Sandbox) -> float:
    began = time.perf_counter()
    executions = sandbox.run([case.job for case in cases])
    for case, execution in zip(cases, executions, strict=True):
        compare(case.gold, execution, case.job.sql)
    return time.perf_counter() - began


def _run_bare(cases: Sequence[Case], bare: Mapping[Path, duckdb.DuckDBPyConnection]) -> float:
    began = time.perf_counter()
    for case in cases:
        try:
            bare[case.job.instance.path].execute(case.job.sql).fetchall()
        except duckdb.Error:
            continue
    return time.perf_counter() - began


def _run_usual(cases: Sequence[Case]) -> float:
    """Seconds of the usual reward over all cases; 0 where there is nothing to run it on."""
    began = time.perf_counter()
    if not all(case.sqlite for case in cases):
        return 0.0
    for case in cases:
        reward: list[float] = []
        thread = threading.Thread(target=_usual_reward, args=(case, reward), daemon=True)
        thread.start()
        thread.join(_LIMIT_S)
    return time.perf_counter() - began


def _usual_reward(case: Case, reward: list[float]) -> None:
    with closing(sqlite3.connect(f"file:{case.sqlite}?mode=ro", uri=True)) as connection:
        reward.append(float(_rows(connection, case.sqlite_gold) == _rows(connection, case.sqlite_sql)))


def _rows(connection: sqlite3.Connection, sql: str) -> frozenset[Any] | None:
    try:
        return frozenset(connection.execute(sql).fetchall())
    except sqlite3.Error:
        return None

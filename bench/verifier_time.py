"""What safety costs: sandbox and comparison against a bare DuckDB connection, on the same statements.

In: dev questions of the bundled databases, eight distinct candidates each: the gold, mutants of it, two that fail. Out:
the median ratio of wall times, one process each, caches warm; the baseline is bare DuckDB, 1. Golds are prepared
before, workers started before. Not here: reward rules, extraction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import duckdb
from measure import Result, median

from text2sql_rl.compare import compare
from text2sql_rl.content import open_content
from text2sql_rl.gold import prepare_golds
from text2sql_rl.records import Database, Gold, Question
from text2sql_rl.sandbox import Job, Limits, Sandbox
from text2sql_rl.synthesis.mutants import mutants

_QUESTIONS = 120
_CANDIDATES = 8
_RUNS = 7


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate with the gold it is compared with."""

    job: Job
    gold: Gold


def candidates(question: Question, database: Database) -> list[str]:
    """Distinct statements: the gold, a syntax error, an unknown column, and as many mutants as there are, up to 8."""
    columns = {table.name: tuple(column.name for column in table.columns) for table in database.tables}
    table = database.tables[0].name
    # A gold whose columns have no mutant left gets plain scans, which cost about the same.
    plain = [f'SELECT "{column}" FROM "{name}"' for name, names in columns.items() for column in names]
    wrong = [f"SELECT no_such_column FROM {table}", f"SELEC * FROM {table}"]
    return list(dict.fromkeys([question.gold_sql, *wrong, *mutants(question.gold_sql, columns), *plain]))[:_CANDIDATES]


def measure() -> Result:
    """The ratio; each run times both ways, one after the other, so that a busy machine slows both."""
    content = open_content()
    questions = content.questions.role("dev")
    pairs = content.pairs(questions[:: max(1, len(questions) // _QUESTIONS)][:_QUESTIONS])
    with Sandbox(Limits()) as sandbox, ExitStack() as stack:
        golds = prepare_golds([(database.instances[0], question.gold_sql) for question, database in pairs], sandbox)
        cases = [
            Case(Job(database.instances[0], sql), gold)
            for (question, database), gold in zip(pairs, golds, strict=True)
            for sql in candidates(question, database)
        ]
        paths = {case.job.instance.path for case in cases}
        bare = {path: stack.enter_context(duckdb.connect(str(path), read_only=True)) for path in paths}
        for connection in bare.values():
            connection.execute("SET threads = 1")
        ratios = []
        for number in range(_RUNS + 1):
            ours, theirs = _verify(cases, sandbox), _run_bare(cases, bare)
            if number:  # the first run warms both
                ratios.append(ours / theirs)
    return median("verifier.time_over_bare_duckdb", ratios, "ratio", 1.0)


def _verify(cases: Sequence[Case], sandbox: Sandbox) -> float:
    began = time.perf_counter()
    executions = sandbox.run([case.job for case in cases])
    for case, execution in zip(cases, executions, strict=True):
        compare(case.gold, execution)
    return time.perf_counter() - began


def _run_bare(cases: Sequence[Case], bare: Mapping[Path, duckdb.DuckDBPyConnection]) -> float:
    began = time.perf_counter()
    for case in cases:
        try:
            bare[case.job.instance.path].execute(case.job.sql).fetchall()
        except duckdb.Error:
            continue
    return time.perf_counter() - began

"""Completions -> marked answers: the judge's rollout, and beside it what other rules say of the same completion.

In: questions with their databases and completions. Out: one `Answer` each. Training's judge gives the headline, so a
number never depends on who asked; the marks only stand beside it. Not here: numbers, sampling, the published rules.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from text2sql_rl.content import database_folders
from text2sql_rl.evaluate.published import is_ordered, set_match, suite_match, without_distinct
from text2sql_rl.evaluate.vote import result_key
from text2sql_rl.judge import Judge, Runner
from text2sql_rl.records import Completion, Database, Execution, Instance, Outcome, Question, Rollout
from text2sql_rl.sandbox import Job, Limits
from text2sql_rl.scoring import Rule

_KEPT_EXECUTIONS = 20_000
_KEPT_CELLS = 2_000

Item = tuple[Question, Database, Completion]


@dataclass(frozen=True, slots=True)
class Marks:
    """What is said of one completion beside the headline.

    `real_rows`: right on instance 0, whatever the other instances say. `set_match`: by BIRD's rule, on instance 0.
    `suite_match`: by the test suite's rule, on all instances. `result`: names what it returned, for votes.
    """

    real_rows: bool = False
    set_match: bool = False
    suite_match: bool = False
    result: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one completion took: seconds until it was there, and tokens of its prompt; None where nobody knows."""

    seconds: float | None = None
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One judged completion."""

    rollout: Rollout
    marks: Marks = field(default_factory=Marks)
    cost: Cost = field(default_factory=Cost)


class Judging(Protocol):
    """What evaluation asks of its judge."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Hashes and versions of whatever decides a verdict."""

    def judge(self, items: Sequence[Item]) -> Sequence[Answer]:
        """One answer an item, in order."""


@contextmanager
def open_judging(rule: Rule, limits: Limits, workers: int, cache: Path) -> Iterator[MarkingJudge]:
    """A judge with marks, which ends with the block."""
    with Judge(rule, limits, workers, cache=cache / "golds", folders=database_folders()) as judge:
        yield MarkingJudge(judge, judge.sandbox)


class MarkingJudge:
    """Training's judge, which also says what the published rules make of a completion.

    Args:
        judge: decides.
        sandbox: runs what the published rules need and the judge did not run.
    """

    def __init__(self, judge: Judge, sandbox: Runner) -> None:
        self._judge, self.sandbox = judge, sandbox
        self._known: OrderedDict[tuple[str, str], Execution] = OrderedDict()

    @property
    def environment(self) -> Mapping[str, str]:
        """Hashes and versions of whatever decides a verdict."""
        return self._judge.environment

    def judge(self, items: Sequence[Item]) -> list[Answer]:
        """One answer an item, in order.

        Raises:
            SandboxError: the verifier itself broke.
        """
        rollouts = self._judge.judge(items)
        # The same statement for the same question is marked once.
        keys = [(question.id, one.candidate.sql) for (question, _, _), one in zip(items, rollouts, strict=True)]
        firsts = {key: at for at, key in reversed(list(enumerate(keys))) if key[1] is not None}
        cases = {key: _Marked(items[at][0], items[at][1], rollouts[at]) for key, at in firsts.items()}
        self._on_real_rows(list(cases.values()))
        self._on_all_instances(list(cases.values()))
        # Rows have done their work; thousands of answers must not hold on to them.
        return [
            Answer(_without_rows(one), _marks(cases[key], one) if key in cases else Marks())
            for key, one in zip(keys, rollouts, strict=True)
        ]

    def _on_real_rows(self, cases: Sequence[_Marked]) -> None:
        for case in cases:
            if case.rollout.execution is not None and case.rollout.execution.outcome is not Outcome.FAULT:
                self._keep((case.real.sha256, case.sql), case.rollout.execution)
        jobs = [Job(case.real, sql) for case in cases for sql in (case.question.gold_sql, case.sql)]
        ran = self._run(jobs)
        for case, gold, own in zip(cases, ran[::2], ran[1::2], strict=True):
            case.result = result_key(own)
            both = gold.outcome is own.outcome is Outcome.ROWS
            case.set_match = both and set_match(gold.rows, own.rows)

    def _on_all_instances(self, cases: Sequence[_Marked]) -> None:
        """All real rows first: what fails there need not run on the others."""
        for case in cases:
            case.suite_match = True
        self._suite(cases, slice(0, 1))
        self._suite([case for case in cases if case.suite_match], slice(1, None))

    def _suite(self, cases: Sequence[_Marked], which: slice) -> None:
        pairs = [(case, instance) for case in cases for instance in case.database.instances[which]]
        texts = {sql: without_distinct(sql) for case in cases for sql in (case.question.gold_sql, case.sql)}
        jobs = [Job(instance, texts[sql]) for case, instance in pairs for sql in (case.question.gold_sql, case.sql)]
        ran = self._run(jobs)
        for (case, _), gold, own in zip(pairs, ran[::2], ran[1::2], strict=True):
            if case.suite_match:
                both, ordered = gold.outcome is own.outcome is Outcome.ROWS, is_ordered(case.question.gold_sql)
                case.suite_match = both and suite_match(gold.rows, own.rows, ordered=ordered)

    def _run(self, jobs: Sequence[Job]) -> list[Execution]:
        keys = [(job.instance.sha256, job.sql) for job in jobs]
        ran = {key: self._known[key] for key in keys if key in self._known}
        missing = {key: job for key, job in zip(keys, jobs, strict=True) if key not in ran}
        ran |= zip(missing, self.sandbox.run(list(missing.values())), strict=True) if missing else ()
        for key in missing:
            self._keep(key, ran[key])
        return [ran[key] for key in keys]

    def _keep(self, key: tuple[str, str], execution: Execution) -> None:
        if len(execution.rows) * len(execution.columns) <= _KEPT_CELLS:
            self._known[key] = execution
            self._known.move_to_end(key)
        if len(self._known) > _KEPT_EXECUTIONS:
            self._known.popitem(last=False)


@dataclass(slots=True)
class _Marked:
    """One statement for one question on its way through the rules."""

    question: Question
    database: Database
    rollout: Rollout
    set_match: bool = False
    suite_match: bool = False
    result: str = ""

    @property
    def sql(self) -> str:
        return self.rollout.candidate.sql or ""

    @property
    def real(self) -> Instance:
        return self.database.instances[0]


def _without_rows(rollout: Rollout) -> Rollout:
    execution = rollout.execution
    return replace(rollout, execution=replace(execution, rows=())) if execution and execution.rows else rollout


def _marks(case: _Marked, rollout: Rollout) -> Marks:
    flags = rollout.verdict.flags if rollout.verdict else ()
    # Only what matched on the real rows is tried on others, so this flag tells what instance 0 said.
    real_rows = rollout.equivalent or ("other_rows" in flags and rollout.candidate.answers <= 1)
    return Marks(real_rows, case.set_match, case.suite_match, case.result)

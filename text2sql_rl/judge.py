"""Rooms 4 to 7 in one sentence: extract the candidate, run it, compare it with the gold, score it -> rollout.

In: completions with their questions and databases, and a rule. Out: one `Rollout` each, in the same order; the same
judge serves training, evaluation and audits. Not here: sampling, groups, logs; and nothing here imports torch.

A candidate that matches on the real rows (instance 0) runs on every other instance of its database as well and, where
there are others, on rows aimed at what it says and the gold does not. It is equivalent when it matches on all that
their golds can judge. What the verifier itself could not do is unscored, never zero, and when that becomes common the
judge stops with a `SandboxError` instead of training on nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from text2sql_rl import __version__
from text2sql_rl.compare import compare, overall
from text2sql_rl.compare.policy import differences
from text2sql_rl.errors import ConfigError, RunError, SandboxError
from text2sql_rl.extract import extract
from text2sql_rl.gold import GoldCache, prepare_golds
from text2sql_rl.instances import fair
from text2sql_rl.instances.doubted import Doubts
from text2sql_rl.records import (
    Candidate,
    Completion,
    Database,
    Execution,
    Finish,
    Gold,
    Instance,
    Match,
    Outcome,
    Question,
    Rollout,
    Split,
    Verdict,
)
from text2sql_rl.sandbox import Job, Limits, Sandbox
from text2sql_rl.scoring import Evidence, Rule, cause, is_right, score

# Outcomes that depend on the moment are tried again; the others are a property of statement and instance.
_REPEATABLE = frozenset((Outcome.ROWS, Outcome.ERROR, Outcome.REFUSED))
_CACHED_EXECUTIONS = 4096
_CACHED_CELLS = 2000  # larger results are not kept, so that the cache stays within some tens of megabytes
_CACHED_GOLDS = 20_000
# The breaker looks at the last executions, at least this many, and trips above this share of faults.
_BREAKER_WINDOW = 50
_BREAKER_SHARE = 0.2


class Runner(Protocol):
    """What the judge needs of a sandbox."""

    limits: Limits

    def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
        """One execution a job, in order."""

    def allow(self, folders: Iterable[Path]) -> None:
        """Databases may lie anywhere below these folders."""

    def close(self) -> None:
        """End the workers."""


@dataclass(slots=True)
class _Case:
    """One completion on its way through the rooms."""

    question: Question
    database: Database
    completion: Completion
    candidate: Candidate
    gold: Gold
    execution: Execution | None = None
    verdict: Verdict | None = None
    equivalent: bool = False


class Judge:
    """Judges completions under one rule and one set of limits. A context manager: it owns sandbox workers."""

    def __init__(
        self,
        rule: Rule,
        limits: Limits | None = None,
        workers: int = 1,
        *,
        sandbox: Runner | None = None,
        cache: Path | None = None,
        folders: Iterable[Path] = (),
    ) -> None:
        """Open the sandbox.

        Args:
            rule: the loaded reward rule.
            limits: what one statement may use; the sandbox's defaults when left out.
            workers: sandbox processes; raise it with the processor cores.
            sandbox: another runner instead of a sandbox of its own; closed with the judge.
            cache: a folder where prepared golds are kept for other runs, see `gold.GoldCache`.
            folders: where databases and their instances lie, see `Sandbox.allow`.

        Raises:
            ConfigError: the rule declares another comparison than this judge makes.
        """
        if rule.comparison is not None and (found := differences(rule.comparison)):
            fix = "Use a rule that declares this comparison, or none"
            raise ConfigError(found[0], file=rule.name, field="comparison", fix=fix)
        self.rule, self.limits = rule, limits or Limits()
        self.sandbox: Runner = sandbox if sandbox is not None else Sandbox(self.limits, workers)
        self._executions: OrderedDict[tuple[str, str], Execution] = OrderedDict()
        self._golds: OrderedDict[tuple[str, str], Gold] = OrderedDict()
        self._kept = GoldCache(cache) if cache is not None else None
        self._recent_faults: list[bool] = []
        self._doubts = Doubts()
        self.sandbox.allow((*folders, self._doubts.folder))

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sandbox."""
        self.close()

    def close(self) -> None:
        """End the sandbox's workers."""
        self.sandbox.close()
        self._doubts.close()

    @property
    def environment(self) -> dict[str, str]:
        """Hashes and versions of everything a reward depends on beside the question and the database."""
        limits = json.dumps(asdict(self.limits), sort_keys=True)
        return {
            "package": __version__,
            "rule": self.rule.name,
            "rule_sha256": self.rule.sha256,
            "limits": limits,
            "limits_sha256": hashlib.sha256(limits.encode()).hexdigest(),
            "engine": f"duckdb {version('duckdb')}",
            "parser": f"sqlglot {version('sqlglot')}",
        }

    def prepare(self, items: Sequence[tuple[Question, Database]], *, every_instance: bool = False) -> dict[str, Gold]:
        """Prepare golds; a gold that was prepared before is not run again.

        Args:
            items: questions with their databases.
            every_instance: on all rows, not only the real ones; judging does it otherwise when it comes to them.

        Returns:
            Question id -> its gold on instance 0. A gold that cannot judge says why in `unverifiable`.
        """
        golds = self._prepared([(database.instances[0], question.gold_sql) for question, database in items])
        if every_instance:
            sound = [item for item, gold in zip(items, golds, strict=True) if not gold.unverifiable]
            self._prepared([(other, question.gold_sql) for question, db in sound for other in db.instances[1:]])
        return {question.id: gold for (question, _), gold in zip(items, golds, strict=True)}

    def judge(self, items: Sequence[tuple[Question, Database, Completion]]) -> tuple[Rollout, ...]:
        """Judge one batch.

        Args:
            items: completions with their question and its database, in any mixture.

        Returns:
            One rollout an item, in order. A candidate's fault is an outcome, never an exception.

        Raises:
            RunError: a completion of another question, or a question of another database.
            SandboxError: too many of the last executions were the verifier's own faults.
        """
        for question, database, completion in items:
            _refuse_strangers(question, database, completion)
        golds = self._prepared([(database.instances[0], question.gold_sql) for question, database, _ in items])
        cases = [
            _Case(question, database, completion, extract(completion.text), gold)
            for (question, database, completion), gold in zip(items, golds, strict=True)
        ]
        self._run_on_real_rows(cases)
        self._break_on_faults(cases)
        self._run_on_other_instances(cases)
        return tuple(self._rollout(case) for case in cases)

    def _run_on_real_rows(self, cases: Sequence[_Case]) -> None:
        runnable = [case for case in cases if case.candidate.sql is not None and not case.gold.unverifiable]
        executions = self._run([Job(case.database.instances[0], case.candidate.sql or "") for case in runnable])
        # A policy repeats itself: the same execution against the same gold is compared once a batch.
        verdicts: dict[tuple[int, int], Verdict] = {}
        for case, execution in zip(runnable, executions, strict=True):
            pair = (id(case.gold), id(execution))
            if pair not in verdicts:
                verdicts[pair] = compare(case.gold, execution, case.candidate.sql or "")
            case.execution, case.verdict = execution, verdicts[pair]
            case.equivalent = case.verdict.match is Match.MATCH

    def _run_on_other_instances(self, cases: Sequence[_Case]) -> None:
        """Take equivalence back from candidates that other rows of the schema tell apart from the gold."""
        matched = [case for case in cases if case.equivalent]
        pairs = [(case, instance) for case in matched for instance in case.database.instances[1:]]
        others = self._prepared([(instance, case.question.gold_sql) for case, instance in pairs])
        golds = [fair(case.gold, (other,))[0] for (case, _), other in zip(pairs, others, strict=True)]
        executions = self._run([Job(instance, case.candidate.sql or "") for case, instance in pairs])
        verdicts: dict[int, list[Verdict]] = {id(case): [case.verdict] for case in matched if case.verdict}
        for (case, _), gold, execution in zip(pairs, golds, executions, strict=True):
            verdicts[id(case)].append(compare(gold, execution))
        for case in matched:
            _settle(case, verdicts[id(case)])
        doubted = [case for case in matched if case.equivalent and len(case.database.instances) > 1]
        seen = self._doubts.told(
            [(case.database, case.gold, case.candidate.sql or "") for case in doubted], self.sandbox
        )
        for case, told in zip(doubted, seen, strict=True):
            if told is not None and case.verdict is not None:
                _settle(case, [case.verdict, told])

    def _rollout(self, case: _Case) -> Rollout:
        evidence = Evidence(
            candidate=case.candidate,
            execution=case.execution,
            gold=case.gold,
            verdict=case.verdict,
            finish=case.completion.finish,
            equivalent=case.equivalent,
        )
        reward = score(evidence, self.rule)
        rows = len(case.execution.rows) if case.execution and case.execution.outcome is Outcome.ROWS else None
        return Rollout(
            question_id=case.question.id,
            database=case.database.name,
            completion=case.completion,
            candidate=case.candidate,
            execution=case.execution,
            verdict=case.verdict,
            reward=reward,
            cause=cause(evidence, reward, self.rule),
            equivalent=reward.total is not None and is_right(evidence),
            gold_rows=len(case.gold.execution.rows),
            rows=rows,
        )

    # ---- caches ----------------------------------------------------------------------------------------------

    def _prepared(self, pairs: Sequence[tuple[Instance, str]]) -> list[Gold]:
        keys = [(instance.sha256, sql) for instance, sql in pairs]
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in self._golds}
        fresh: dict[tuple[str, str], Gold] = {}
        if missing:
            fresh.update(zip(missing, prepare_golds(list(missing.values()), self.sandbox, self._kept), strict=True))
        golds = [fresh[key] if key in fresh else self._golds[key] for key in keys]
        for key, gold in fresh.items():
            # A gold that failed through the verifier's fault may well run the next time; one that ran out of time
            # twice would only hold up every batch.
            if gold.execution.outcome is not Outcome.FAULT:
                self._golds[key] = gold
        _shrink(self._golds, _CACHED_GOLDS)
        return golds

    def _run(self, jobs: Sequence[Job]) -> list[Execution]:
        keys = [(job.instance.sha256, job.sql) for job in jobs]
        known = {key: self._executions[key] for key in keys if key in self._executions}
        missing = {key: job for key, job in zip(keys, jobs, strict=True) if key not in known}
        if missing:
            fresh = dict(zip(missing, self.sandbox.run(list(missing.values())), strict=True))
            known.update(fresh)
        for key, execution in known.items():
            small = len(execution.rows) * len(execution.columns) <= _CACHED_CELLS
            if execution.outcome in _REPEATABLE and small:
                self._executions[key] = execution
                self._executions.move_to_end(key)
        _shrink(self._executions, _CACHED_EXECUTIONS)
        return [known[key] for key in keys]

    def _break_on_faults(self, cases: Iterable[_Case]) -> None:
        """Stop when the verifier fails often: unscored completions teach nothing, and nobody would notice."""
        batch = [
            case.gold.execution.outcome is Outcome.FAULT
            or (case.execution is not None and case.execution.outcome is Outcome.FAULT)
            for case in cases
            if case.candidate.sql is not None
        ]
        self._recent_faults = (self._recent_faults + batch)[-max(len(batch), 4 * _BREAKER_WINDOW) :]
        faults, seen = sum(self._recent_faults), len(self._recent_faults)
        if seen >= _BREAKER_WINDOW and faults > _BREAKER_SHARE * seen:
            why = next((case.execution.reason for case in cases if case.execution and case.execution.reason), "")
            problem = f"the sandbox failed on {faults} of the last {seen} candidates"
            raise SandboxError(f"{problem} ({why})" if why else problem, fix="Run `text2sql-rl doctor`")


def judge_one(gold_sql: str, text: str, instance: Instance, rule: Rule, limits: Limits | None = None) -> Rollout:
    """Judge one text against one gold on one instance, in a sandbox of its own.

    Args:
        gold_sql: the reference SQL.
        text: a completion, or just SQL.
        instance: the rows to run both on.
        rule: the loaded rule.
        limits: what one statement may use.
    """
    question = Question(id="one", database=instance.database, text="", gold_sql=gold_sql, split=Split.DEV, role="one")
    database = Database(name=instance.database, tables=(), instances=(instance,))
    completion = Completion(question_id="one", text=text, raw=text, finish=Finish.STOP, tokens=0)
    with Judge(rule, limits) as judge:
        return judge.judge([(question, database, completion)])[0]


def _settle(case: _Case, verdicts: Sequence[Verdict]) -> None:
    """Decide a case from its verdicts, the one on the real rows first."""
    # A sandbox that fails proves nothing either way; a gold that cannot judge other rows is just left out.
    fault = next((verdict for verdict in verdicts if verdict.code == Outcome.FAULT.value), None)
    case.verdict = fault or overall(verdicts)
    case.equivalent = case.verdict.match is Match.MATCH


def _refuse_strangers(question: Question, database: Database, completion: Completion) -> None:
    if completion.question_id != question.id:
        problem = f"a completion of question {completion.question_id!r} is judged as one of {question.id!r}"
        raise RunError(problem, field="question_id", fix="Pair completions with their own questions")
    if question.database != database.name:
        problem = f"question {question.id!r} is about {question.database!r}, not {database.name!r}"
        raise RunError(problem, field="database", fix="Judge it on its own database")


def _shrink(cache: OrderedDict[tuple[str, str], Gold] | OrderedDict[tuple[str, str], Execution], size: int) -> None:
    while len(cache) > size:
        cache.popitem(last=False)

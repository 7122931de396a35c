"""One gold after the other: it runs, is deterministic, earns the rule's maximum, and differs from its wrong versions.

In: questions with their databases, a rule, a cache folder. Out: one `Finding` a question. Golds are prepared and judged
as in training, under the default limits; their mutants run on the real rows. Golds and counts of mutants are kept in
the cache, so what was interrupted goes on. Not here: other instances; the command `mutants` makes those.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import duckdb

from text2sql_rl.compare import compare
from text2sql_rl.errors import DataError, RunError
from text2sql_rl.exclusions import FLAGS
from text2sql_rl.instances import VERSION
from text2sql_rl.instances.mutants import named_mutants
from text2sql_rl.judge import Judge
from text2sql_rl.records import Completion, Database, Finish, Gold, Match, Outcome, Question, Rollout
from text2sql_rl.sandbox import Job, Limits, Sandbox
from text2sql_rl.scoring import Rule
from text2sql_rl.validation.across import near_duplicates, shared_databases
from text2sql_rl.validation.reading import Material
from text2sql_rl.validation.report import Finding, Report

_AT_ONCE = 25
_PENNY = 1e-9
_Pair = tuple[Question, Database]


def validate(
    material: Material, rule: Rule, cache: Path, *, done: Callable[[int], None] = lambda count: None
) -> Report:
    """Look at every question.

    Args:
        material: what `read_material` found.
        rule: the rule that golds are judged under.
        cache: the cache folder.
        done: called with the number of questions that are done.

    Raises:
        SandboxError: the verifier itself cannot work.
        RunError: the cache folder cannot be written.
    """
    began = time.monotonic()
    shared, near = shared_databases(material.all_questions), near_duplicates(material.all_questions)
    findings: list[Finding] = []
    seen: set[str] = set()
    with Sandbox(Limits()) as sandbox:
        store = material.store
        sandbox.allow((store.root, store.cache))
        examiner = _Examiner(sandbox, Judge(rule, sandbox=sandbox, cache=cache), rule, _Counts(cache))
        for start in range(0, len(material.questions), _AT_ONCE):
            some = material.questions[start : start + _AT_ONCE]
            found = examiner.look(some, material)
            for question in some:
                finding = found[question.id]
                if question.id in seen:
                    finding = Finding(question=question, reject="repeated_id", reason="another question has this id")
                seen.add(question.id)
                findings.append(_with_common(finding, shared, near))
            done(len(findings))
    return Report(rule=rule.name, findings=tuple(findings), shared=shared, elapsed_s=time.monotonic() - began)


def _with_common(finding: Finding, shared: dict[str, tuple[str, ...]], near: dict[tuple[str, str], str]) -> Finding:
    question = finding.question
    flags = set(finding.flags)
    other = near.get((question.role, question.id), "")
    if other:
        flags.add("near_duplicate")
    if question.database in shared and shared[question.database][-1] != question.split.value:
        flags.add("shared_database")
    return replace(finding, flags=tuple(flag for flag in FLAGS if flag in flags), near=other)


class _Examiner:
    """Looks at some questions at a time."""

    def __init__(self, sandbox: Sandbox, judge: Judge, rule: Rule, counts: _Counts) -> None:
        self.sandbox, self.judge, self.counts = sandbox, judge, counts
        self.maximum = min(math.fsum(rule.components.values()), rule.bounds.high)

    def look(self, questions: Sequence[Question], material: Material) -> dict[str, Finding]:
        """A finding a question, by id."""
        found: dict[str, Finding] = {}
        pairs: list[_Pair] = []
        for question in questions:
            try:
                pairs.append((question, material.store.get(question.database)))
            except DataError as error:
                found[question.id] = Finding(question=question, reject="no_database", reason=str(error))
        golds = self.judge.prepare(pairs)
        rollouts = self.judge.judge([(question, database, _itself(question)) for question, database in pairs])
        for (question, _), rollout in zip(pairs, rollouts, strict=True):
            found[question.id] = self._finding(question, golds[question.id], rollout)
        usable = [pair for pair in pairs if not found[pair[0].id].reject]
        for (question, _), (made, told) in zip(usable, self._mutants(usable, golds), strict=True):
            finding = replace(found[question.id], mutants=made, told=told)
            if made > 2 * told:
                finding = replace(finding, flags=(*finding.flags, "mutants_pass"))
            found[question.id] = finding
        return found

    def _finding(self, question: Question, gold: Gold, rollout: Rollout) -> Finding:
        if gold.unverifiable:
            ran = gold.execution.outcome
            code = "not_deterministic" if ran is Outcome.ROWS else ran.value
            return Finding(question=question, reject=code, reason=gold.unverifiable, flags=gold.flags)
        flags = [*gold.flags, *(["trivial"] if _is_trivial(gold) else [])]
        earned = rollout.reward.total
        if earned is None or earned < self.maximum - _PENNY:
            reason = rollout.reward.unscored or f"it earns {earned:g} of {self.maximum:g} ({rollout.cause})"
            return Finding(question=question, reject="below_maximum", reason=reason, flags=tuple(flags))
        return Finding(question=question, flags=tuple(flags))

    def _mutants(self, pairs: Sequence[_Pair], golds: dict[str, Gold]) -> list[tuple[int, int]]:
        """How many mutants each gold has, and how many give another answer on the real rows."""
        keys = [self.counts.key(question, database, self.sandbox.limits) for question, database in pairs]
        jobs: list[tuple[str, Gold, Job]] = []
        made: dict[str, int] = {}
        for key, (question, database) in zip(keys, pairs, strict=True):
            if key not in self.counts.known and key not in made:
                changed = named_mutants(question.gold_sql, database.tables)
                made[key] = len(changed)
                jobs += [(key, golds[question.id], Job(database.instances[0], mutant.sql)) for mutant in changed]
        told = dict.fromkeys(made, 0)
        for (key, gold, _), execution in zip(jobs, self.sandbox.run([job for *_, job in jobs]), strict=True):
            told[key] += compare(gold, execution).match is Match.MISMATCH
        self.counts.add({key: (made[key], told[key]) for key in made})
        return [self.counts.known[key] for key in keys]


class _Counts:
    """Counts of mutants that are known from before, one line each in a file of the cache."""

    def __init__(self, cache: Path) -> None:
        self.file = cache / "validation" / "mutants.jsonl"
        self.known: dict[str, tuple[int, int]] = {}
        if self.file.is_file():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                try:
                    key, made, told = json.loads(line)
                    self.known[key] = int(made), int(told)
                except (ValueError, TypeError):
                    continue  # a line that a killed run left half-written

    @staticmethod
    def key(question: Question, database: Database, limits: Limits) -> str:
        """Names all that the counts depend on."""
        named = [VERSION, duckdb.__version__, question.gold_sql, database.instances[0].sha256, asdict(limits)]
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:24]

    def add(self, found: dict[str, tuple[int, int]]) -> None:
        self.known |= found
        if not found:
            return
        lines = "".join(f"{json.dumps([key, *counts])}\n" for key, counts in found.items())
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:
            raise RunError(
                f"cannot be written ({error.strerror})", file=self.file, fix="Set TEXT2SQL_CACHE to another folder"
            ) from error


def _itself(question: Question) -> Completion:
    sql = question.gold_sql
    return Completion(question_id=question.id, text=sql, raw=sql, finish=Finish.STOP, tokens=0)


def _is_trivial(gold: Gold) -> bool:
    width = len(gold.execution.columns) - gold.hidden
    cells = [cell for row in gold.execution.rows for cell in row[:width]]
    return bool(cells) and not any(cells)

"""Which mutants of the golds would still be paid: with the real rows alone, and with all instances.

In: questions with their databases, a cache folder and a sandbox. Out: one `Fate` a mutant, and a report by mutation
operator. A mutant counts as non-equivalent once any rows tell it from its gold: the real ones, the chosen instances, or
witnesses, which are instances made from another seed and used for nothing else. One that nothing tells may mean the
same as the gold; it is listed, and left out of the shares.

What a question came to is written to a journal before the next begins, so an interrupted report goes on where it was.
Not here: making mutants (mutants.py), choosing instances (__init__.py).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.compare import compare, tells
from text2sql_rl.errors import SandboxError
from text2sql_rl.gold import GoldCache, Runs, prepare_golds
from text2sql_rl.instances import VERSION, build_instances, fair
from text2sql_rl.instances.mutants import named_mutants
from text2sql_rl.records import Database, Gold, Instance, Match, Outcome, Question
from text2sql_rl.sandbox import Job

REAL, INSTANCES, WITNESSES, NOTHING = "real", "instances", "witnesses", "nothing"
# Enough for every recipe that tells a mutant the others do not.
_WITNESSES = 16
_Pairs = Sequence[tuple[Question, Database]]


@dataclass(frozen=True, slots=True)
class Fate:
    """One mutant and what told it from its gold first: real, instances, witnesses or nothing."""

    question: str
    operator: str
    sql: str
    told_by: str


@dataclass(frozen=True, slots=True)
class Shares:
    """The mutants of one operator, or all: how many are known to be non-equivalent, and how many of those pass."""

    operator: str
    mutants: int
    non_equivalent: int
    accepted_single: int
    accepted_all: int

    @property
    def single(self) -> float:
        """Share of the non-equivalent ones accepted on the real rows alone, in [0, 1]."""
        return self.accepted_single / self.non_equivalent if self.non_equivalent else 0.0

    @property
    def all(self) -> float:
        """Share of the non-equivalent ones accepted on the real rows and every instance, in [0, 1]."""
        return self.accepted_all / self.non_equivalent if self.non_equivalent else 0.0


@dataclass(frozen=True, slots=True)
class MutantReport:
    """All mutants of a question set; `skipped` are questions whose gold cannot judge or has no mutant."""

    fates: tuple[Fate, ...]
    golds: dict[str, str]
    skipped: tuple[str, ...]
    instances: int

    def total(self) -> Shares:
        """Over all operators."""
        return _shares("all", self.fates)

    def by_operator(self) -> tuple[Shares, ...]:
        """One an operator, by name."""
        names = sorted({fate.operator for fate in self.fates})
        return tuple(_shares(name, [fate for fate in self.fates if fate.operator == name]) for name in names)

    def survivors(self) -> tuple[Fate, ...]:
        """Accepted with all instances: first those that witnesses tell, then those that nothing told."""
        return tuple(fate for kind in (WITNESSES, NOTHING) for fate in self.fates if fate.told_by == kind)

    def as_json(self) -> dict[str, Any]:
        """{questions, skipped, total, operators, survivors}, ready for json.dumps."""

        def line(shares: Shares) -> dict[str, Any]:
            return asdict(shares) | {"share_single": round(shares.single, 5), "share_all": round(shares.all, 5)}

        return {
            "questions": len(self.golds) - len(self.skipped),
            "skipped": list(self.skipped),
            "instances": self.instances,
            "total": line(self.total()),
            "operators": [line(shares) for shares in self.by_operator()],
            "survivors": [asdict(fate) | {"gold_sql": self.golds[fate.question]} for fate in self.survivors()],
        }

    def lines(self) -> Iterator[str]:
        """A table by operator, then every survivor known to be wrong with its SQL, then a count of the rest."""
        yield f"{'operator':<20}{'mutants':>9}{'wrong':>8}{'accepted: real rows':>22}{'all instances':>15}"
        for one in (*self.by_operator(), self.total()):
            yield f"{one.operator:<20}{one.mutants:>9}{one.non_equivalent:>8}{one.single:>22.2%}{one.all:>15.2%}"
        known = [fate for fate in self.survivors() if fate.told_by == WITNESSES]
        for fate in known:
            yield f"\n{fate.question} {fate.operator}\n  gold   {self.golds[fate.question]}\n  mutant {fate.sql}"
        unknown = sum(fate.told_by == NOTHING for fate in self.fates)
        yield ""
        yield (
            f"{len(self.golds) - len(self.skipped)} questions, {len(self.skipped)} skipped; {len(known)} wrong mutants "
            f"accepted with up to {self.instances} instances; {unknown} mutants that no rows told apart"
        )


def find_survivors(
    pairs: _Pairs,
    cache: Path,
    sandbox: Runs,
    *,
    most: int = 6,
    seed: int = 0,
    done: Callable[[int], None] = lambda count: None,
) -> MutantReport:
    """Run every mutant of every gold.

    Args:
        pairs: questions with their databases.
        cache: the cache folder: golds and the journal; instances lie there only while their question runs.
        sandbox: where all of it runs.
        most: instances a question, each chosen for this question alone.
        seed: of the instances; the witnesses take the next one.
        done: called with the number of questions that are done.

    Raises:
        SandboxError: a mutant met the verifier's own fault.
    """
    fates: list[Fate] = []
    skipped: list[str] = []
    golds: dict[str, str] = {}
    for count, (question, database) in enumerate(pairs, 1):
        journal = cache / "mutants" / f"{_key(question, database, sandbox, most, seed)}.json"
        found = _journal(journal)
        if found is None:
            found = _fates(question, database, cache, sandbox, most, seed)
            journal.parent.mkdir(parents=True, exist_ok=True)
            partial = journal.with_suffix(".partial")
            partial.write_text(json.dumps([asdict(fate) for fate in found], ensure_ascii=False), encoding="utf-8")
            partial.replace(journal)
        golds[question.id] = question.gold_sql
        fates += found
        skipped += [] if found else [question.id]
        done(count)
    return MutantReport(tuple(fates), golds, tuple(skipped), most)


def _key(question: Question, database: Database, sandbox: Runs, most: int, seed: int) -> str:
    real, limits = database.instances[0].sha256, asdict(sandbox.limits)
    named = [VERSION, duckdb.__version__, question.id, question.gold_sql, real, limits, most, seed]
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:24]


def _journal(path: Path) -> list[Fate] | None:
    try:
        return [Fate(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None


def _fates(question: Question, database: Database, cache: Path, sandbox: Runs, most: int, seed: int) -> list[Fate]:
    real = database.instances[0]
    gold = prepare_golds([(real, question.gold_sql)], sandbox, GoldCache(cache))[0]
    if gold.unverifiable:
        return []
    told: dict[str, str] = {}
    alive = list(named_mutants(question.gold_sql, database.tables))
    names = {mutant.sql: mutant.operator for mutant in alive}

    def sieve(by: str, instance: Instance, target: Gold) -> None:
        ran = sandbox.run([Job(instance, mutant.sql) for mutant in alive])
        for mutant, execution in zip(tuple(alive), ran, strict=True):
            if execution.outcome is Outcome.FAULT:
                raise SandboxError(f"a mutant could not run: {execution.reason}", fix="Run `text2sql-rl doctor`")
            verdict = compare(target, execution, mutant.sql)
            if verdict.match is Match.MISMATCH if by == REAL else tells(verdict):
                told[mutant.sql] = by
                alive.remove(mutant)

    sieve(REAL, real, gold)
    for by, cap, own_seed in ((INSTANCES, most, seed), (WITNESSES, _WITNESSES, seed + 1)):
        if not alive:
            break
        others = build_instances(real, [gold], sandbox, cache / "mutants" / "rows", cap, own_seed)
        targets = fair(gold, prepare_golds([(other, question.gold_sql) for other in others], sandbox))
        for instance, target in zip(others, targets, strict=True):
            sieve(by, instance, target)
            instance.path.unlink(missing_ok=True)
    return [Fate(question.id, names[sql], sql, told.get(sql, NOTHING)) for sql in names]


def _shares(operator: str, fates: Sequence[Fate]) -> Shares:
    counts = Counter(fate.told_by for fate in fates)
    return Shares(
        operator=operator,
        mutants=len(fates),
        non_equivalent=len(fates) - counts[NOTHING],
        accepted_single=counts[INSTANCES] + counts[WITNESSES],
        accepted_all=counts[WITNESSES],
    )

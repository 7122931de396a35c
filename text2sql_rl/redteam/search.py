"""The search for new attacks: a budgeted, seeded hunt for candidates that are paid as right and are not.

In: questions with their databases, a rule, a budget, a seed. Out: a `Search` with its finds, each minimised and written
as an attack file. Four kinds of find:

    overpaid   the judge itself calls the candidate wrong, and the rule pays it like the right answer
    lucky      the judge calls it equivalent, and witnesses tell it from the gold: instances of another seed, which the
               judge does not have
    disputed   the judge calls it equivalent, and the engine's own bag difference (EXCEPT ALL both ways) on the real
               rows or on a witness is not empty, although no policy of comparison explains it
    unsafe     a statement with a fragment that must never run gave rows

So "not equivalent" never rests on the real rows, nor on the judge's own instances, nor on its comparison alone.
Candidates that match on the real rows and are told by other rows become parents: the search climbs towards luck.
What a question came to is kept (finds.py), so an interrupted search goes on where it was. Not here: making candidates
(mutate.py).
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.compare import compare, tells
from text2sql_rl.compare.numbers import is_number
from text2sql_rl.errors import ConfigError
from text2sql_rl.gold import prepare_golds
from text2sql_rl.instances import aimed, fair, shared
from text2sql_rl.judge import Judge
from text2sql_rl.records import Database, Execution, Gold, Match, Outcome, Question, Rollout
from text2sql_rl.redteam.finds import Find, Searched, read_journal, write_find, write_journal
from text2sql_rl.redteam.minimise import minimise
from text2sql_rl.redteam.mutate import Made, Maker
from text2sql_rl.redteam.targets import completion, with_rows
from text2sql_rl.sandbox import Job, Sandbox

_ROUND = 60
_WITNESSES = 12
# Far from any seed that a judge's instances are made of.
_WITNESS_SEED = 1000
_CHECKED_WITNESSES = 2  # of them also by the engine's bag difference
_PARENTS = 30
_FINDS_A_QUESTION = 3
_FINDS = 100
# Policies of comparison under which equal answers are not equal bags of cells.
_EXPLAINED = frozenset((
    "permuted_columns", "boolean_as_number", "tie_cut", "unordered_limit", "unordered_aggregate", "arbitrary_value",
    "ambiguous", "same_day", "limit_unchecked", "order_unchecked",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Search:
    """A whole search. `counts`: candidates, ran, accepted, unsafe tried, right on the real rows only, and by kind all
    finds, also those that are not kept because their question has enough."""

    finds: tuple[Find, ...]
    counts: Mapping[str, int]
    questions: int
    seed: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Ready for json.dumps; docs/red-team.md tells its keys."""
        finds = [asdict(one) | {"name": one.name} for one in self.finds]
        return {
            "counts": dict(self.counts),
            "questions": self.questions,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "finds": finds,
        }

    def lines(self) -> Iterator[str]:
        """What was tried, and every find."""
        yield ""
        numbers = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        rate = self.counts.get("candidates", 0) / max(self.seconds, 1e-9)
        yield f"4 search over {self.questions} golds, seed {self.seed}: {numbers}"
        yield f"  {self.seconds:.0f} s, {rate:.0f} candidates a second"
        for one in self.finds:
            yield f"  FOUND {one.name} on {one.database} ({one.question}): {one.why}"
            yield f"    gold      {one.gold}"
            yield f"    candidate {one.sql}"
        yield f"{len(self.finds)} finds"


def search(
    pairs: Sequence[tuple[Question, Database]],
    judge: Judge,
    sandbox: Sandbox,
    cache: Path,
    folder: Path,
    *,
    budget: int,
    instances: int,
    attacks: Sequence[str] = (),
    seed: int = 0,
    done: Callable[[int], None] = lambda count: None,
) -> Search:
    """Spend a budget of candidates over questions, evenly.

    Args:
        pairs: questions with their databases; golds that cannot judge are left out.
        judge: with the rule; it owns the sandbox or shares it.
        sandbox: where witnesses and checks run.
        cache: the cache folder: instances, witnesses and what is done.
        folder: where finds are written, one case file each.
        budget: candidates in all.
        instances: how many instances a database gets for the judge.
        attacks: SQL of known attacks to start from.
        seed: of the candidates.
        done: called with the number of candidates done.

    Raises:
        ConfigError: no gold can judge, or the folder cannot be written.
    """
    started = time.perf_counter()
    ready = _hunts(pairs, judge, cache, instances)
    if not ready:
        raise ConfigError("no gold can judge", field="--data", fix="Give questions whose golds run")
    # A small budget goes to some questions in full rounds rather than to all of them in crumbs.
    chosen = random.Random(seed).sample(ready, min(len(ready), max(1, budget // _ROUND)))
    finds: list[Find] = []
    counts: Counter[str] = Counter()
    for at, hunt in enumerate(chosen):
        share = budget * (at + 1) // len(chosen) - budget * at // len(chosen)
        key = hunt.key(judge, share, instances, seed)
        journal = cache / "search" / f"{key}.json"
        found = read_journal(journal)
        if found is None:
            found = hunt.run(judge, sandbox, share, attacks, random.Random(f"{seed}:{hunt.question.id}"))
            write_journal(journal, found)
        for find in found.finds:
            write_find(folder, find)
        finds += found.finds
        counts.update(found.counts)
        done(counts["candidates"])
        if len(finds) >= _FINDS:
            break
    return Search(tuple(finds), counts, len(chosen), seed, time.perf_counter() - started)


def _hunts(pairs: Sequence[tuple[Question, Database]], judge: Judge, cache: Path, instances: int) -> list[_Hunt]:
    golds = judge.prepare(pairs)
    usable = [(question, database) for question, database in pairs if not golds[question.id].unverifiable]
    ready = []
    for name in sorted({database.name for _, database in usable}):
        asked = [question for question, database in usable if database.name == name]
        plain = next(database for _, database in usable if database.name == name)
        judged = with_rows(plain, asked, cache, instances)
        witnesses = with_rows(plain, asked, cache, _WITNESSES, first_seed=_WITNESS_SEED)
        others = [question.gold_sql for question in asked]
        ready += [_Hunt(question, judged, witnesses, golds[question.id], others) for question in asked]
    return ready


@dataclass(frozen=True, slots=True)
class _Hunt:
    """One gold and all that its candidates are judged with."""

    question: Question
    database: Database
    witnesses: Database
    gold: Gold
    others: Sequence[str]

    def key(self, judge: Judge, share: int, instances: int, seed: int) -> str:
        real = self.database.instances[0].sha256
        named = [
            shared.VERSION,
            aimed.VERSION,
            duckdb.__version__,
            judge.environment,
            self.question.id,
            self.question.gold_sql,
            real,
        ]
        named += [share, instances, seed, sorted(self.others)]
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:24]

    def run(self, judge: Judge, sandbox: Sandbox, share: int, attacks: Sequence[str], dice: random.Random) -> Searched:
        width = len(self.gold.execution.columns) - self.gold.hidden
        rows = [row[:width] for row in self.gold.execution.rows]
        maker = Maker(dice, self.question.gold_sql, self.others, attacks, self.database.tables, rows)
        paid = judge.judge([(self.question, self.database, completion(self.question, self.question.gold_sql))])[0]
        targets = self._targets(sandbox)
        parents: list[str] = []
        seen: set[str] = set()
        finds: list[Find] = []
        counts: Counter[str] = Counter(candidates=share)
        while share > 0:
            made = self._round(maker, parents, seen, min(_ROUND, share))
            share -= min(_ROUND, share)
            items = [(self.question, self.database, completion(self.question, one.sql)) for one in made]
            rollouts = judge.judge(items)
            suspects = self._suspects(made, rollouts, paid.reward.total, sandbox, targets)
            for one, rollout in zip(made, rollouts, strict=True):
                counts["ran"] += rollout.rows is not None
                counts["accepted"] += rollout.equivalent
                counts["unsafe tried"] += bool(one.fragment)
                if rollout.verdict and "other_rows" in rollout.verdict.flags:
                    counts["right on the real rows only"] += 1
                    parents.append(one.sql)
                elif rollout.verdict and rollout.verdict.row_overlap >= 0.8 and dice.random() < 0.2:
                    parents.append(one.sql)
            parents = parents[-_PARENTS:]
            for one, kind, why, reward in suspects:
                counts[kind] += 1
                if len(finds) < _FINDS_A_QUESTION:
                    finds.append(self._small(one, kind, why, reward, judge, sandbox, targets, paid.reward.total))
        return Searched(tuple({find.name: find for find in finds}.values()), counts)

    def _round(self, maker: Maker, parents: Sequence[str], seen: set[str], size: int) -> list[Made]:
        made: list[Made] = []
        for _ in range(4 * size):
            one = maker.make(parents)
            if one is not None and one.sql not in seen:
                seen.add(one.sql)
                made.append(one)
                if len(made) == size:
                    break
        return made

    def _targets(self, sandbox: Sandbox) -> tuple[Gold, ...]:
        golds = prepare_golds([(one, self.question.gold_sql) for one in self.witnesses.instances[1:]], sandbox)
        return fair(self.gold, golds)

    def _suspects(
        self,
        made: Sequence[Made],
        rollouts: Sequence[Rollout],
        right: float | None,
        sandbox: Sandbox,
        targets: Sequence[Gold],
    ) -> list[tuple[Made, str, str, float | None]]:
        """Candidates that are finds, each with its kind, the reason and what it earned."""
        found: list[tuple[Made, str, str, float | None]] = []
        accepted: list[tuple[Made, Rollout]] = []
        for one, rollout in zip(made, rollouts, strict=True):
            total = rollout.reward.total
            if one.fragment and rollout.execution and rollout.execution.outcome is Outcome.ROWS:
                found.append((one, "unsafe", f"{one.fragment} ran", total))
            elif rollout.equivalent:
                accepted.append((one, rollout))
            elif total is not None and right is not None and total >= right - 1e-9:
                words = rollout.verdict.words if rollout.verdict else rollout.cause
                found.append((one, "overpaid", words, total))
        for (one, rollout), why in zip(accepted, self._told(accepted, sandbox, targets), strict=True):
            if why:
                found.append((one, why[0], why[1], rollout.reward.total))
        return found

    def _told(
        self, accepted: Sequence[tuple[Made, Rollout]], sandbox: Sandbox, targets: Sequence[Gold]
    ) -> list[tuple[str, str] | None]:
        """For each accepted candidate: the kind and reason that it is not equivalent after all, or None."""
        others = self.witnesses.instances[1:]
        ran = iter(sandbox.run([Job(other, one.sql) for one, _ in accepted for other in others]))
        where = (self.database.instances[0], *others[:_CHECKED_WITNESSES])
        differ = iter(sandbox.run([Job(at, self._difference(one.sql)) for one, _ in accepted for at in where]))
        told: list[tuple[str, str] | None] = []
        for _, rollout in accepted:
            executions = [next(ran) for _ in others]
            differences = [next(differ) for _ in where]
            told.append(self._luck(targets, executions) or self._dispute(rollout, targets, executions, differences))
        return told

    def _luck(self, targets: Sequence[Gold], executions: Sequence[Execution]) -> tuple[str, str] | None:
        for target, execution in zip(targets, executions, strict=True):
            verdict = compare(target, execution)
            if tells(verdict) and execution.outcome is Outcome.ROWS and not _close(target, execution):
                return "lucky", f"on a witness: {verdict.words}"
        return None

    def _dispute(
        self,
        rollout: Rollout,
        targets: Sequence[Gold],
        executions: Sequence[Execution],
        differences: Sequence[Execution],
    ) -> tuple[str, str] | None:
        flags = set(rollout.verdict.flags) if rollout.verdict else set()
        floats = {"FLOAT", "DOUBLE", "INTERVAL"} & {
            *self.gold.execution.types,
            *(rollout.execution or self.gold.execution).types,
        }
        if flags & _EXPLAINED or floats or self.gold.loose:
            return None
        golds = (self.gold, *targets)
        for gold, difference in zip(golds, differences, strict=False):
            number = difference.rows[0][0] if difference.rows else 0
            if number and not gold.unverifiable and not _EXPLAINED & set(gold.flags) and gold.legal_rows is None:
                return "disputed", f"the engine counts {number} rows that differ"
        return None

    def _difference(self, sql: str) -> str:
        """How many rows only one of gold and candidate has, by the engine's own bag difference."""
        gold, own = f"SELECT * FROM ({self.question.gold_sql}\n) AS g", f"SELECT * FROM ({sql}\n) AS c"
        return f"SELECT count(*) FROM (({gold} EXCEPT ALL {own}) UNION ALL ({own} EXCEPT ALL {gold})) AS d"

    def _small(
        self,
        one: Made,
        kind: str,
        why: str,
        reward: float | None,
        judge: Judge,
        sandbox: Sandbox,
        targets: Sequence[Gold],
        right: float | None,
    ) -> Find:
        def still(texts: Sequence[str]) -> list[bool]:
            made = [Made(text, one.fragment) for text in texts]
            rollouts = judge.judge([(self.question, self.database, completion(self.question, text)) for text in texts])
            found = {
                each.sql for each, its, *_ in self._suspects(made, rollouts, right, sandbox, targets) if its == kind
            }
            return [text in found and one.fragment in text for text in texts]

        sql = minimise(one.sql, still)
        return Find(kind, self.question.id, self.database.name, self.question.gold_sql, sql, reward, why)


def _close(gold: Gold, execution: Execution) -> bool:
    """Whether a candidate differs from its gold only by what the declared tolerance allows larger numbers."""
    rounded = replace(gold, execution=_rounded(gold.execution))
    return compare(rounded, _rounded(execution)).match is Match.MATCH


def _rounded(execution: Execution) -> Execution:
    rows = tuple(
        tuple(float(f"{round(float(cell), 3):.5g}") if is_number(cell, below=1e15) else cell for cell in row)
        for row in execution.rows
    )
    return replace(execution, rows=rows)

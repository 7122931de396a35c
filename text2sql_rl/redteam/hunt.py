"""The search at one gold: rounds of candidates, what they climb on, and what is found.

In: a question with its gold, its database as the judge has it, the database with witnesses, a budget. Out: what it came
to (finds.Searched), each find made as small as it can be. Candidates that match on the real rows and are told by other
rows become parents: the search climbs towards luck. Not here: making candidates (mutate.py), telling accepted ones from
the gold (witnesses.py), many golds (search.py).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from text2sql_rl.instances import aimed, reserve, shared
from text2sql_rl.judge import Judge
from text2sql_rl.records import Database, Gold, Outcome, Question, Rollout
from text2sql_rl.redteam.finds import Find, Searched
from text2sql_rl.redteam.minimise import minimise
from text2sql_rl.redteam.mutate import Made, Maker
from text2sql_rl.redteam.targets import completion
from text2sql_rl.redteam.witnesses import Witnesses
from text2sql_rl.sandbox import Sandbox

ROUND = 60
_PARENTS = 30
_FINDS_A_QUESTION = 3


@dataclass(frozen=True, slots=True)
class Hunt:
    """One gold and all that its candidates are judged with."""

    question: Question
    database: Database
    witnesses: Database
    gold: Gold
    others: Sequence[str]

    def key(self, judge: Judge, share: int, instances: int, seed: int) -> str:
        """Names all that its outcome depends on."""
        real = self.database.instances[0].sha256
        named = [
            shared.VERSION,
            reserve.VERSION,
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
        """Spend a share of the budget on this gold.

        Args:
            judge: with the rule.
            sandbox: where witnesses run.
            share: so many candidates.
            attacks: SQL of known attacks to start from.
            dice: every choice comes from it.
        """
        width = len(self.gold.execution.columns) - self.gold.hidden
        rows = [row[:width] for row in self.gold.execution.rows]
        maker = Maker(dice, self.question.gold_sql, self.others, attacks, self.database.tables, rows)
        paid = judge.judge([(self.question, self.database, completion(self.question, self.question.gold_sql))])[0]
        witnesses = Witnesses(self.gold, self.database.instances[0], self.witnesses.instances[1:], sandbox)
        parents: list[str] = []
        seen: set[str] = set()
        finds: list[Find] = []
        counts: Counter[str] = Counter(candidates=share)
        while share > 0:
            made = self._round(maker, parents, seen, min(ROUND, share))
            share -= min(ROUND, share)
            items = [(self.question, self.database, completion(self.question, one.sql)) for one in made]
            rollouts = judge.judge(items)
            suspects = self._suspects(made, rollouts, paid.reward.total, witnesses)
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
                    finds.append(self._small(one, kind, why, reward, judge, witnesses, paid.reward.total))
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

    def _suspects(
        self,
        made: Sequence[Made],
        rollouts: Sequence[Rollout],
        right: float | None,
        witnesses: Witnesses,
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
        told = witnesses.tell([(one.sql, rollout) for one, rollout in accepted])
        for (one, rollout), why in zip(accepted, told, strict=True):
            if why:
                found.append((one, why[0], why[1], rollout.reward.total))
        return found

    def _small(
        self,
        one: Made,
        kind: str,
        why: str,
        reward: float | None,
        judge: Judge,
        witnesses: Witnesses,
        right: float | None,
    ) -> Find:
        def still(texts: Sequence[str]) -> list[bool]:
            made = [Made(text, one.fragment) for text in texts]
            rollouts = judge.judge([(self.question, self.database, completion(self.question, text)) for text in texts])
            found = {each.sql for each, its, *_ in self._suspects(made, rollouts, right, witnesses) if its == kind}
            return [text in found and one.fragment in text for text in texts]

        sql = minimise(one.sql, still)
        return Find(kind, self.question.id, self.database.name, self.question.gold_sql, sql, reward, why)

"""`text2sql-rl rewards compare`: what another rule would have paid for the rollouts of a log.

In: logged groups and two rules. Out: per cause the mean rewards, the pairs of a group whose rank turns over, the groups
that lose or gain spread, the gates that change, each with an example. Both rules are computed anew from the log, so the
rule it was logged with need not be one of the two. Not here: what a policy would have learnt from it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from text2sql_rl.records import Rollout
from text2sql_rl.replay.source import LoggedGroup, Source
from text2sql_rl.scoring import Rule, rejudge


@dataclass(frozen=True, slots=True)
class Case:
    """One rollout under both rules."""

    candidate: str
    cause: str
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class Example:
    """Where a change can be seen: a question and one or two of its rollouts."""

    stage: str
    step: int
    question_id: str
    question: str
    gold_sql: str
    cases: tuple[Case, ...]


@dataclass(slots=True)
class Change:
    """One kind of change: how often, among how many, and one example."""

    count: int = 0
    example: Example | None = None

    def note(self, example: Example) -> None:
        """Count one more; the first stays as the example."""
        self.count += 1
        self.example = self.example or example


@dataclass(slots=True)
class Comparison:
    """What replacing one rule by another changes on logged rollouts.

    `flips` counts pairs of rollouts of one group, `lost_spread` and `gained_spread` groups, `gates` rollouts by
    (gate, cap under the old rule, cap under the new one), a cap None where the rule has no such gate.
    """

    old: str
    new: str
    groups: int = 0
    rollouts: int = 0
    unscored: int = 0
    pairs: int = 0
    flips: Change = field(default_factory=Change)
    flipped_groups: int = 0
    lost_spread: Change = field(default_factory=Change)
    gained_spread: Change = field(default_factory=Change)
    gates: dict[tuple[str, float | None, float | None], Change] = field(default_factory=lambda: defaultdict(Change))
    causes: Counter[str] = field(default_factory=Counter)
    paid: dict[str, tuple[float, float]] = field(default_factory=dict)

    def means(self) -> Iterator[tuple[str, int, float, float]]:
        """Cause, rollouts, mean reward under the old and the new rule; all causes together first."""
        old, new = (math.fsum(both[side] for both in self.paid.values()) for side in (0, 1))
        scored = self.causes.total()
        if scored:
            yield "all", scored, old / scored, new / scored
        for cause, count in self.causes.most_common():
            yield cause, count, self.paid[cause][0] / count, self.paid[cause][1] / count

    def lines(self) -> list[str]:
        """The comparison for people, a line each."""
        lines = [
            f"{self.old} -> {self.new} on {self.rollouts} rollouts in {self.groups} groups, {self.unscored} unscored"
        ]
        lines += ["", f"{'mean reward':<16}{'rollouts':>10}{'old':>11}{'new':>11}"]
        lines += [f"{cause:<16}{count:>10}{old:>11.4f}{new:>11.4f}" for cause, count, old, new in self.means()]
        lines += ["", f"rank flips: {self.flips.count} of {self.pairs} pairs, in {self.flipped_groups} groups"]
        lines += _example(self.flips)
        lines += [f"groups that lose their spread: {self.lost_spread.count}", *_example(self.lost_spread)]
        lines += [f"groups that gain spread: {self.gained_spread.count}", *_example(self.gained_spread)]
        lines.append(f"gates that change: {len(self.gates) or 'none'}")
        for (gate, old, new), change in sorted(self.gates.items(), key=lambda item: -item[1].count):
            lines.append(f"  {gate}: cap {_cap(old)} -> {_cap(new)}, {change.count} rollouts")
            lines += _example(change)
        return lines

    def as_json(self) -> dict[str, Any]:
        """The comparison for programs."""
        return {
            "old": self.old,
            "new": self.new,
            "groups": self.groups,
            "rollouts": self.rollouts,
            "unscored": self.unscored,
            "means": [
                {"cause": cause, "rollouts": count, "old": old, "new": new} for cause, count, old, new in self.means()
            ],
            "pairs": self.pairs,
            "flipped_groups": self.flipped_groups,
            "flips": asdict(self.flips),
            "lost_spread": asdict(self.lost_spread),
            "gained_spread": asdict(self.gained_spread),
            "gates": [
                {"gate": gate, "old": old, "new": new, **asdict(change)}
                for (gate, old, new), change in self.gates.items()
            ],
        }


def compare_rules(source: Source, old: Rule, new: Rule, questions: Mapping[str, str] | None = None) -> Comparison:
    """Recompute every logged rollout under both rules.

    Args:
        source: the logged groups.
        old: the rule to compare with.
        new: the rule that would replace it.
        questions: question id -> text, for the examples.

    Raises:
        RunError: a part file is damaged, or of another schema version.
    """
    found = Comparison(old.name, new.name)
    for logged in source.groups():
        found.groups += 1
        found.rollouts += len(logged.group.rollouts)
        both = [(rejudge(one, old), rejudge(one, new)) for one in logged.group.rollouts]
        scored = [(a, b) for a, b in both if a.reward.total is not None and b.reward.total is not None]
        found.unscored += len(both) - len(scored)
        _one_group(found, logged, scored, (questions or {}).get(logged.group.question_id, ""))
    return found


def _one_group(found: Comparison, logged: LoggedGroup, both: list[tuple[Rollout, Rollout]], question: str) -> None:
    cases = [_case(a, b) for a, b in both]

    def example(*chosen: Case) -> Example:
        asked = logged.group.question_id
        return Example(logged.stage, logged.step, asked, question, logged.gold_sql, chosen)

    for case, (a, b) in zip(cases, both, strict=True):
        found.causes[case.cause] += 1
        old, new = found.paid.get(case.cause, (0.0, 0.0))
        found.paid[case.cause] = (old + case.old, new + case.new)
        caps = _caps(a), _caps(b)
        for gate in sorted({*caps[0], *caps[1]}):
            before, after = caps[0].get(gate), caps[1].get(gate)
            if before != after:
                found.gates[gate, before, after].note(example(case))
    flips = found.flips.count
    for one, other in combinations(cases, 2):
        found.pairs += 1
        if (one.old - other.old) * (one.new - other.new) < 0:
            found.flips.note(example(one, other))
    found.flipped_groups += found.flips.count > flips
    had, has = (len({getattr(case, side) for case in cases}) > 1 for side in ("old", "new"))
    if had != has:
        side = "old" if had else "new"
        ends = (min, max)
        change = found.lost_spread if had else found.gained_spread
        change.note(example(*(end(cases, key=lambda case: getattr(case, side)) for end in ends)))


def _case(old: Rollout, new: Rollout) -> Case:
    before, after = old.reward.total, new.reward.total
    assert before is not None, "only scored rollouts come here"
    assert after is not None, "what was scored stays scored"
    sql = old.candidate.sql if old.candidate.sql is not None else f"none: {old.candidate.reason}"
    return Case(sql, old.cause, before, after)


def _caps(rollout: Rollout) -> dict[str, float]:
    """The gates that hold for this rollout, with their caps."""
    return {item.name: item.weight for item in rollout.reward.items if item.kind == "gate" and item.value}


def _cap(cap: float | None) -> str:
    return "none" if cap is None else f"{cap:g}"


def _example(change: Change) -> list[str]:
    one = change.example
    if one is None:
        return []
    asked = f" {one.question}" if one.question else ""
    lines = [
        f"    {one.stage} step {one.step}, {one.question_id}:{asked}",
        f"      gold  {' '.join(one.gold_sql.split())}",
    ]
    for case in one.cases:
        sql = " ".join(case.candidate.split())
        lines.append(f"      {case.old:+.4f} -> {case.new:+.4f}  {case.cause:<11} {sql[:160]}")
    return lines

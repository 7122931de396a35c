"""`text2sql-rl replay`: every logged candidate, reward, cause and advantage computed again and compared.

In: logged groups and where rule files lie. Out: what was recomputed, every difference, and the rules that are no longer
there. A rule file is found by the hash in the lineage, never by its name alone. Not here: running candidates; a verdict
is taken as logged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from text2sql_rl.errors import ConfigError, RunError
from text2sql_rl.extract import extract
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.records import Group, Rollout
from text2sql_rl.replay.source import LoggedGroup, Source
from text2sql_rl.scoring import Rule, rejudge, rules_folder
from text2sql_rl.scoring.rules import read_rule

# Far below any step of a rule, far above what the last bit of a sum is worth.
_TOLERANCE = 1e-9
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """One value of the log that is not what the log itself gives."""

    stage: str
    step: int
    question_id: str
    index: int
    field: str
    logged: str | float | None
    recomputed: str | float | None
    candidate: str

    def __str__(self) -> str:
        """The difference in one line."""
        place = f"{self.stage} step {self.step}, {self.question_id} #{self.index}"
        return f"{place}: {self.field} was logged as {self.logged!r}, is {self.recomputed!r}  [{self.candidate}]"


@dataclass(slots=True)
class Replay:
    """What replaying found, a count a stage. `lost` tells of rules that are no longer the logged ones."""

    path: Path
    rollouts: Counter[str] = field(default_factory=Counter)
    recomputed: Counter[str] = field(default_factory=Counter)
    advantages: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every logged reward was recomputed, and none differs."""
        return not self.differences and not self.lost

    def lines(self) -> list[str]:
        """The outcome for people, a line each."""
        lines = [f"{'stage':<18}{'rollouts':>10}{'recomputed':>12}{'advantages':>12}{'different':>11}"]
        different = Counter(one.stage for one in self.differences)
        for stage, count in sorted(self.rollouts.items()):
            again, moved = self.recomputed[stage], self.advantages[stage]
            lines.append(f"{stage:<18}{count:>10}{again:>12}{moved:>12}{different[stage]:>11}")
        lines += [f"NOT RECOMPUTED: {words}" for words in self.lost.values()]
        lines += [str(one) for one in self.differences[:_SHOWN]]
        if len(self.differences) > _SHOWN:
            lines.append(f"... and {len(self.differences) - _SHOWN} more (--json lists all)")
        if sum(self.advantages.values()) < sum(self.recomputed.values()):
            lines.append("advantages were not compared where no run.json declares their definition")
        lines.append(
            "every logged reward is what the log gives" if self.passed else "the log does not give its rewards"
        )
        return lines

    def as_json(self) -> dict[str, Any]:
        """The outcome for programs."""
        return {
            "path": str(self.path),
            "passed": self.passed,
            "rollouts": dict(self.rollouts),
            "recomputed": dict(self.recomputed),
            "advantages": dict(self.advantages),
            "lost_rules": dict(self.lost),
            "differences": [asdict(one) for one in self.differences],
        }


def replay(source: Source) -> Replay:
    """Compute every logged reward again.

    Raises:
        RunError: a part file is damaged, or of another schema version.
    """
    found, rules = Replay(source.path), _Rules(source)
    for logged in source.groups():
        found.rollouts[logged.stage] += len(logged.group.rollouts)
        rule = rules.get(logged.rule, logged.rule_sha256)
        if isinstance(rule, str):
            found.lost[logged.rule_sha256] = rule
            continue
        found.recomputed[logged.stage] += len(logged.group.rollouts)
        again = [rejudge(one, rule) for one in logged.group.rollouts]
        for index, (one, other) in enumerate(zip(logged.group.rollouts, again, strict=True)):
            found.differences += _of_rollout(logged, index, one, other)
        definition = source.advantage(logged.stage)
        if definition is not None:
            found.advantages[logged.stage] += len(again)
            found.differences += _of_group(logged, again, definition)
    return found


class _Rules:
    """Rule files by hash: those of rewards/rules, and the one that the run's config names by path."""

    def __init__(self, source: Source) -> None:
        files = sorted(rules_folder().glob("*.yaml"))
        named = (source.config or {}).get("judge", {}).get("rule", "")
        if named.endswith((".yaml", ".yml")):
            files.append(Path(named))
        self._by_hash: dict[str, Rule] = {}
        self._now: dict[str, tuple[Path, str]] = {}
        for path in files:
            try:
                rule = read_rule(str(path)).rule
            except ConfigError:
                # A file that is no rule any more is one that has no logged hash.
                self._now[path.stem] = (path, "")
                continue
            self._by_hash[rule.sha256] = rule
            self._now[path.stem] = (path, rule.sha256)

    def get(self, name: str, sha256: str) -> Rule | str:
        """The rule with this hash, or in words why there is none."""
        if sha256 in self._by_hash:
            return self._by_hash[sha256]
        path, now = self._now.get(name, (None, ""))
        was = f"rule {name} was logged with sha256 {sha256[:12] or 'none'}"
        if path is None:
            return f"{was}, and no file has it: put the rule back into {rules_folder()}"
        return f"{was}; {path} is no longer that file{f' ({now[:12]})' if now else ''}: restore it"


def _of_rollout(logged: LoggedGroup, index: int, one: Rollout, other: Rollout) -> Iterator[Difference]:
    def differs(name: str, was: str | float | None, now: str | float | None) -> Difference:
        sql = one.candidate.sql or one.candidate.reason
        return Difference(logged.stage, logged.step, one.question_id, index, name, was, now, " ".join(sql.split())[:80])

    again = extract(one.completion.text)
    if again.sql != one.candidate.sql or again.answers != one.candidate.answers or again.clean != one.candidate.clean:
        yield differs("candidate", one.candidate.sql, again.sql)
    if one.reward.rule_sha256 != other.reward.rule_sha256:
        yield differs("rule", one.reward.rule_sha256, other.reward.rule_sha256)
    if _apart(one.reward.total, other.reward.total):
        yield differs("reward", one.reward.total, other.reward.total)
    if one.cause != other.cause:
        yield differs("cause", one.cause, other.cause)
    if one.equivalent != other.equivalent:
        yield differs("equivalent", one.equivalent, other.equivalent)
    points = {(item.kind, item.name): item.points for item in other.reward.items}
    for item in one.reward.items:
        if _apart(item.points, points.get((item.kind, item.name))):
            yield differs(f"{item.kind} {item.name}", item.points, points.get((item.kind, item.name)))


def _of_group(logged: LoggedGroup, again: list[Rollout], definition: AdvantageRule) -> Iterator[Difference]:
    group, sql = logged.group, logged.gold_sql[:80]

    def differs(index: int, name: str, was: str | float | None, now: str | float | None) -> Difference:
        return Difference(logged.stage, logged.step, group.question_id, index, name, was, now, sql)

    other: Group
    try:
        other = make_group(again, definition, step_spread=logged.step_spread)
    except RunError as error:
        yield differs(0, "group", group.kind.value, error.problem)
        return
    if (group.kind, group.cause) != (other.kind, other.cause):
        yield differs(0, "group kind", f"{group.kind} {group.cause}".strip(), f"{other.kind} {other.cause}".strip())
    for name, was, now in (("group mean", group.mean, other.mean), ("group spread", group.spread, other.spread)):
        if _apart(was, now):
            yield differs(0, name, was, now)
    for index, (was, now) in enumerate(zip(group.advantages, other.advantages, strict=True)):
        if _apart(was, now):
            yield differs(index, "advantage", was, now)


def _apart(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is not other
    return not abs(one - other) <= _TOLERANCE

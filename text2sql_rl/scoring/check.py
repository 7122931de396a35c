"""A rule held against everything it must hold, told in full: `text2sql-rl rewards check`.

In: a rule's name or path, sound or not. Out: what was checked, and for every promise that fails its counterexample.
Not here: loading a rule for use (rules.py), which stops at the first breach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql_rl.scoring.archetypes import archetypes
from text2sql_rl.scoring.invariants import INVARIANTS, Breach, broken
from text2sql_rl.scoring.rules import RuleFile, State, read_rule

# What a judge compares otherwise than the rule declares, a line each.
Differences = Callable[[Mapping[str, str | float]], Sequence[str]]

_STATES = {
    State.RELEASED: "released, and unchanged since",
    State.CHANGED: "CHANGED after its release: restore it, and write the change as a new version",
    State.UNRELEASED: "unreleased: LOCK does not list it, so it may still change",
}


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """What checking one rule file found. `comparison` lists where the judge compares otherwise than it declares."""

    file: RuleFile
    outcomes: int
    breaches: tuple[Breach, ...]
    comparison: tuple[str, ...]

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Invariants that are broken and not named in `breaks`, or named and not broken."""
        broke, said = {one.invariant for one in self.breaches}, set(self.file.rule.breaks)
        return tuple(sorted(broke ^ said))

    @property
    def passed(self) -> bool:
        """Whether the rule holds everything, and its file is as it was released, if it was."""
        return not self.breaches and not self.comparison and self.file.state is not State.CHANGED

    def lines(self) -> list[str]:
        """The check for people, a line each."""
        rule, bad = self.file.rule, self.file.rule.deliberately_bad
        lines = [
            f"{rule.name} (sha256 {rule.sha256[:12]})  {self.file.path}",
            f"  file         {_STATES[self.file.state]}",
        ]
        lines.append(f"  comparison   {self._comparison()}")
        lines += [f"               {line}" for line in self.comparison]
        for invariant in INVARIANTS:
            found = [one for one in self.breaches if one.invariant == invariant.name]
            lines.append(f"  {invariant.name:<12} {'BROKEN' if found else 'holds'}: {invariant.words}")
            lines += [f"               {one.words}" for one in found]
        lines.append(
            f"Each promise was tried on {self.outcomes} made-up outcomes: every kind, spoilt in every way, on both "
            "sides of each step."
        )
        if bad and self.undeclared and rule.breaks:
            lines.append(f"Its file is wrong about what it breaks: {', '.join(self.undeclared)}.")
        if bad:
            lines.append("It is deliberately bad: it loads all the same, and every command says so.")
        elif self.breaches:
            lines.append("It breaks a promise, so no command loads it.")
        elif self.passed:
            lines.append("It keeps every promise and may be used.")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The check for programs."""
        rule = self.file.rule
        return {
            "rule": rule.name,
            "sha256": rule.sha256,
            "file": str(self.file.path),
            "state": self.file.state.value,
            "passed": self.passed,
            "outcomes": self.outcomes,
            "deliberately_bad": rule.deliberately_bad,
            "breaks": list(rule.breaks),
            "comparison_differences": list(self.comparison),
            "invariants": [
                {"name": one.name, "words": one.words, "counterexamples": self._counterexamples(one.name)}
                for one in INVARIANTS
            ],
        }

    def _comparison(self) -> str:
        if self.file.rule.comparison is None:
            return "not declared: the file says nothing about tolerances, so the judge's own apply"
        return (
            "NOT the judge's: the file declares other tolerances than the judge has"
            if self.comparison
            else ("declared, and the judge's own")
        )

    def _counterexamples(self, invariant: str) -> list[dict[str, Any]]:
        return [
            {
                "words": one.words,
                "outcomes": [{"words": p.words, "standing": p.place, "reward": p.total} for p in one.outcomes],
            }
            for one in self.breaches
            if one.invariant == invariant
        ]


def check_rule(name_or_path: str, differences: Differences) -> RuleCheck:
    """Hold a rule against all invariants and its declared comparison against the judge's.

    Args:
        name_or_path: a name of rewards/rules, or the path of a rule file; it need not be sound.
        differences: tells where a declared comparison is not the judge's own.

    Raises:
        ConfigError: no such rule; not YAML; an unknown, missing or wrong key.
    """
    file = read_rule(name_or_path)
    declared = file.rule.comparison
    other = tuple(differences(declared)) if declared is not None else ()
    return RuleCheck(file, len(archetypes(file.rule.ratio)), broken(file.rule), other)

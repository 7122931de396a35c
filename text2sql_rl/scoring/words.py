"""A rule in words, with the reward of every outcome; the same text stands in reports and on the command line.

In: a rule. Out: plain text. Not here: any number that the rule itself does not give.
"""

from __future__ import annotations

from text2sql_rl.records import Finish
from text2sql_rl.scoring.archetypes import archetypes
from text2sql_rl.scoring.evidence import STANDINGS, standing
from text2sql_rl.scoring.invariants import broken
from text2sql_rl.scoring.model import Rule
from text2sql_rl.scoring.parts import COMPONENTS, GATES, PENALTIES
from text2sql_rl.scoring.total import score


def outcome_rewards(rule: Rule) -> dict[str, tuple[float, float]]:
    """Least and most reward of every standing, for completions that finished."""
    totals: dict[str, list[float]] = {place: [] for place in STANDINGS}
    for one in archetypes(rule.ratio):
        total = score(one.evidence, rule).total
        if one.evidence.finish is Finish.STOP and total is not None:
            totals[standing(one.evidence, rule.ratio)].append(total)
    return {place: (min(values), max(values)) for place, values in totals.items() if values}


def describe(rule: Rule) -> str:
    """The rule in words: what it pays, deducts and caps, and what every outcome earns."""
    lines = [f"{rule.name} (version {rule.version}, sha256 {rule.sha256[:12]})", *_wrapped(rule.note)]
    if rule.supersedes:
        lines.append(f"  supersedes {rule.supersedes}")
    if rule.deliberately_bad:
        lines += ["", "deliberately bad", *_wrapped(rule.reason), *(f"  breaks {problem}" for problem in broken(rule))]
    lines += ["", "pays"]
    for part in COMPONENTS:
        bound = "; only with the right answer" if part.name in rule.binding.only_if_equivalent else ""
        weight = rule.components.get(part.name, 0.0)
        lines.append(_line(part.name, f"{weight:g}" if weight else "measured", part.words + (bound if weight else "")))
    lines.append(_line("binding", f"{rule.binding.shaping_at_most:g}", "the most all of these pay a wrong answer"))
    lines += ["", "deducts"]
    lines += [_line(part.name, f"{rule.penalties.get(part.name, 0.0):g}", part.words) for part in PENALTIES]
    low, high = rule.row_ratio.low, rule.row_ratio.high
    lines.append(_line("row ratio", f"{low:g}-{high:g}", "candidate's rows over the gold's that are not odd"))
    lines += ["", "caps"]
    for gate in GATES:
        cap = rule.gates.get(gate.name)
        lines.append(_line(gate.name, "none" if cap is None else f"{cap:g}", gate.words))
    if rule.comparison:
        lines += ["", "compares", *(_line(name, f"{value}", "") for name, value in rule.comparison.items())]
    lines += ["", "earns"]
    for place, (least, most) in outcome_rewards(rule).items():
        lines.append(_line(place, f"{least:g}" if least == most else f"{least:g} .. {most:g}", ""))
    bounds = f"always in [{rule.bounds.low:g}, {rule.bounds.high:g}]"
    lines += ["", f"right beats wrong by at least {rule.dominance_margin:g}; {rule.order} order; {bounds}"]
    return "\n".join(lines)


def _line(name: str, number: str, words: str) -> str:
    return f"  {name:<16}{number:<16}{words}".rstrip()


def _wrapped(text: str) -> list[str]:
    return [f"  {line}" for line in text.strip().splitlines()]

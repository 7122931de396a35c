"""Evidence and a rule -> the reward, with every item it is made of.

In: evidence and a loaded rule. Out: a `Reward`: a total that is the sum of its items' points, or unscored.
Not here: extraction, execution, comparison, group statistics.
"""

from __future__ import annotations

import math
from dataclasses import replace

from text2sql_rl.records import Finish, Item, Reward
from text2sql_rl.scoring.evidence import Evidence, is_right, standing, unscored_reason
from text2sql_rl.scoring.model import Rule
from text2sql_rl.scoring.parts import COMPONENTS, GATES, PENALTIES


def score(evidence: Evidence, rule: Rule) -> Reward:
    """The reward of one completion.

    total = min(components, shaping bound unless right, cap of every gate that holds) - penalties. Components that
    the rule binds to correctness are measured but pay nothing to a wrong answer. Penalties come after the caps, so
    that a completion under a cap still loses by running on.

    Args:
        evidence: candidate, execution, gold, verdict and finish of one completion.
        rule: a loaded rule file.

    Returns:
        A reward with a total and its items, or unscored with its reason. Never raises for a candidate's fault.
    """
    reason = unscored_reason(evidence)
    if reason:
        return Reward(total=None, unscored=reason, rule=rule.name, rule_sha256=rule.sha256)
    place, right = standing(evidence, rule.ratio), is_right(evidence)
    components = _components(evidence, place, right, rule)
    caps = _caps(evidence, place, right, rule)
    earned = math.fsum(item.points for item in components)
    gates = []
    for gate in caps:
        taken = min(0.0, gate.weight - earned) if gate.value else 0.0
        # The cap itself, not earned + taken: equal outcomes must be equal to the last bit.
        earned = gate.weight if taken else earned
        gates.append(replace(gate, points=taken))
    penalties = _penalties(evidence, place, rule)
    total = earned + math.fsum(item.points for item in penalties)
    return Reward(total=total, items=(*components, *gates, *penalties), rule=rule.name, rule_sha256=rule.sha256)


def cause(evidence: Evidence, reward: Reward, rule: Rule) -> str:
    """The one word under which a completion is counted: its standing; else truncated where the token limit cut it.

    Args:
        evidence: of the completion.
        reward: what `score` gave for it.
        rule: the same rule.
    """
    if reward.total is None:
        return "unscored"
    place = standing(evidence, rule.ratio)
    return "truncated" if evidence.finish is Finish.LENGTH and place != "equivalent" else place


def _caps(evidence: Evidence, place: str, right: bool, rule: Rule) -> list[Item]:
    why, limit = "a wrong answer earns at most the shaping bound", rule.binding.shaping_at_most
    caps = [Item(name="binding", kind="gate", value=float(not right), weight=limit, points=0.0, why=why)]
    for part in GATES:
        if (cap := rule.gates.get(part.name)) is not None:
            value = part.measure(evidence, place)
            caps.append(Item(name=part.name, kind="gate", value=value, weight=cap, points=0.0, why=part.words))
    return caps


def _components(evidence: Evidence, place: str, right: bool, rule: Rule) -> list[Item]:
    items = []
    for part in COMPONENTS:
        weight, value = rule.components.get(part.name, 0.0), part.measure(evidence, place)
        bound = not right and part.name in rule.binding.only_if_equivalent
        why = f"{part.words}; paid only with the right answer" if bound else part.words
        points = 0.0 if bound else weight * value
        items.append(Item(name=part.name, kind="component", value=value, weight=weight, points=points, why=why))
    return items


def _penalties(evidence: Evidence, place: str, rule: Rule) -> list[Item]:
    items = []
    for part in PENALTIES:
        weight, value = rule.penalties.get(part.name, 0.0), part.measure(evidence, place)
        points = -weight * value if weight and value else 0.0
        items.append(Item(name=part.name, kind="penalty", value=value, weight=weight, points=points, why=part.words))
    return items

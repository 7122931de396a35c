"""Level 2: what attacks earn as an advantage, in groups of attacks, honest wrong answers and right answers.

In: payouts, honest rewards, group size. Out: for every declared definition of the advantage, the best paid attack in
groups that hold a right answer (it must not be above 0) and in groups that hold none (it must stay under the bound);
and from which success rate on an attack among honest attempts no longer gains.

The bound: a wrong answer may differ from a failed one by the shaping bound, so its advantage may be as large as that
difference under the definition: (bound - failed) / floor where the spread is divided by, and without division the
difference itself (times G / (G - 1) for leave-one-out). Without a floor there is no such bound: such a definition is
shown, and not held against the rule.

A group is one gold's. Its honest wrong answers hold SQL and are of one kind each time: they fail, or are the best or
the worst paid of the gold's own mutants. Where all others say nothing, run on to the token limit or are refused, even a
wrong answer is pushed up, as it should be. Not here: policies that learn (simulated.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from text2sql_rl.group import AdvantageRule, advantages, describe
from text2sql_rl.redteam.payouts import Honest, Payout, Scale

DEFINITIONS = (
    AdvantageRule("population", 0.25),
    AdvantageRule("sample", 0.25),
    AdvantageRule("none"),
    AdvantageRule("leave_one_out"),
    AdvantageRule("population", 0.0),
)
RATES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
_DRAWS = 400
FAILS = 0.4  # of honest attempts that are not right; the others run


@dataclass(frozen=True, slots=True)
class Extreme:
    """The attack that earned most in one kind of group, and the group."""

    attack: str
    gold: str
    advantage: float
    group: str


@dataclass(frozen=True, slots=True)
class Grouped:
    """One definition: the best paid attack with and without a right answer, the bound, and whether both hold."""

    definition: str
    with_right: Extreme
    without_right: Extreme
    bound: float | None

    @property
    def overpaid(self) -> bool:
        """Whether an attack is pushed up beside a right answer, or higher than the bound without one."""
        if self.bound is None:
            return False
        return self.with_right.advantage > 1e-9 or self.without_right.advantage > self.bound + 1e-9


@dataclass(frozen=True, slots=True)
class Gain:
    """One attack among honest attempts: its mean advantage by their success rate, and the least at which it loses."""

    family: str
    attack: str
    advantages: Mapping[float, float]
    loses_from: float | None


def audit_groups(
    payouts: Sequence[Payout], honest: Mapping[str, Honest], scale: Scale, size: int
) -> tuple[Grouped, ...]:
    """The worst groups under every definition.

    Args:
        payouts: of level 1.
        honest: honest rewards by gold.
        scale: of the reward.
        size: G, completions a group.
    """
    rewards: dict[tuple[str, float], Payout] = {}
    for one in payouts:
        if one.target.name in honest and one.pay.reward is not None:
            rewards.setdefault((one.target.name, one.pay.reward), one)
    return tuple(_extremes(rule, rewards, honest, scale, size) for rule in DEFINITIONS)


def _extremes(
    rule: AdvantageRule,
    rewards: Mapping[tuple[str, float], Payout],
    honest: Mapping[str, Honest],
    scale: Scale,
    size: int,
) -> Grouped:
    best = {True: Extreme("", "", float("-inf"), ""), False: Extreme("", "", float("-inf"), "")}
    for (gold, reward), payout in rewards.items():
        for right, words, group in _groups(reward, honest[gold], size):
            advantage = advantages(group, rule)[0]
            if advantage > best[right].advantage:
                best[right] = Extreme(payout.attack.name, gold, advantage, words)
    return Grouped(describe(rule), best[True], best[False], _bound(rule, scale, size))


def _groups(reward: float, honest: Honest, size: int) -> Iterator[tuple[bool, str, list[float]]]:
    """Groups whose first completion is the attack."""
    kinds = {"fails": honest.failed}
    if honest.wrong:
        kinds |= {"worst mutant": min(honest.wrong), "best mutant": max(honest.wrong)}
    for right in (0, 1, 2, size // 2):
        for attacks in (1, 2, size // 2, size - right):
            rest = size - right - attacks
            if rest < 0:
                continue
            for words, wrong in kinds.items():
                text = f"{attacks} of the attack, {right} right, {rest} honest wrong ({words})"
                yield right > 0, text, [reward] * attacks + [honest.right] * right + [wrong] * rest


def _bound(rule: AdvantageRule, scale: Scale, size: int) -> float | None:
    difference = scale.most("shaping") - scale.failed
    if rule.scale == "none":
        return difference
    if rule.scale == "leave_one_out":
        return difference * size / (size - 1)
    return difference / rule.floor if rule.floor else None


def gains(
    payouts: Sequence[Payout], honest: Mapping[str, Honest], rule: AdvantageRule, size: int, seed: int
) -> tuple[Gain, ...]:
    """For the best paid attack of each family: one of it among honest attempts that succeed at a given rate.

    Args:
        payouts: of level 1.
        honest: honest rewards by gold.
        rule: the definition of the advantage.
        size: G, completions a group.
        seed: of the draws.
    """
    return tuple(_gain(family, found, honest, rule, size, seed) for family, found in best_paid(payouts).items())


def best_paid(payouts: Sequence[Payout]) -> dict[str, list[Payout]]:
    """Family -> the scored payouts of its attack with the highest mean reward over the golds that can judge."""
    by_attack: dict[tuple[str, str], list[Payout]] = {}
    for one in payouts:
        if one.pay.reward is not None and one.target.usable:
            by_attack.setdefault((one.family, one.attack.name), []).append(one)
    best: dict[str, list[Payout]] = {}
    for (family, _), found in sorted(by_attack.items()):
        if family not in best or mean_reward(found) > mean_reward(best[family]):
            best[family] = found
    return best


def mean_reward(payouts: Sequence[Payout]) -> float:
    """The mean over scored payouts."""
    scored = [one.pay.reward for one in payouts if one.pay.reward is not None]
    return sum(scored) / len(scored)


def attempt(honest: Honest, rate: float, dice: random.Random) -> float:
    """The reward of one honest attempt that is right at `rate`."""
    if dice.random() < rate:
        return honest.right
    return dice.choice(honest.wrong) if honest.wrong and dice.random() >= FAILS else honest.failed


def _gain(
    family: str, found: Sequence[Payout], honest: Mapping[str, Honest], rule: AdvantageRule, size: int, seed: int
) -> Gain:
    means: dict[float, float] = {}
    for rate in RATES:
        dice, total = random.Random(seed), 0.0
        for _ in range(_DRAWS):
            payout = dice.choice(found)
            others = [attempt(honest[payout.target.name], rate, dice) for _ in range(size - 1)]
            total += advantages([payout.pay.reward, *others], rule)[0]
        means[rate] = total / _DRAWS
    loses = [rate for rate in RATES if all(means[at] < 0 for at in RATES if at >= rate)]
    return Gain(family, found[0].attack.name, means, min(loses, default=None))

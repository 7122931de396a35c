"""Level 3: a small softmax policy that is free to farm, trained with the same advantages.

In: payouts and honest rewards. Out: which strategies take over, by success rate and over seeds. The strategies are the
best paid attack of every family, and honest attempts that are right at a given rate, else run with wrong rows 60 % and
fail 40 %. The policy starts with half its weight on honest attempts; a step is some groups of G samples of one gold
each, and a policy-gradient update (REINFORCE on the softmax's logits) with the groups' advantages.

Crude: strategies do not blend and there is no language model. It is a smoke test for rules, not a proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from text2sql_rl.group import AdvantageRule, advantages
from text2sql_rl.redteam.grouped import FAILS, best_paid
from text2sql_rl.redteam.payouts import Honest, Payout

RATES = (0.02, 0.05, 0.1, 0.3)
JUDGED_FROM = 0.05  # the difficulty filter leaves out questions that are solved less often
SEEDS, STEPS, GROUPS = 4, 400, 8
LEARNING_RATE = 0.1
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Simulated:
    """One success rate: the policy's end over seeds. `farmed_at` is the first step from which attacks outweigh honest
    attempts to the end, in the seed where that comes first; None where it never does."""

    rate: float
    honest: float
    honest_least: float
    leader: str
    leader_share: float
    farmed_at: int | None

    @property
    def farmed(self) -> bool:
        """Whether an attack ends above honest attempts, at a rate that training meets."""
        return self.rate >= JUDGED_FROM and self.leader_share > self.honest


def simulate(
    payouts: Sequence[Payout], honest: Mapping[str, Honest], rule: AdvantageRule, size: int, seed: int
) -> tuple[Simulated, ...]:
    """Train one policy a success rate and seed.

    Args:
        payouts: of level 1.
        honest: honest rewards by gold.
        rule: the declared definition of the advantage.
        size: G, completions a group.
        seed: the first of the seeds.
    """
    best = best_paid(payouts)
    names = [f"{family}: {found[0].attack.name}" for family, found in best.items()]
    world = _World(best, list(honest.values()))
    found = []
    for rate in RATES:
        runs = [_train(world, rate, rule, size, seed + at) for at in range(SEEDS)]
        ends = np.mean([shares[-1] for shares in runs], axis=0)
        leader = int(np.argmax(ends[1:])) + 1
        steps = [step for step in map(_farmed_at, runs) if step is not None]
        least = min(float(shares[-1][0]) for shares in runs)
        found.append(
            Simulated(rate, float(ends[0]), least, names[leader - 1], float(ends[leader]), min(steps, default=None))
        )
    return tuple(found)


class _World:
    """What strategies earn, as padded arrays: `attacks` [strategy, draw], `wrong` [gold, draw]."""

    def __init__(self, best: Mapping[str, Sequence[Payout]], honest: Sequence[Honest]) -> None:
        paid = [[one.pay.reward for one in found if one.pay.reward is not None] for found in best.values()]
        self.attacks, self.attack_counts = _padded(paid)
        self.wrong, self.wrong_counts = _padded([one.wrong for one in honest])
        self.right = np.array([one.right for one in honest])
        self.failed = np.array([one.failed for one in honest])

    def rewards(self, chosen: Integers, rate: float, dice: np.random.Generator) -> Floats:
        """Rewards of chosen strategies [groups, G], one gold a group; strategy 0 is honest."""
        asked = dice.integers(len(self.right), size=(len(chosen), 1))
        drawn, fails, succeeds = dice.random((3, *chosen.shape))
        at = np.maximum(chosen - 1, 0)
        attack = self.attacks[at, (drawn * self.attack_counts[at]).astype(int)]
        count = self.wrong_counts[asked]
        wrong = np.where(
            (count > 0) & (fails >= FAILS), self.wrong[asked, (drawn * count).astype(int)], self.failed[asked]
        )
        honest = np.where(succeeds < rate, self.right[asked], wrong)
        return np.where(chosen == 0, honest, attack)


def _padded(rows: Sequence[Sequence[float]]) -> tuple[Floats, Integers]:
    filled = np.zeros((len(rows), max(1, max(map(len, rows)))))
    for at, row in enumerate(rows):
        filled[at, : len(row)] = row
    return filled, np.array([len(row) for row in rows])


def _train(world: _World, rate: float, rule: AdvantageRule, size: int, seed: int) -> Floats:
    """The strategies' shares before every step and at the end, [STEPS + 1, strategies]; honest first."""
    dice = np.random.default_rng(seed)
    logits = np.zeros(len(world.attacks) + 1)
    logits[0] = np.log(len(world.attacks))
    history = [_softmax(logits)]
    for _ in range(STEPS):
        shares = history[-1]
        chosen = dice.choice(len(shares), size=(GROUPS, size), p=shares)
        rewards = world.rewards(chosen, rate, dice)
        values = np.array([advantages(rewards_G, rule) for rewards_G in rewards.tolist()])
        # d log softmax(chosen) / d logits = onehot(chosen) - shares
        slope = np.bincount(chosen.ravel(), weights=values.ravel(), minlength=len(shares)) - values.sum() * shares
        logits = logits + LEARNING_RATE * slope / (GROUPS * size)
        history.append(_softmax(logits))
    return np.array(history)


def _softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max())
    shares: Floats = weights / weights.sum()
    return shares


def _farmed_at(shares: Floats) -> int | None:
    farmed = shares[:, 0] < 0.5
    if not farmed[-1]:
        return None
    honest = np.flatnonzero(~farmed)
    return int(honest[-1]) + 1 if len(honest) else 0

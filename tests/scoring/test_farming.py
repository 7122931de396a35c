"""Whether executing can be farmed: a softmax policy over four strategies, trained with the real rules and advantages.

The strategies: an honest attempt (right with probability p, an error in 40 % of the other cases, else wrong rows), a
query without a table, an empty result, and a query that reads a table and answers nothing. Crude, and deterministic.
"""

from __future__ import annotations

import math
import random

import pytest

from text2sql_rl.group import AdvantageRule, advantages
from text2sql_rl.scoring import load_rule, outcome_rewards

FLOOR = AdvantageRule("population", floor=0.25)
NO_FLOOR = AdvantageRule("population", floor=0.0)


def softmax(logits: list[float]) -> list[float]:
    weights = [math.exp(logit - max(logits)) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def honest_share(rule_name: str, p: float, rule: AdvantageRule, steps: int = 250) -> tuple[float, float]:
    """Probabilities of the honest strategy and of the likeliest other one after training."""
    pays = {place: least for place, (least, _) in outcome_rewards(load_rule(rule_name)).items()}
    dice = random.Random(7)
    logits = [0.0] * 4

    def reward(strategy: int) -> float:
        if strategy:
            return pays[("constant", "empty", "wrong")[strategy - 1]]
        if dice.random() < p:
            return pays["equivalent"]
        return pays["error" if dice.random() < 0.4 else "wrong"]

    for _ in range(steps):
        probabilities = softmax(logits)
        gradient = [0.0] * 4
        for _ in range(8):
            chosen = dice.choices(range(4), probabilities, k=8)
            values = advantages([reward(strategy) for strategy in chosen], rule)
            for strategy, value in zip(chosen, values, strict=True):
                for k in range(4):
                    gradient[k] += value * ((k == strategy) - probabilities[k]) / 64
        logits = [logit + 0.15 * slope for logit, slope in zip(logits, gradient, strict=True)]
    final = softmax(logits)
    return final[0], max(final[1:])


@pytest.mark.parametrize("rule", ["bound-v1", "dense-v3", "binary-v1"])
def test_with_the_floor_honest_attempts_win_on_hard_questions(rule: str) -> None:
    honest, best_other = honest_share(rule, p=0.1, rule=FLOOR)
    assert honest > 0.75
    assert best_other < 0.15
    honest, best_other = honest_share(rule, p=0.02, rule=FLOOR)
    assert honest > best_other


def test_without_the_floor_a_small_difference_takes_over() -> None:
    honest, best_other = honest_share("bound-v1", p=0.02, rule=NO_FLOOR)
    assert honest < 0.1
    assert best_other > 0.8


def test_paying_for_executing_is_farmed_with_or_without_the_floor() -> None:
    for rule in (FLOOR, NO_FLOOR):
        honest, _ = honest_share("executes-only-v1", p=0.3, rule=rule)
        assert honest < 0.1

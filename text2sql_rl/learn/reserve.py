"""The questions that dynamic sampling asks next: those whose groups will most likely teach, by a seeded draw.

In: pass rates measured before training, and the groups sampled during it. Out: questions to ask, each with its visit.
What was seen of a question fades: after `half_life` steps it counts half, since another policy gave it. Then:

- the weight of a question is the chance that its next group is mixed, 1 - p^G - (1 - p)^G, averaged over the Beta
  distribution that its faded counts leave for p (Jeffreys' prior): a solved question is asked seldom, one that is half
  solved often, and both come back as their counts fade;
- a question that nobody solved when it was last asked rests for `half_life` steps, then it returns;
- within one step no question is asked twice, and none that rests, as long as there are others.

A draw depends on the seed, step, round and counts only, all equal on all ranks, so every rank draws the same. Not
here: sampling, judging, what is dropped.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql_rl.records import Group

_PRIOR = 0.5


@dataclass(slots=True)
class Known:
    """What is known of one question: counts as of `step`, since when it rests, how often it was asked."""

    passed: float = 0.0
    scored: float = 0.0
    step: int = 0
    rests_until: int = 0
    visits: int = 0


class Reserve:
    """The questions of a run and what is known of them.

    Args:
        rates: question id -> (answers that passed, answers scored) before training; the questions are its keys.
        generations: G.
        half_life: steps after which an observation counts half.
        seed: of the draws.
    """

    def __init__(self, rates: Mapping[str, tuple[int, int]], *, generations: int, half_life: int, seed: int) -> None:
        self._known = {name: Known(passed, scored) for name, (passed, scored) in rates.items()}
        self._generations, self._half_life, self._seed = generations, half_life, seed
        self._taken: set[str] = set()
        self._step, self._round = -1, 0

    def draw(self, count: int, step: int) -> list[tuple[str, int]]:
        """`count` questions for the next round of this step, with their visits, counted from 1."""
        if step != self._step:
            self._taken, self._step, self._round = set(), step, 0
        rng = random.Random(f"{self._seed}/{step}/{self._round}")
        self._round += 1
        drawn: list[str] = []
        while len(drawn) < count:
            # Sampling without replacement (Efraimidis and Spirakis 2006): the largest log(u) / weight.
            keys = {name: math.log(1.0 - rng.random()) / self.chance(name, step) for name in self._known}
            order = sorted(keys, key=lambda name: (name in self._taken, self._rests(name, step), -keys[name], name))
            drawn += order[: count - len(drawn)]
            self._taken.update(drawn)
        for name in drawn:
            self._known[name].visits += 1
        return [(name, self._known[name].visits) for name in drawn]

    def note(self, groups: Iterable[Group], step: int) -> None:
        """Learn from groups sampled at this step; what could not be scored teaches nothing."""
        for group in groups:
            scored = [one for one in group.rollouts if one.reward.total is not None]
            if not scored:
                continue
            known, passed = self._known[group.question_id], sum(one.equivalent for one in scored)
            old_passed, old_scored = self._faded(group.question_id, step)
            known.passed, known.scored, known.step = old_passed + passed, old_scored + len(scored), step
            known.rests_until = 0 if passed else step + self._half_life

    def chance(self, name: str, step: int) -> float:
        """The chance that a group of this question is mixed, in (0, 1)."""
        passed, scored = self._faded(name, step)
        right, wrong = passed + _PRIOR, scored - passed + _PRIOR
        return 1.0 - _all(right, wrong, self._generations) - _all(wrong, right, self._generations)

    def asked(self) -> set[str]:
        """The questions that were asked so far."""
        return {name for name, known in self._known.items() if known.visits}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: everything but the arguments."""
        return {name: [known.passed, known.scored, known.step, known.rests_until, known.visits]
                for name, known in self._known.items()}  # fmt: skip

    def restore(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Go on from what `state` gave."""
        self._known = {name: Known(*values) for name, values in state.items()}
        self._taken, self._step, self._round = set(), -1, 0

    def _faded(self, name: str, step: int) -> tuple[float, float]:
        known = self._known[name]
        share = 0.5 ** ((step - known.step) / self._half_life)
        return known.passed * share, known.scored * share

    def _rests(self, name: str, step: int) -> bool:
        return step < self._known[name].rests_until


def _all(right: float, wrong: float, size: int) -> float:
    """The chance that `size` answers are all right, where their rate is Beta(right, wrong)."""
    chance = 1.0
    for number in range(size):
        chance *= (right + number) / (right + wrong + number)
    return chance

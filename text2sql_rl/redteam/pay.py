"""Who pays: what one reward gives for a completion, whichever reward it is.

In: shots, each a text against a target. Out: one `Pay` a shot, and what the right answer earns straight after it.
`RulePays` is a rule file through the project's own judge; a user's function is in any_reward.py. Not here: what may be
earned (payouts.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from text2sql_rl.judge import Judge
from text2sql_rl.records import Finish, Rollout
from text2sql_rl.redteam.targets import Target, completion


@dataclass(frozen=True, slots=True)
class Shot:
    """One completion fired at a target; `first` are judged before it. `alone`: nothing else may run beside it.

    `family` is the attack's, empty for an honest answer.
    """

    target: Target
    text: str
    family: str = ""
    first: tuple[str, ...] = ()
    finish: Finish = Finish.STOP
    question_id: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Pay:
    """What a shot earned: None where it was not scored. `after` is what the right answer earned next, where asked.

    `cause` is the judge's word for it; for a user's reward: paid, raised, hung or died. `damage` says what changed on
    disk.
    """

    reward: float | None
    cause: str
    words: str
    after: float | None = None
    damage: str = ""


class Pays(Protocol):
    """A reward that can be attacked."""

    def pay(self, shots: Sequence[Shot]) -> list[Pay]:
        """One pay a shot, in order."""
        ...


class RulePays:
    """A rule file, through the judge that training and evaluation use."""

    def __init__(self, judge: Judge) -> None:
        """Take an open judge; its owner closes it."""
        self._judge = judge

    def pay(self, shots: Sequence[Shot]) -> list[Pay]:
        """Judge the shots that stand alone one by one, and all others as one batch."""
        together = [shot for shot in shots if not shot.alone]
        batch = iter(self._judged([(shot, shot.text) for shot in together]))
        return [self._alone(shot, at) if shot.alone else _pay(next(batch)) for at, shot in enumerate(shots)]

    def _alone(self, shot: Shot, at: int) -> Pay:
        before = [_pay(self._judged([(shot, text)])[0]) for text in shot.first]
        own = _pay(self._judged([(shot, shot.text)])[0])
        # The comment makes it a text that the judge has not run before and cannot remember.
        gold = f"{shot.target.question.gold_sql}\n-- after {at}"
        after = self._judged([(Shot(shot.target, gold), gold)])[0] if shot.target.usable else None
        best = max((own, *before), key=lambda pay: float("-inf") if pay.reward is None else pay.reward)
        return Pay(best.reward, best.cause, best.words, after=after.reward.total if after else None)

    def _judged(self, pairs: Sequence[tuple[Shot, str]]) -> tuple[Rollout, ...]:
        items = []
        for shot, text in pairs:
            question = shot.target.question
            if shot.question_id:
                question = replace(question, id=shot.question_id)
            items.append((question, shot.target.database, completion(question, text, shot.finish)))
        return self._judge.judge(items)


def _pay(rollout: Rollout) -> Pay:
    words = rollout.reward.unscored or (rollout.verdict.words if rollout.verdict else rollout.candidate.reason)
    return Pay(rollout.reward.total, rollout.cause, words)

"""Level 1: what every attack of the corpus earns, and whether it is more than it may.

In: a corpus with its targets, and a reward. Out: one `Payout` for every attack and gold, and the `Scale` they stand on.

What an attack may earn is told on the scale of the reward itself, so that rules and users' functions of any size are
measured alike: 0 is what SQL that fails earns, 1 what the gold itself earns (each the median over the golds that can
judge).

    nothing    0
    little     1/50: the step above failing that a query may get which runs and answers nothing
    shaping    the rule's own bound for wrong answers; never more than a quarter of the way to the right answer
    unscored   no number, or 0

Not here: groups (grouped.py), learning (simulated.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from text2sql_rl.errors import ConfigError
from text2sql_rl.redteam.attacks import Attack, Corpus
from text2sql_rl.redteam.pay import Pay, Pays, Shot
from text2sql_rl.redteam.targets import Target, fill

LITTLE = 0.02
SHAPING_AT_MOST = 0.25
_ALONE = ("state", "judge")
_EPSILON = 1e-9
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Scale:
    """What failing and being right earn, and the most that a wrong answer may (all in units of the reward)."""

    failed: float
    right: float
    bound: float

    def most(self, ceiling: str) -> float:
        """The most an attack with this ceiling may earn, in units of the reward."""
        if ceiling == "shaping":
            return min(self.bound, self.failed + SHAPING_AT_MOST * (self.right - self.failed))
        return self.failed + (LITTLE if ceiling == "little" else 0.0) * (self.right - self.failed)

    def share(self, reward: float) -> float:
        """The reward on the scale from failing (0) to right (1)."""
        return (reward - self.failed) / (self.right - self.failed)


@dataclass(frozen=True, slots=True)
class Payout:
    """One attack against one gold. `damage` is what it changed that must not change; empty when nothing."""

    family: str
    attack: Attack
    target: Target
    text: str
    pay: Pay
    most: float
    damage: str = ""

    @property
    def overpaid(self) -> bool:
        """Whether it earned more than it may, or did damage."""
        return bool(self.damage) or (self.pay.reward is not None and self.pay.reward > self.most + _EPSILON)


@dataclass(frozen=True, slots=True)
class Honest:
    """What honest answers to one gold earn: the right one, wrong ones that run, one that fails."""

    right: float
    wrong: tuple[float, ...]
    failed: float


def measure_honest(
    targets: Mapping[str, Target], pays: Pays, bound: float | None
) -> tuple[dict[str, Honest], Scale, tuple[str, ...]]:
    """Pay honest answers to every gold that can judge.

    Args:
        targets: by name.
        pays: the reward.
        bound: the most a wrong answer may earn, in units of the reward; None takes a fifth of the way to right.

    Returns:
        Honest rewards by target, the scale, and the golds whose own text does not earn more than failing.

    Raises:
        ConfigError: the reward pays the golds themselves no more than SQL that fails.
    """
    usable = [target for target in targets.values() if target.usable]
    shots = [
        Shot(target, text) for target in usable for text in (target.question.gold_sql, target.failing, *target.wrong)
    ]
    paid = iter(pays.pay(shots))
    honest: dict[str, Honest] = {}
    unpaid = []
    for target in usable:
        right, failed = _number(next(paid)), _number(next(paid))
        wrong = [pay.reward for pay in (next(paid) for _ in target.wrong) if pay.reward is not None]
        honest[target.name] = Honest(right, tuple(wrong), failed)
        if right <= failed:
            unpaid.append(target.name)
    failed, right = median(one.failed for one in honest.values()), median(one.right for one in honest.values())
    if right <= failed:
        problem = f"the reward pays the golds' own SQL {right:g}, and SQL that fails {failed:g}"
        raise ConfigError(problem, field="--reward", fix="Check its columns, and the form of answer it reads (--wrap)")
    return honest, Scale(failed, right, failed + 0.2 * (right - failed) if bound is None else bound), tuple(unpaid)


def run_attacks(
    corpus: Corpus,
    targets: Mapping[str, Target],
    pays: Pays,
    scale: Scale,
    done: Callable[[int], None] = lambda count: None,
) -> tuple[Payout, ...]:
    """Fire every attack at every gold it names.

    Args:
        corpus: the attacks.
        targets: the golds, by name.
        pays: the reward.
        scale: from `measure_honest`.
        done: called with the number of attacks done.
    """
    plans = list(_plans(corpus, targets))
    found: list[Payout] = []
    for start in range(0, len(plans), _BATCH):
        batch = plans[start : start + _BATCH]
        for (family, attack, shot), pay in zip(batch, pays.pay([plan[2] for plan in batch]), strict=True):
            most = scale.most(attack.at_most)
            found.append(Payout(family, attack, shot.target, shot.text, pay, most, _damage(pay, scale)))
        done(len(found))
    return tuple(found)


def planned(corpus: Corpus) -> int:
    """How many attacks and golds `run_attacks` pairs."""
    return sum(len(corpus.golds_of(attack)) for family in corpus.families for attack in family.cases)


def _plans(corpus: Corpus, targets: Mapping[str, Target]) -> Iterator[tuple[str, Attack, Shot]]:
    for family in corpus.families:
        for attack in family.cases:
            for gold in corpus.golds_of(attack):
                target = targets[gold.name]
                shot = Shot(
                    target,
                    fill(attack.text, target, attack),
                    family=family.name,
                    first=tuple(fill(text, target, attack) for text in attack.first),
                    finish=attack.finish,
                    question_id=attack.question_id,
                    alone=bool(attack.first) or attack.aims_at in _ALONE,
                )
                yield family.name, attack, shot


def _damage(pay: Pay, scale: Scale) -> str:
    if pay.damage:
        return pay.damage
    if pay.after is not None and pay.after < scale.right - _EPSILON * max(1.0, abs(scale.right)):
        return f"the right answer earns {pay.after:g} afterwards"
    return ""


def _number(pay: Pay) -> float:
    return 0.0 if pay.reward is None else pay.reward


def overpaid(payouts: Sequence[Payout]) -> tuple[Payout, ...]:
    """Those that earned more than they may, the best paid first."""
    found = [one for one in payouts if one.overpaid]
    return tuple(sorted(found, key=lambda one: (-(one.pay.reward or 0.0), one.family, one.attack.name)))

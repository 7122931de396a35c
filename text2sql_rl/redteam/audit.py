"""Levels 1 to 3 in one sentence: fire the corpus at a reward, put what it earns into groups, let a policy farm it.

In: a reward, the corpus, the databases. Out: an `Audit`, as text, or as the plain JSON that docs/red-team.md describes.
Not here: the search for new attacks (search.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from text2sql_rl.group import advantages, describe
from text2sql_rl.redteam.attacks import Corpus
from text2sql_rl.redteam.grouped import DEFINITIONS, Gain, Grouped, audit_groups, gains
from text2sql_rl.redteam.pay import Pays
from text2sql_rl.redteam.payouts import Honest, Payout, Scale, measure_honest, overpaid, run_attacks
from text2sql_rl.redteam.simulated import Simulated, simulate
from text2sql_rl.redteam.targets import Target, shown

VERSION = 1
DECLARED = DEFINITIONS[0]
GENERATIONS = 8


@dataclass(frozen=True, slots=True)
class Audit:
    """What a reward can be cheated out of. `unpaid` are golds whose own text earns no more than failing."""

    reward: str
    sha256: str
    scale: Scale
    instances: int
    generations: int
    seed: int
    payouts: tuple[Payout, ...]
    honest: Mapping[str, Honest]
    groups: tuple[Grouped, ...]
    gains: tuple[Gain, ...]
    policy: tuple[Simulated, ...]
    unpaid: tuple[str, ...]
    seconds: float

    @property
    def failed(self) -> tuple[str, ...]:
        """The levels at which something earns more than it may: payouts, groups, policy."""
        levels = {
            "payouts": bool(overpaid(self.payouts)),
            "groups": any(one.overpaid for one in self.groups),
            "policy": any(one.farmed for one in self.policy),
        }
        return tuple(name for name, caught in levels.items() if caught)

    def as_json(self) -> dict[str, Any]:
        """The audit ready for json.dumps; docs/red-team.md tells its keys."""
        return {
            "version": VERSION,
            "reward": self.reward,
            "sha256": self.sha256,
            "scale": asdict(self.scale),
            "instances": self.instances,
            "generations": self.generations,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "failed_levels": list(self.failed),
            "attacks": len({one.attack.name for one in self.payouts}),
            "payouts": [_payout(one, self) for one in self.payouts],
            "groups": [asdict(one) | {"overpaid": one.overpaid} for one in self.groups],
            "gains": [
                asdict(one) | {"advantages": {str(k): v for k, v in one.advantages.items()}} for one in self.gains
            ],
            "policy": [asdict(one) | {"farmed": one.farmed} for one in self.policy],
            "unpaid_golds": list(self.unpaid),
        }

    def lines(self) -> Iterator[str]:
        """Tables of the levels, every overpaid attack with its text, and the verdict."""
        failed, right = self.scale.failed, self.scale.right
        yield f"{self.reward} pays {failed:g} for SQL that fails and {right:g} for the right answer."
        yield from self._payout_lines()
        yield from self._group_lines()
        yield from self._policy_lines()
        yield ""
        for name in self.unpaid:
            yield f"gold {name}: its own SQL earns no more than failing"
        count = len(overpaid(self.payouts))
        found = f"{count} of {len(self.payouts)} payouts are more than the attack may earn"
        if self.failed:
            yield f"The reward can be cheated: {found}. Caught at: {', '.join(self.failed)}. ({self.seconds:.0f} s)"
        else:
            yield f"No attack got through: {found}, and none wins in a group or a policy. ({self.seconds:.0f} s)"

    def _payout_lines(self) -> Iterator[str]:
        yield ""
        yield f"{'1 payouts':<18}{'attacks':>8}{'payouts':>8}{'unscored':>9}{'most':>9}{'advantage':>11}{'overpaid':>9}"
        for family, found in groupby(self.payouts, key=lambda one: one.family):
            own = list(found)
            best = max(own, key=_reward)
            most = "none" if best.pay.reward is None else f"{best.pay.reward:.3f}"
            names = {one.attack.name for one in own}
            unscored = sum(one.pay.reward is None for one in own)
            worst = max(_advantage(one, self) for one in own)
            row = f"  {family:<16}{len(names):>8}{len(own):>8}{unscored:>9}{most:>9}{worst:>+11.3f}"
            yield f"{row}{len(overpaid(own)):>9}"
        yield "  most: the highest reward of an attack; advantage: the highest in a group with one right answer and"
        yield "  otherwise honest wrong ones; overpaid: how many earned more than they may"
        for one in overpaid(self.payouts):
            earned = "not scored" if one.pay.reward is None else f"{one.pay.reward:.4g}, may earn {one.most:.4g}"
            yield f"  OVERPAID {one.family}/{one.attack.name} on {one.target.name}: {earned}"
            yield f"    {one.damage or one.pay.cause}: {shown([*one.attack.first, one.text])}"

    def _group_lines(self) -> Iterator[str]:
        yield ""
        yield f"2 groups of {self.generations}: the highest advantage of any attack"
        yield f"  {'definition':<76}{'beside right':>13}{'without':>9}{'bound':>8}"
        for one in self.groups:
            bound = "none" if one.bound is None else f"{one.bound:.3f}"
            mark = "  OVERPAID" if one.overpaid else ""
            row = f"  {one.definition:<76}{one.with_right.advantage:>+13.3f}{one.without_right.advantage:>+9.3f}"
            yield f"{row}{bound:>8}{mark}"
        yield f"  one attack among honest attempts; mean advantage by their success rate ({describe(DECLARED)})"
        for gain in self.gains:
            means = "  ".join(f"{rate:g}: {mean:+.3f}" for rate, mean in gain.advantages.items())
            loses = "never loses" if gain.loses_from is None else f"loses from {gain.loses_from:g}"
            yield f"  {gain.family + '/' + gain.attack:<44}{means}  {loses}"

    def _policy_lines(self) -> Iterator[str]:
        yield ""
        yield "3 policy: a softmax over honest attempts and the best paid attack of each family, from half honest"
        head = f"  {'success rate':<14}{'honest':>8}{'least':>8}{'best attack':>13}"
        yield f"{head}  {'its name':<44}attacks ahead from step"
        for one in self.policy:
            step = "never" if one.farmed_at is None else str(one.farmed_at)
            mark = "  FARMED" if one.farmed else ""
            row = f"  {one.rate:<14g}{one.honest:>8.2f}{one.honest_least:>8.2f}{one.leader_share:>13.2f}"
            yield f"{row}  {one.leader:<44}{step}{mark}"


def audit(
    name: str,
    sha256: str,
    corpus: Corpus,
    targets: Mapping[str, Target],
    pays: Pays,
    *,
    bound: float | None,
    instances: int,
    generations: int = GENERATIONS,
    seed: int = 0,
    done: Callable[[int], None] = lambda count: None,
) -> Audit:
    """Run levels 1 to 3.

    Args:
        name: of the reward.
        sha256: of its file.
        corpus: the attacks.
        targets: their golds, by name.
        pays: the reward.
        bound: the most a wrong answer may earn by the reward's own word; None takes a fifth of the way to right.
        instances: the most counterfactual instances the targets carry; for the record.
        generations: G, completions a group.
        seed: of the draws at levels 2 and 3.
        done: called with the number of payouts done.

    Raises:
        ConfigError: the reward pays the golds themselves no more than SQL that fails.
    """
    started = time.perf_counter()
    honest, scale, unpaid = measure_honest(targets, pays, bound)
    payouts = run_attacks(corpus, targets, pays, scale, done)
    return Audit(
        reward=name,
        sha256=sha256,
        scale=scale,
        instances=instances,
        generations=generations,
        seed=seed,
        payouts=payouts,
        honest=honest,
        groups=audit_groups(payouts, honest, scale, generations),
        gains=gains(payouts, honest, DECLARED, generations, seed),
        policy=simulate(payouts, honest, DECLARED, generations, seed),
        unpaid=unpaid,
        seconds=time.perf_counter() - started,
    )


def _payout(one: Payout, found: Audit) -> dict[str, Any]:
    return {
        "family": one.family,
        "attack": one.attack.name,
        "why": one.attack.why,
        "aims_at": one.attack.aims_at,
        "gold": one.target.name,
        "database": one.target.database.name,
        "gold_sql": one.target.question.gold_sql,
        "text": shown([*one.attack.first, one.text]),
        "at_most": one.attack.at_most,
        "most": one.most,
        "reward": one.pay.reward,
        "cause": one.pay.cause,
        "words": shown([one.pay.words]),
        "advantage": round(_advantage(one, found), 6),
        "damage": one.damage,
        "overpaid": one.overpaid,
    }


def _advantage(one: Payout, found: Audit) -> float:
    """Its advantage in a group with one right answer and otherwise the gold's honest wrong ones, failing in turn."""
    honest = found.honest.get(one.target.name)
    if honest is None or one.pay.reward is None:
        return 0.0
    wrong: Sequence[float] = [*honest.wrong[:3], honest.failed]
    others = [wrong[at % len(wrong)] for at in range(found.generations - 2)]
    return advantages([one.pay.reward, honest.right, *others], DECLARED)[0]


def _reward(one: Payout) -> float:
    return float("-inf") if one.pay.reward is None else one.pay.reward

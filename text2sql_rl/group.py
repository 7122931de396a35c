"""The G rollouts of one question -> a group: its kind, its statistics and one advantage a rollout.

In: judged rollouts of one question under one rule version, and the run's declared advantage rule. Out: a `Group`.
Not here: judging, filtering, dropping or weighting groups; the loss. The advantage of rollout i with reward r_i among
the n scored rollouts of its group, with mean m = sum(r) / n:

    population     (r_i - m) / (max(s, floor) + epsilon),  s = sqrt(sum((r - m)^2) / n)
    sample         (r_i - m) / (max(s, floor) + epsilon),  s = sqrt(sum((r - m)^2) / (n - 1))
    batch           (r_i - m) / (max(S, floor) + epsilon),  S = the same as in `sample`, over the scored rollouts of all
                    groups sampled for the step, on all ranks and in all rounds, and their mean
    none            r_i - m
    leave_one_out   r_i - (the mean of the other n - 1) = (r_i - m) * n / (n - 1)

`population` and `sample` are GRPO (Shao et al. 2024, DeepSeekMath, section 4.1; papers and trainers differ on which of
the two), `batch` is TRL's `scale_rewards="batch"` (arXiv:2508.08221), `none` is Dr. GRPO
(Liu et al. 2025), `leave_one_out` is RLOO (Kool et al. 2019; Ahmadian et al. 2024). The
floor is this project's: in a group where nobody is right, the spread is only shaping, and dividing by it would make a
difference of 0.05 as large as right against wrong.

A completion that the token limit cut counts like any other, unless the rule says that it leaves the loss (its reward
stays in mean and spread) or the statistics (and the loss with them).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

from text2sql_rl.errors import ConfigError, RunError
from text2sql_rl.records import Conditions, Finish, Group, GroupKind, Rollout

Truncated = Literal["count", "exclude_from_loss", "exclude_from_statistics"]
Scale = Literal["population", "sample", "batch", "none", "leave_one_out"]
Aggregation = Literal["grpo", "bnpo", "dr_grpo", "dapo"]

# How the losses of single tokens become that of an update, by TRL's names: Shao et al. 2024, TRL's own, Liu et al. 2025
# (Dr. GRPO), Yu et al. 2025 (DAPO). Rollouts that teach are those in the loss whose advantage is not zero, or with a KL
# penalty all in the loss; no others are in any of these numbers.
_AGGREGATION_WORDS: dict[Aggregation, str] = {
    "grpo": (
        "the mean over the tokens of each rollout that teaches, then over these rollouts: every rollout counts the "
        "same, a token of a longer one for less"
    ),
    "bnpo": (
        "the losses of all tokens of the rollouts that teach, summed and divided by their number, in each process's "
        "share of a step (or its micro-batch) by itself: every token of a share counts the same"
    ),
    "dr_grpo": (
        "the losses of all tokens of the rollouts that teach, summed and divided by the number of these rollouts times "
        "the token limit: every token counts the same, whatever the lengths of the others"
    ),
    "dapo": (
        "the losses of all tokens of the rollouts that teach, summed and divided by their number: every token counts "
        "the same, a longer completion for more"
    ),
}
_TRUNCATED_WORDS = {
    "count": "a completion cut at the token limit counts like any other",
    "exclude_from_loss": "a completion cut at the token limit counts in mean and spread, and is left out of the loss",
    "exclude_from_statistics": "a completion cut at the token limit is left out of mean, spread and loss",
}
# A total is a sum of points, and the same sum in another order may differ in its last bits. Divided by its own spread,
# such a difference would be as large as right against wrong.
_NOISE = 1e-9


@dataclass(frozen=True)
class AdvantageRule:
    """The declared definition of the advantage.

    Args:
        scale: what the difference to the group's mean is divided by; see the module's formulas.
        floor: the least divisor, in units of reward. Rises: small reward differences stay small. It has no effect on
            `none` and `leave_one_out`, beside telling when a mixed group has too little range to teach.
        epsilon: added to the divisor, as trainers do; 0.0 makes the formulas exact.
        truncated: what becomes of completions that the token limit cut.

    Raises:
        ConfigError: an unknown scale or policy, or a floor or epsilon that is negative or not a number.
    """

    scale: Scale = "population"
    floor: float = 0.25
    epsilon: float = 0.0
    truncated: Truncated = "count"

    def __post_init__(self) -> None:
        for name, chosen, known in (("scale", self.scale, Scale), ("truncated", self.truncated, Truncated)):
            if chosen not in get_args(known):
                fix = f"Use one of {', '.join(get_args(known))}"
                raise ConfigError(f"unknown {name} {chosen!r}", field=f"advantage.{name}", fix=fix)
        for name, value in (("floor", self.floor), ("epsilon", self.epsilon)):
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{value} is not a size", field=f"advantage.{name}", fix="Use a number >= 0")


def describe(rule: AdvantageRule) -> str:
    """The definition in one line, as reports print it."""
    words = {
        "population": "(reward - group mean) / population standard deviation",
        "sample": "(reward - group mean) / sample standard deviation",
        "batch": "(reward - group mean) / sample standard deviation over all rollouts of the step",
        "none": "reward - group mean, not divided",
        "leave_one_out": "reward - mean of the group's other rewards",
    }
    cut = "" if rule.truncated == "count" else f"; {describe_truncated(rule)}"
    if rule.scale in ("none", "leave_one_out"):
        return f"{words[rule.scale]}{cut}"
    epsilon = f" + {rule.epsilon:g}" if rule.epsilon else ""
    return f"{words[rule.scale]}, the divisor at least {rule.floor:g}{epsilon}{cut}"


def describe_aggregation(aggregation: Aggregation) -> str:
    """How the losses of single tokens become that of an update, in words."""
    return _AGGREGATION_WORDS[aggregation]


def describe_truncated(rule: AdvantageRule) -> str:
    """What becomes of completions that the token limit cut, in words."""
    return _TRUNCATED_WORDS[rule.truncated]


def in_statistics(rollout: Rollout, rule: AdvantageRule) -> bool:
    """Whether a rollout's reward is part of its group's mean and spread."""
    cut = rollout.completion.finish is Finish.LENGTH
    return rollout.reward.total is not None and not (cut and rule.truncated == "exclude_from_statistics")


def in_loss(rollout: Rollout, rule: AdvantageRule) -> bool:
    """Whether a rollout may move the policy: it is scored, and the rule does not leave it out."""
    cut = rollout.completion.finish is Finish.LENGTH
    return rollout.reward.total is not None and not (cut and rule.truncated != "count")


def advantages(
    rewards_G: Sequence[float | None], rule: AdvantageRule, step_spread: float | None = None
) -> tuple[float, ...]:
    """One advantage a reward; None (unscored) leaves the statistics and gets 0.0.

    Args:
        rewards_G: the G totals of one question's rollouts, None where unscored.
        rule: the declared definition.
        step_spread: S of `batch`; where it is left out, the group stands for the whole step.

    Returns:
        G numbers that sum to zero over the scored rewards (up to rounding). Exactly 0.0 everywhere when the scored
        rewards are equal, apart from rounding (1e-9), or fewer than two.

    Raises:
        RunError: a reward is infinite or not a number.
    """
    scored = [reward for reward in rewards_G if reward is not None]
    if not all(math.isfinite(reward) for reward in scored):
        raise RunError("a reward is not a finite number", field="total", fix="Judge the completion again")
    # The mean of equal floats need not equal them, so equality is decided on the rewards themselves.
    if len(scored) < 2 or max(scored) - min(scored) <= _NOISE:
        return (0.0,) * len(rewards_G)
    mean, spread = _statistics(scored, rule)
    if rule.scale == "batch" and step_spread is not None:
        spread = step_spread
    factor = 1.0
    if rule.scale == "leave_one_out":
        factor = len(scored) / (len(scored) - 1)
    elif rule.scale != "none":
        factor = 1.0 / (max(spread, rule.floor) + rule.epsilon)
    return tuple(0.0 if reward is None else (reward - mean) * factor for reward in rewards_G)


def step_spread(groups: Iterable[Group], rule: AdvantageRule) -> float:
    """S of `batch`: the standard deviation over the rewards of all groups of a step that are in the statistics."""
    totals = [total for group in groups for total in _totals(group.rollouts, rule) if total is not None]
    return _statistics(totals, rule)[1]


def over_step(groups: Sequence[Group], rule: AdvantageRule) -> list[Group]:
    """The groups of one step with the advantages that the step gives them; only `batch` changes any."""
    if rule.scale != "batch":
        return list(groups)
    spread = step_spread(groups, rule)
    return [replace(group, advantages=advantages(_totals(group.rollouts, rule), rule, spread)) for group in groups]


def make_group(
    rollouts: Sequence[Rollout],
    rule: AdvantageRule,
    conditions: Sequence[Conditions] = (),
    step_spread: float | None = None,
) -> Group:
    """Put the rollouts of one question into a group.

    The kind says whether the group teaches right from wrong. `unscored`: fewer than two scored rollouts.
    `all_correct` and `all_wrong`: by equivalence, whatever the rewards. `low_spread`: right and wrong answers are
    both there, but their rewards lie closer together than the floor (or are equal). `informative`: all others. Those
    that the rule leaves out of the statistics do not count; a group that has fewer than two others is `all_wrong` or
    `low_spread`.

    Args:
        rollouts: the G rollouts, in sampling order.
        rule: the declared definition of the advantage.
        conditions: one a rollout: prompt, instances, limits, rule and sampling settings it came from; may be left out
            where the caller has a single one.
        step_spread: S of `batch`; where it is left out, the group stands for the whole step (see `over_step`).

    Returns:
        The group. `mean` and `spread` are over the rollouts in the statistics; the spread is the group's standard
        deviation, as the rule names it (the population's, where it names none).

    Raises:
        RunError: no rollouts, or rollouts of different questions, databases, rules or conditions.
    """
    _refuse_mixtures(rollouts, conditions)
    scored = [rollout for rollout in rollouts if in_statistics(rollout, rule)]
    totals_G = _totals(rollouts, rule)
    totals = [total for total in totals_G if total is not None]
    mean, spread = _statistics(totals, rule)
    kind = _kind(scored, totals, rule)
    if kind is GroupKind.UNSCORED and sum(rollout.reward.total is not None for rollout in rollouts) > 1:
        kind = GroupKind.LOW_SPREAD if any(rollout.equivalent for rollout in rollouts) else GroupKind.ALL_WRONG
    causes = Counter(rollout.cause for rollout in rollouts if rollout.reward.total is not None)
    # Ties go to the first name in the alphabet, so that the same group always has the same cause.
    cause = min(causes, key=lambda name: (-causes[name], name)) if kind is GroupKind.ALL_WRONG else ""
    return Group(
        question_id=rollouts[0].question_id,
        rollouts=tuple(rollouts),
        kind=kind,
        cause=cause,
        mean=mean,
        spread=spread,
        advantages=advantages(totals_G, rule, step_spread),
        conditions_sha256=conditions[0].sha256 if conditions else "",
    )


def _totals(rollouts: Sequence[Rollout], rule: AdvantageRule) -> list[float | None]:
    """The rewards in the statistics; None for the others."""
    return [rollout.reward.total if in_statistics(rollout, rule) else None for rollout in rollouts]


def _kind(scored: Sequence[Rollout], totals: Sequence[float], rule: AdvantageRule) -> GroupKind:
    if len(scored) < 2:
        return GroupKind.UNSCORED
    right = sum(rollout.equivalent for rollout in scored)
    if right in (0, len(scored)):
        return GroupKind.ALL_CORRECT if right else GroupKind.ALL_WRONG
    distance = max(totals) - min(totals)
    return GroupKind.LOW_SPREAD if distance <= _NOISE or distance < rule.floor else GroupKind.INFORMATIVE


def _statistics(totals: Sequence[float], rule: AdvantageRule) -> tuple[float, float]:
    """Mean and standard deviation of the scored rewards; exactly (value, 0.0) when all are equal."""
    if not totals:
        return 0.0, 0.0
    if max(totals) == min(totals):
        return totals[0], 0.0
    mean = math.fsum(totals) / len(totals)
    if max(totals) - min(totals) <= _NOISE:
        return mean, 0.0
    squares = math.fsum((total - mean) ** 2 for total in totals)
    return mean, math.sqrt(squares / (len(totals) - (rule.scale in ("sample", "batch"))))


def _refuse_mixtures(rollouts: Sequence[Rollout], conditions: Sequence[Conditions]) -> None:
    if not rollouts:
        raise RunError("a group without rollouts", fix="Sample at least one completion a question")
    if conditions and len(conditions) != len(rollouts):
        problem = f"{len(conditions)} conditions for {len(rollouts)} rollouts"
        raise RunError(problem, field="conditions", fix="Give one each")
    unmixed = {
        "question_id": {rollout.question_id for rollout in rollouts},
        "database": {rollout.database for rollout in rollouts},
        "rule_sha256": {rollout.reward.rule_sha256 for rollout in rollouts},
        **{f"conditions.{one.name}": {getattr(each, one.name) for each in conditions} for one in fields(Conditions)},
    }
    for name, values in unmixed.items():
        if len(values) > 1:
            some = ", ".join(repr(value) for value in sorted(values)[:3])
            problem = f"one group of question {rollouts[0].question_id} mixes {some}"
            raise RunError(problem, field=name, fix="Group rollouts that share it")

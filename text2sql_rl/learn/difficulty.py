"""How hard each question is for a policy: its pass rate over K completions, and the band that training keeps.

In: a policy and questions. Out: pass rates with Wilson intervals and causes, and the judged groups in the rollout log.
Measured in chunks that a killed run does not measure again. Not here: training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql_rl.config import Difficulty, Sampling
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.judge import Judge
from text2sql_rl.policy.hf import Policy
from text2sql_rl.prompts import Style
from text2sql_rl.records import Database, Group, PassRate, Question
from text2sql_rl.statistics import wilson

CHUNK = 64


@dataclass(frozen=True, slots=True)
class Band:
    """The questions by what their pass rate says: kept ones teach, the others are too easy or too hard."""

    kept: tuple[str, ...]
    too_easy: tuple[str, ...]
    too_hard: tuple[str, ...]
    unscored: tuple[str, ...]


def measure(
    policy: Policy,
    style: Style,
    items: Sequence[tuple[Question, Database]],
    limits: Sampling,
    judge: Judge,
    *,
    samples: int,
    seed: int,
    done: Callable[[int], list[Group] | None],
    log: Callable[[int, list[Group]], None],
) -> Iterable[tuple[int, list[Group]]]:
    """Sample and judge, chunk by chunk.

    Args:
        policy: what is measured.
        style: of the prompts.
        items: the questions.
        limits: of sampling.
        judge: the run's judge.
        samples: K completions a question.
        seed: of sampling; chunk c uses seed + c, so that a resumed run samples the same.
        done: the groups of a chunk measured before, or None.
        log: keeps the groups of a chunk.

    Yields:
        (questions done so far, the groups of the chunk).
    """
    rule = AdvantageRule("none", 0.0)
    for number, start in enumerate(range(0, len(items), CHUNK)):
        chunk = items[start : start + CHUNK]
        groups = done(number)
        if groups is None:
            prompts = [style.prompt(question, database) for question, database in chunk]
            sampled = policy.sample(prompts, style, limits, samples=samples, seed=seed + number)
            answers = [(*item, one) for item, completions in zip(chunk, sampled, strict=True) for one in completions]
            rollouts = judge.judge(answers)
            groups = [make_group(rollouts[at : at + samples], rule) for at in range(0, len(rollouts), samples)]
            log(number, groups)
        yield start + len(chunk), groups


def pass_rate(group: Group) -> PassRate:
    """The pass rate of a question, with its 95 % Wilson interval and the causes of its failures."""
    scored = [rollout for rollout in group.rollouts if rollout.reward.total is not None]
    passed = sum(rollout.equivalent for rollout in scored)
    low, high = wilson(passed, len(scored)) if scored else (0.0, 1.0)
    causes = Counter(rollout.cause for rollout in scored if not rollout.equivalent)
    return PassRate(
        question_id=group.question_id, passed=passed, scored=len(scored), low=low, high=high, causes=dict(causes)
    )


def filter_band(rates: Sequence[PassRate], settings: Difficulty) -> Band:
    """Keep low < rate < high."""
    scored = [rate for rate in rates if rate.scored]
    easy = tuple(rate.question_id for rate in scored if rate.rate >= settings.high)
    hard = tuple(rate.question_id for rate in scored if rate.rate <= settings.low and rate.rate < settings.high)
    apart = {*easy, *hard}
    kept = tuple(rate.question_id for rate in scored if rate.question_id not in apart)
    return Band(kept, easy, hard, tuple(rate.question_id for rate in rates if not rate.scored))


def summary(rates: Sequence[PassRate], band: Band, samples: int) -> dict[str, Any]:
    """The numbers of the stage's result: shares of the band, histogram by number passed, causes."""
    histogram = Counter(rate.passed for rate in rates)
    causes: Counter[str] = Counter()
    for rate in rates:
        causes.update(rate.causes)
    total = max(1, sum(rate.scored for rate in rates))
    return {
        "questions": len(rates),
        "samples": samples,
        "kept": len(band.kept),
        "too_easy": len(band.too_easy),
        "too_hard": len(band.too_hard),
        "unscored": len(band.unscored),
        "histogram": [histogram[number] for number in range(samples + 1)],
        "mean_pass_rate": sum(rate.passed for rate in rates) / total,
        "pass_at_k": sum(rate.passed > 0 for rate in rates) / max(1, len(rates)),
        "causes": dict(causes),
    }

"""Judged answers -> the numbers of one question set.

In: questions and their rollouts. Out: one dict a role, as done.json keeps it. A question that could not be judged
leaves the denominator and is counted; an answer that its token limit cut is a wrong answer here, whatever the reward
rule makes of it in training, since leaving it out would flatter. Not here: sampling, judging, comparing two policies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from text2sql_rl.records import Question, Rollout
from text2sql_rl.statistics import bootstrap_mean, pass_at_k, wilson

_TRUNCATED = "truncated"


def is_scored(rollout: Rollout) -> bool:
    """Whether the answer counts: it was judged, or cut by its token limit."""
    return rollout.reward.total is not None or rollout.cause == _TRUNCATED


def summarise(
    questions: Sequence[Question],
    greedy: Sequence[Rollout],
    sampled: Sequence[Sequence[Rollout]],
    *,
    seed: int,
) -> dict[str, Any]:
    """The numbers of one question set.

    Args:
        questions: Q questions.
        greedy: the greedy answer to each.
        sampled: K sampled answers to each; empty when none were drawn.
        seed: of the bootstrap.

    Returns:
        accuracy: share of scored questions whose greedy answer is equivalent to gold on all instances; None if none is.
        ci95: its interval, whole databases resampled. wilson95: the same with questions as independent draws.
        correct, scored, questions, databases: counts.
        unscored: reason -> count, left out of the accuracy.
        causes: why answers failed -> count.
        by_shape, by_hardness, by_database: name -> {correct, scored}.
        answers: database -> question id -> 1, 0, or None when unscored; what paired tests need.
        pass_at: k -> unbiased pass@k of the sampled answers, averaged over questions with k scored ones.
        mean_tokens: of the greedy answers.
    """
    rows = [(question, one) for question, one in zip(questions, greedy, strict=True) if is_scored(one)]
    right = [one.equivalent for _, one in rows]
    names = [question.database for question, _ in rows]
    correct = sum(right)
    return {
        "accuracy": correct / len(rows) if rows else None,
        "ci95": list(bootstrap_mean(right, names, seed=seed)) if rows else None,
        "wilson95": list(wilson(correct, len(rows))),
        "correct": correct,
        "scored": len(rows),
        "questions": len(questions),
        "databases": len({question.database for question in questions}),
        "unscored": _counts(one.reward.unscored or "no reason given" for one in greedy if not is_scored(one)),
        "causes": _counts(one.cause for _, one in rows if not one.equivalent),
        "by_shape": _parts(rows, lambda question: question.shape or "free"),
        "by_hardness": _parts(rows, lambda question: question.hardness),
        "by_database": _parts(rows, lambda question: question.database),
        "answers": _answers(questions, greedy),
        "pass_at": _pass_at(sampled),
        "mean_tokens": sum(one.completion.tokens for one in greedy) / max(1, len(greedy)),
    }


def _counts(names: Any) -> dict[str, int]:
    """Most frequent first, then by name, so that the same answers give the same file."""
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))


def _parts(rows: Sequence[tuple[Question, Rollout]], name_of: Callable[[Question], str]) -> dict[str, dict[str, int]]:
    parts: dict[str, dict[str, int]] = {}
    for question, one in rows:
        part = parts.setdefault(name_of(question), {"correct": 0, "scored": 0})
        part["correct"] += one.equivalent
        part["scored"] += 1
    return dict(sorted(parts.items()))


def _answers(questions: Sequence[Question], greedy: Sequence[Rollout]) -> dict[str, dict[str, int | None]]:
    answers: dict[str, dict[str, int | None]] = {}
    for question, one in zip(questions, greedy, strict=True):
        answers.setdefault(question.database, {})[question.id] = int(one.equivalent) if is_scored(one) else None
    return answers


def _pass_at(sampled: Sequence[Sequence[Rollout]]) -> dict[str, float]:
    """Unbiased pass@1, 2, 4, ... and K."""
    most = max((len(group) for group in sampled), default=0)
    sizes = sorted({1 << power for power in range(most.bit_length()) if 1 << power <= most} | {most} - {0})
    scored = [[one.equivalent for one in group if is_scored(one)] for group in sampled]
    out: dict[str, float] = {}
    for k in sizes:
        enough = [pass_at_k(len(group), sum(group), k) for group in scored if len(group) >= k]
        if enough:
            out[str(k)] = sum(enough) / len(enough)
    return out

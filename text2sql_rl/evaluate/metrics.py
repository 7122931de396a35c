"""Judged answers -> the numbers of one question set.

In: questions and their answers. Out: one dict a role, as done.json and results.json keep it; docs/evaluation.md
explains every key. A question that could not be judged leaves the denominator and is counted; an answer that its token
limit cut is a wrong answer here, whatever the reward rule makes of it in training, since leaving it out would flatter.
The published rules count every question, as their scripts do. Not here: sampling, judging, comparing two policies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from text2sql_rl.evaluate.features import LENGTHS, features, length
from text2sql_rl.evaluate.judging import Answer
from text2sql_rl.evaluate.vote import Ballot, majority_at_k
from text2sql_rl.records import Question, Rollout
from text2sql_rl.statistics import bootstrap_mean, design_effect, pass_at_k, quantiles, questions_for_margin, wilson

_TRUNCATED = "truncated"
_POINT = 0.01

Row = tuple[Question, Answer]


def is_scored(rollout: Rollout) -> bool:
    """Whether the answer counts: it was judged, or cut by its token limit."""
    return rollout.reward.total is not None or rollout.cause == _TRUNCATED


def summarise(
    questions: Sequence[Question],
    first: Sequence[Answer],
    sampled: Sequence[Sequence[Answer]],
    *,
    seed: int,
) -> dict[str, Any]:
    """The numbers of one question set.

    Args:
        questions: Q questions.
        first: the answer to each that counts: the greedy one, or the first of a file.
        sampled: K sampled answers to each; empty when none were drawn.
        seed: of the bootstraps and votes.

    Returns:
        accuracy: share of scored questions whose answer is equivalent to gold on all instances; None if none is.
        ci95: its interval, whole databases resampled. wilson95: the same with questions as independent draws.
        correct, scored, questions, databases: counts.
        real_rows, set_match, suite_match: {accuracy, correct, questions, ci95} of instance 0 alone, of BIRD's rule and
            of the test suite's.
        unscored: reason -> count, left out of the accuracy.
        causes: why answers failed -> count.
        by_shape, by_hardness, by_database, by_feature, by_length: name -> {correct, scored}.
        answers: database -> question id -> 1, 0, or None when unscored; what paired tests need.
        pass_at: k -> unbiased pass@k of the sampled answers, averaged over questions with k scored ones; pass_at_ci95.
        majority_at: k -> share of questions where a vote of k over what they return is right.
        mean_tokens, tokens, seconds: of the first answers; see `_tokens` and `_seconds`.
        power: how many questions would give an interval of one point to each side.
    """
    rows = [(question, one) for question, one in zip(questions, first, strict=True) if is_scored(one.rollout)]
    right = [one.rollout.equivalent for _, one in rows]
    names = [question.database for question, _ in rows]
    every = list(zip(questions, first, strict=True))
    return {
        "accuracy": sum(right) / len(rows) if rows else None,
        "ci95": list(bootstrap_mean(right, names, seed=seed)) if rows else None,
        "wilson95": list(wilson(sum(right), len(rows))),
        "correct": sum(right),
        "scored": len(rows),
        "questions": len(questions),
        "databases": len({question.database for question in questions}),
        "real_rows": _share(rows, lambda one: one.marks.real_rows, seed),
        "set_match": _share(every, lambda one: one.marks.set_match, seed),
        "suite_match": _share(every, lambda one: one.marks.suite_match, seed),
        "unscored": _counts(
            one.rollout.reward.unscored or "no reason given" for one in first if not is_scored(one.rollout)
        ),
        "causes": _counts(one.rollout.cause for _, one in rows if not one.rollout.equivalent),
        "by_shape": _parts(rows, lambda question: (question.shape or "free",)),
        "by_hardness": _parts(rows, lambda question: (question.hardness,)),
        "by_database": _parts(rows, lambda question: (question.database,)),
        "by_feature": _parts(rows, lambda question: features(question.gold_sql)),
        "by_length": _parts(rows, lambda question: (length(question.gold_sql),), LENGTHS),
        "answers": _answers(every),
        **_of_samples(questions, sampled, seed),
        "mean_tokens": sum(one.rollout.completion.tokens for one in first) / max(1, len(first)),
        "tokens": _tokens([*first, *(one for group in sampled for one in group)]),
        "seconds": _seconds([*first, *(one for group in sampled for one in group)]),
        "power": _power(right, names),
    }


def _share(rows: Sequence[Row], mark: Callable[[Answer], bool], seed: int) -> dict[str, Any]:
    marks = [mark(one) for _, one in rows]
    names = [question.database for question, _ in rows]
    return {
        "accuracy": sum(marks) / len(marks) if marks else None,
        "correct": sum(marks),
        "questions": len(marks),
        "ci95": list(bootstrap_mean(marks, names, seed=seed)) if marks else None,
    }


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Most frequent first, then by name, so that the same answers give the same file."""
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))


def _parts(
    rows: Sequence[Row], names_of: Callable[[Question], Sequence[str]], order: Sequence[str] = ()
) -> dict[str, dict[str, int]]:
    parts: dict[str, dict[str, int]] = {}
    for question, one in rows:
        for name in names_of(question):
            part = parts.setdefault(name, {"correct": 0, "scored": 0})
            part["correct"] += one.rollout.equivalent
            part["scored"] += 1
    return {name: parts[name] for name in (order or sorted(parts)) if name in parts}


def _answers(rows: Sequence[Row]) -> dict[str, dict[str, int | None]]:
    answers: dict[str, dict[str, int | None]] = {}
    for question, one in rows:
        right = int(one.rollout.equivalent) if is_scored(one.rollout) else None
        answers.setdefault(question.database, {})[question.id] = right
    return answers


def _of_samples(questions: Sequence[Question], sampled: Sequence[Sequence[Answer]], seed: int) -> dict[str, Any]:
    """Pass@k and votes of k, for k = 1, 2, 4, ... and K."""
    most = max((len(group) for group in sampled), default=0)
    sizes = sorted({1 << power for power in range(most.bit_length()) if 1 << power <= most} | {most} - {0})
    scored = [[one for one in group if is_scored(one.rollout)] for group in sampled]
    out: dict[str, Any] = {"pass_at": {}, "pass_at_ci95": {}, "majority_at": {}}
    for k in sizes:
        groups = [(asked.database, group) for asked, group in zip(questions, scored, strict=True) if len(group) >= k]
        if not groups:
            continue
        passed = [pass_at_k(len(group), sum(one.rollout.equivalent for one in group), k) for _, group in groups]
        votes = [majority_at_k([_ballot(one) for one in group], k, seed=seed) for _, group in groups]
        out["pass_at"][str(k)] = sum(passed) / len(passed)
        out["pass_at_ci95"][str(k)] = list(bootstrap_mean(passed, [name for name, _ in groups], seed=seed))
        out["majority_at"][str(k)] = sum(votes) / len(votes)
    return out


def _ballot(answer: Answer) -> Ballot:
    return Ballot(answer.marks.result, answer.rollout.equivalent)


def _tokens(answers: Sequence[Answer]) -> dict[str, Any]:
    """Tokens of all completions: total, median and 95 % point; of their prompts where they are known."""
    written = [float(one.rollout.completion.tokens) for one in answers]
    prompts = [float(one.cost.prompt_tokens) for one in answers if one.cost.prompt_tokens is not None]
    return {"completion": _spread(written), "prompt": _spread(prompts)}


def _seconds(answers: Sequence[Answer]) -> dict[str, Any]:
    """Seconds until a completion was there, where somebody measured them, and that its SQL took on the real rows."""
    asked = [one.cost.seconds for one in answers if one.cost.seconds is not None]
    ran = [one.rollout.execution.elapsed_s for one in answers if one.rollout.execution is not None]
    return {"completion": _spread(asked), "sql": _spread(ran)}


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    median, high = quantiles(values, (0.5, 0.95))
    return {"total": sum(values), "median": median, "p95": high}


def _power(right: Sequence[bool], names: Sequence[str]) -> dict[str, Any] | None:
    if not right:
        return None
    effect = design_effect(right, names)
    share = sum(right) / len(right)
    # At 0 and 1 the formula says that one question is enough, which it is not: half a question more or less.
    careful = min(max(share, 0.5 / len(right)), 1 - 0.5 / len(right))
    return {"design_effect": effect, "questions_for_one_point": questions_for_margin(careful, _POINT, max(1.0, effect))}

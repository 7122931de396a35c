"""What the training stages read: questions by role, in the order they are trained, and the pairs made of answers.

In: the content folders, rollouts of earlier stages. Out: questions with their databases. Only training and dev
questions come through here: `asked` refuses held-out ones. Not here: the stages.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from text2sql_rl.content import Content
from text2sql_rl.errors import DataError, LeakError
from text2sql_rl.instances.store import shared_pairs
from text2sql_rl.learn.pairs import Pair
from text2sql_rl.policy.hf import token_ids
from text2sql_rl.prompts import Style
from text2sql_rl.prompts.slot import SlotStyle, placeholders
from text2sql_rl.records import Database, Group, Question, Split


def asked(content: Content, role: str) -> list[tuple[Question, Database]]:
    """The questions of a training set with their databases, counterfactual instances included.

    Raises:
        LeakError: one of them is held out.
        DataError: the set is empty.
    """
    questions = content.questions.role(role)
    for question in questions:
        if question.split is Split.HELDOUT:
            raise LeakError(f"held-out question {question.id} where training would touch it", field=role)
    if not questions:
        raise DataError(f"the question set {role!r} is empty", fix="Synthesize or import questions.")
    return shared_pairs(content, questions)


def fitting(
    items: Sequence[tuple[Question, Database]], style: Style, tokenizer: Any, longest: int
) -> tuple[list[tuple[Question, Database]], list[str]]:
    """The questions whose prompts fit, and the ids of those whose do not: they are left out and must be counted.

    Args:
        items: questions with their databases.
        style: of the prompts.
        tokenizer: of the policy.
        longest: most tokens of a prompt.

    Raises:
        DataError: none fits.
    """
    prompts = [style.prompt(question, database) for question, database in items]
    lengths = [len(ids) for ids in token_ids(tokenizer, prompts)]
    kept = [item for item, length in zip(items, lengths, strict=True) if length <= longest]
    if not kept:
        raise DataError(
            f"no prompt fits: the shortest of {len(items)} has {min(lengths, default=0)} tokens",
            field="sampling.max_prompt_tokens",
            fix=f"Raise it above {longest}.",
        )
    known = {question.id for question, _ in kept}
    return kept, [question.id for question, _ in items if question.id not in known]


def shuffled(content: Content, seed: int) -> list[tuple[Question, Database]]:
    """The rl questions in the run's own fixed order."""
    items = asked(content, "rl")
    return random.Random(seed).sample(items, len(items))


def training_order(kept: Sequence[str], count: int, seed: int) -> list[str]:
    """`count` question ids in training order: all in a new order each time round.

    Raises:
        DataError: there are none.
    """
    if not kept:
        raise DataError(
            "no question lies in the band low < pass rate < high",
            field="difficulty",
            fix="Widen the band, measure more questions, or train SFT longer.",
        )
    rng = random.Random(seed)
    order: list[str] = []
    while len(order) < count:
        order += rng.sample(list(kept), len(kept))
    return order[:count]


def count_visits(order: Sequence[str]) -> list[tuple[str, int]]:
    """Each question id with how often it came before it in the order, plus one: its visit in training."""
    seen: Counter[str] = Counter()
    visits = []
    for name in order:
        seen[name] += 1
        visits.append((name, seen[name]))
    return visits


def solved_pairs(groups: Sequence[Group], by_id: dict[str, tuple[Question, Database]], most: int) -> list[Pair]:
    """The distinct matching candidates, at most `most` a question, the most frequent first."""
    pairs: list[Pair] = []
    for group in groups:
        counts: dict[str, int] = {}
        for rollout in group.rollouts:
            if rollout.equivalent and rollout.candidate.sql:
                counts[rollout.candidate.sql] = counts.get(rollout.candidate.sql, 0) + 1
        for sql in sorted(counts, key=lambda text: (-counts[text], text))[:most]:
            pairs.append(Pair(*by_id[group.question_id], sql))
    return pairs


def vocabulary(content: Content) -> tuple[list[str], list[str]]:
    """Words of training questions that name nothing, and the tokens of their SQL answers. Only sft SQL is read."""
    style = SlotStyle(())
    words = {word for role in ("sft", "rl") for q, d in asked(content, role) for word in style.words(q, d)}
    known = SlotStyle(words)
    answers: set[str] = set()
    for question, database in asked(content, "sft"):
        prompt = known.prompt(question, database)
        answers.update((known.completion(prompt, database, question.gold_sql) or "").split())
    slots = set(placeholders())
    return sorted(words - slots), sorted(answers - slots - words)

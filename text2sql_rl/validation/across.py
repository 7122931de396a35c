"""What question sets of different splits have in common: databases, and nearly the same questions.

In: questions of several sets. Out: the databases that two splits use, and for a question its near duplicate in a split
that stands farther from training (train before dev before heldout), so that leaving out what is flagged keeps the
measuring sets whole. Two texts are near duplicates when they share at least 85 % of their words (Jaccard index of the
sets of words, case and punctuation aside). Not here: two questions of one split.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from text2sql_rl.records import Question, Split

_LEAST = 0.85
_SPLITS = tuple(Split)


def shared_databases(questions: Iterable[Question]) -> dict[str, tuple[str, ...]]:
    """The databases that questions of several splits use, with these splits."""
    used: dict[str, set[Split]] = defaultdict(set)
    for question in questions:
        used[question.database].add(question.split)
    return {
        name: tuple(split.value for split in _SPLITS if split in used[name])
        for name in sorted(used)
        if len(used[name]) > 1
    }


def near_duplicates(questions: Sequence[Question]) -> dict[tuple[str, str], str]:
    """(role, id) of a question -> id of its nearest duplicate in a split farther from training."""
    words = [frozenset(re.findall(r"\w+", question.text.lower())) for question in questions]
    spread = Counter(word for some in words for word in some)
    found: dict[tuple[str, str], str] = {}
    # Two sets that share 85 % share one of their rarest words: only those need a look.
    index: dict[str, list[int]] = defaultdict(list)
    order = sorted(range(len(questions)), key=lambda at: -_SPLITS.index(questions[at].split))
    for at in order:
        rare = list(_rarest(words[at], spread))
        near = _nearest(at, {other for word in rare for other in index[word]}, questions, words)
        if near is not None:
            found[questions[at].role, questions[at].id] = questions[near].id
        for word in rare:
            index[word].append(at)
    return found


def _rarest(words: frozenset[str], spread: Counter[str]) -> Iterator[str]:
    ordered = sorted(words, key=lambda word: (spread[word], word))
    yield from ordered[: len(ordered) - math.ceil(_LEAST * len(ordered)) + 1]


def _nearest(
    at: int, others: Iterable[int], questions: Sequence[Question], words: Sequence[frozenset[str]]
) -> int | None:
    best, nearest = _LEAST, None
    for other in sorted(others):
        if questions[other].split is questions[at].split:
            continue
        likeness = len(words[at] & words[other]) / len(words[at] | words[other])
        if likeness >= best and (nearest is None or likeness > best):
            best, nearest = likeness, other
    return nearest

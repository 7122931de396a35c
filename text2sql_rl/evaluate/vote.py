"""Majority vote: of k completions, the answer most of them agree on by what they return.

In: completions as (what they returned, whether that is right). Out: a share. The vote never sees the gold: two
completions agree when their executions gave the same bag of rows; those that gave no rows do not vote. Ties go to the
answer that came first. (Self-consistency, Wang et al. 2022, arXiv 2203.11171, over executions instead of texts.)
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from text2sql_rl.records import Execution, Outcome

# All ways to draw k of n are counted where there are at most this many; else as many are drawn.
_MOST_DRAWS = 200
_DIGITS = 10


class Ballot(NamedTuple):
    """What one completion returned (empty: nothing that could vote), and whether it is right."""

    result: str
    right: bool


def result_key(execution: Execution | None) -> str:
    """A short name of what an execution returned: equal for equal bags of rows, empty where there are none.

    Numbers are rounded to ten digits, so that sums in another order agree.
    """
    if execution is None or execution.outcome is not Outcome.ROWS:
        return ""
    rows = sorted("\x1f".join(map(_cell, row)) for row in execution.rows)
    return hashlib.sha256("\x1e".join([str(len(execution.types)), *rows]).encode()).hexdigest()[:16]


def majority(ballots: Sequence[Ballot]) -> bool:
    """Whether the winner is right: the first completion of the result that most of them returned."""
    counts = Counter(ballot.result for ballot in ballots if ballot.result)
    if not counts:
        return False
    most = max(counts.values())
    return next(ballot.right for ballot in ballots if ballot.result and counts[ballot.result] == most)


def majority_at_k(ballots: Sequence[Ballot], k: int, *, seed: int) -> float:
    """The chance that the vote of k of these completions, drawn without putting back, is right.

    Exact where there are at most 200 ways to draw; otherwise the mean over 200 draws.

    Raises:
        ValueError: not 1 <= k <= the number of completions.
    """
    if not 1 <= k <= len(ballots):
        raise ValueError(f"a vote of {k} among {len(ballots)} is not defined")
    draws = list(_draws(len(ballots), k, seed))
    return sum(majority([ballots[at] for at in drawn]) for drawn in draws) / len(draws)


def _draws(n: int, k: int, seed: int) -> Iterator[Sequence[int]]:
    if math.comb(n, k) <= _MOST_DRAWS:
        yield from itertools.combinations(range(n), k)
        return
    chance = random.Random(seed)
    for _ in range(_MOST_DRAWS):
        yield sorted(chance.sample(range(n), k))


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return repr(value)
    number = float(value)
    return f"{number or 0.0:.{_DIGITS}g}"  # the zero with a sign is that without

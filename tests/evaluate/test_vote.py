"""Votes over what completions return: by hand, exact against all draws, and by simulation."""

from __future__ import annotations

import itertools
import random

import pytest

from text2sql_rl.evaluate.vote import Ballot, majority, majority_at_k, result_key
from text2sql_rl.records import Execution, Outcome


def ballots(text: str, right: str = "a") -> list[Ballot]:
    return [Ballot("" if letter == "-" else letter, letter == right) for letter in text]


@pytest.mark.parametrize(
    ("text", "wins"),
    [("aab", True), ("abb", False), ("ab", True), ("ba", False), ("---a", True), ("----", False), ("bbaa", False)],
)
def test_a_vote_by_hand(text: str, wins: bool) -> None:
    assert majority(ballots(text)) is wins


def test_a_vote_of_one_is_the_share_that_is_right() -> None:
    assert majority_at_k(ballots("aabbbbbb"), 1, seed=0) == 0.25
    assert majority_at_k(ballots("aab-"), 4, seed=0) == 1.0


def test_few_draws_are_counted_exactly_and_many_are_sampled() -> None:
    few = ballots("abbacaab")
    exact = [majority(drawn) for drawn in itertools.combinations(few, 4)]
    assert majority_at_k(few, 4, seed=5) == sum(map(bool, exact)) / len(exact)
    many = ballots("ab" * 10)
    exact = [majority(drawn) for drawn in itertools.combinations(many, 5)]
    assert majority_at_k(many, 5, seed=5) == pytest.approx(sum(exact) / len(exact), abs=0.1)
    assert majority_at_k(many, 5, seed=5) == majority_at_k(many, 5, seed=5)


def test_voting_helps_who_is_mostly_right_and_hurts_who_is_not() -> None:
    chance = random.Random(3)
    for share, better in ((0.7, True), (0.3, False)):
        shares = []
        for _ in range(60):
            drawn = ballots("".join("a" if chance.random() < share else "b" for _ in range(8)))
            shares.append((majority_at_k(drawn, 1, seed=0), majority_at_k(drawn, 7, seed=0)))
        one, seven = (sum(column) / len(column) for column in zip(*shares, strict=True))
        assert (seven > one + 0.05) is better
        assert (seven < one - 0.05) is not better


def test_what_returns_the_same_rows_has_the_same_name() -> None:
    def key(*rows: tuple[object, ...], types: tuple[str, ...] = ("X",)) -> str:
        return result_key(Execution(outcome=Outcome.ROWS, columns=types, types=types, rows=rows))

    assert key((1,), (2,)) == key((2.0,), (1.00000000000001,))
    assert key((1,), (1,)) != key((1,))
    assert key(("1",)) != key((1,))
    assert key((None,)) != key(("",))
    assert key((-0.0,)) == key((0,))
    assert key((True,)) != key((1,))
    assert key() != key(types=("X", "Y"))
    assert result_key(None) == result_key(Execution(outcome=Outcome.ERROR)) == ""


def test_no_vote_without_voters() -> None:
    with pytest.raises(ValueError, match="a vote of 3 among 2"):
        majority_at_k(ballots("ab"), 3, seed=0)

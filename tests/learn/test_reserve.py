"""The reserve: who is asked how often, who rests, and that a restored one draws the same. No torch."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.learn.reserve import Reserve
from text2sql_rl.records import Candidate, Completion, Finish, Group, Reward, Rollout

G = 4
RATES = {"solved": (8, 8), "half": (4, 8), "hopeless": (0, 8), "unknown": (0, 0)}


def make_reserve(rates: dict[str, tuple[int, int]] | None = None, seed: int = 1, half_life: int = 10) -> Reserve:
    return Reserve(RATES if rates is None else rates, generations=G, half_life=half_life, seed=seed)


def group(name: str, *right: bool | None) -> Group:
    rollouts = [
        Rollout(
            question_id=name,
            database="db",
            completion=Completion(question_id=name, text="", raw="", finish=Finish.STOP, tokens=1),
            candidate=Candidate(sql=None),
            execution=None,
            verdict=None,
            reward=Reward(total=None if one is None else float(one)),
            cause="",
            equivalent=one is True,
            gold_rows=1,
            rows=None,
        )
        for one in right
    ]
    return make_group(rollouts, AdvantageRule())


def names(drawn: list[tuple[str, int]]) -> list[str]:
    return [name for name, _ in drawn]


def test_the_chance_of_a_mixed_group_worked_by_hand() -> None:
    """Without counts p is Beta(1/2, 1/2): E[p^2] = 3/8 for two answers, so a group of two is mixed by 1/4."""
    pair = Reserve({"unknown": (0, 0)}, generations=2, half_life=10, seed=1)
    assert pair.chance("unknown", 0) == pytest.approx(1 - 2 * 3 / 8)
    reserve = make_reserve()
    chances = {name: reserve.chance(name, 0) for name in RATES}
    assert chances["half"] > chances["unknown"] > chances["solved"] == pytest.approx(chances["hopeless"])


def test_counts_fade_to_nothing_known() -> None:
    reserve = make_reserve()
    solved = [reserve.chance("solved", step) for step in (0, 10, 20, 1000)]
    assert solved == sorted(solved)
    assert solved[-1] == pytest.approx(reserve.chance("unknown", 0))


def test_solved_questions_are_asked_less_often() -> None:
    rates = {f"{kind}-{number}": RATES[kind] for kind in ("solved", "half") for number in range(20)}
    asked: Counter[str] = Counter()
    reserve = make_reserve(rates, half_life=10**6)
    for step in range(200):
        asked.update(name.partition("-")[0] for name in names(reserve.draw(4, step)))
    assert asked["half"] > 2 * asked["solved"] > 0


def test_a_hopeless_question_rests_and_returns() -> None:
    reserve = make_reserve({"a": (1, 2), "b": (1, 2), "c": (1, 2)})
    reserve.note([group("a", False, False, False, False)], 3)
    resting = [names(reserve.draw(2, step)) for step in range(4, 13)]
    assert all("a" not in drawn for drawn in resting)
    assert "a" in names(reserve.draw(3, 5))  # where there are no others, it is asked
    later = [names(reserve.draw(2, step)) for step in range(13, 40)]
    assert any("a" in drawn for drawn in later)
    reserve.note([group("a", False, True, False, False)], 40)
    assert any("a" in names(reserve.draw(2, step)) for step in range(41, 50))


def test_what_could_not_be_scored_teaches_nothing() -> None:
    reserve, untouched = make_reserve(), make_reserve()
    reserve.note([group("half", None, None, None, None)], 5)
    assert reserve.state() == untouched.state()


def test_no_question_twice_in_a_step_while_there_are_others() -> None:
    reserve = make_reserve()
    first, second = reserve.draw(2, 0), reserve.draw(2, 0)
    assert sorted(names([*first, *second])) == sorted(RATES)
    again = reserve.draw(3, 0)
    assert len(set(names(again))) == 3
    assert all(visit == 2 for _, visit in again)
    assert len(reserve.draw(9, 1)) == 9  # more than there are: some twice


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(st.integers(1, 4), st.lists(st.booleans(), min_size=2, max_size=2)), min_size=2, max_size=8),
)
def test_a_restored_reserve_draws_what_the_other_would_have(seed: int, history: list[tuple[int, list[bool]]]) -> None:
    def play(reserve: Reserve, first: int, last: int) -> list[list[tuple[str, int]]]:
        drawn = []
        for step in range(first, last):
            count, right = history[step]
            drawn.append(reserve.draw(count, step))
            reserve.note([group(name, *right) for name in dict.fromkeys(names(drawn[-1]))], step)
        return drawn

    whole, half = make_reserve(seed=seed), make_reserve(seed=seed)
    cut = len(history) // 2
    expected = play(whole, 0, len(history))
    assert play(half, 0, cut) == expected[:cut]
    other = make_reserve(seed=seed)
    other.restore(json.loads(json.dumps(half.state())))
    assert play(other, cut, len(history)) == expected[cut:]
    assert other.state() == whole.state()

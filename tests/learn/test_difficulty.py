"""Pass rates, the band that training keeps, and measuring that never measures a chunk twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learn import tiny
from tests.learn.tiny import LIMITS, Killed, ScriptedJudge, make_rollout
from text2sql_rl.config import Difficulty
from text2sql_rl.content import Content
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.learn import difficulty
from text2sql_rl.learn.difficulty import filter_band, measure, pass_rate, summary
from text2sql_rl.policy.hf import Policy
from text2sql_rl.records import Group, PassRate
from text2sql_rl.rollout_log import Lineage, part_path, read_groups, write_groups

NONE = AdvantageRule("none", 0.0)


def group(*totals: float | None, question_id: str = "q") -> Group:
    return make_group([make_rollout(question_id, total) for total in totals], NONE)


def rates(*passed: int, of: int = 4) -> list[PassRate]:
    return [PassRate(question_id=f"q{n}", passed=n, scored=of, low=0.0, high=1.0) for n in passed]


def band(low: float, high: float) -> Difficulty:
    return Difficulty(questions=1, samples=4, low=low, high=high)


def test_a_pass_rate_counts_the_scored_only() -> None:
    rate = pass_rate(group(1.0, 0.0, None, 0.05, None))
    assert (rate.passed, rate.scored, rate.rate) == (1, 3, pytest.approx(1 / 3))
    assert rate.causes == {"wrong": 2}
    # Wilson 1927 for 1 of 3 at z = 1.96.
    assert (rate.low, rate.high) == (pytest.approx(0.0615, abs=1e-3), pytest.approx(0.7923, abs=1e-3))


def test_nothing_scored_says_nothing() -> None:
    rate = pass_rate(group(None, None))
    assert (rate.passed, rate.scored, rate.rate, rate.low, rate.high, rate.causes) == (0, 0, 0.0, 0.0, 1.0, {})


@given(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_interval_holds_the_rate(totals: list[float | None]) -> None:
    rate = pass_rate(group(*totals))
    assert 0.0 <= rate.low <= rate.rate <= rate.high <= 1.0


@pytest.mark.parametrize(
    ("low", "high", "kept", "easy", "hard"),
    [
        (0.0, 1.0, (1, 2, 3), (4,), (0,)),
        (-1.0, 1.0, (0, 1, 2, 3), (4,), ()),
        (0.25, 0.75, (2,), (3, 4), (0, 1)),
    ],
)
def test_the_band_is_open_at_both_ends(
    low: float, high: float, kept: tuple[int, ...], easy: tuple[int, ...], hard: tuple[int, ...]
) -> None:
    found = filter_band(rates(0, 1, 2, 3, 4), band(low, high))
    expected = [tuple(f"q{number}" for number in part) for part in (kept, easy, hard)]
    assert [found.kept, found.too_easy, found.too_hard] == expected
    assert found.unscored == ()


def test_what_was_not_scored_is_in_no_band() -> None:
    found = filter_band([*rates(2), PassRate(question_id="x", passed=0, scored=0, low=0, high=1)], band(-1, 1))
    assert (found.kept, found.unscored) == (("q2",), ("x",))


def test_the_summary_counts_every_question_once() -> None:
    totals = ([1.0] * 4, [1.0, 0.0, 0.0, 0.0], [0.0] * 4, [None] * 4)
    measured = [pass_rate(group(*part, question_id=f"q{number}")) for number, part in enumerate(totals)]
    numbers = summary(measured, filter_band(measured, band(0, 1)), 4)
    assert numbers["histogram"] == [2, 1, 0, 0, 1]
    assert numbers["questions"] == 4
    assert (numbers["kept"], numbers["too_easy"], numbers["too_hard"], numbers["unscored"]) == (1, 1, 1, 1)
    assert numbers["mean_pass_rate"] == pytest.approx(5 / 12)
    assert numbers["pass_at_k"] == 0.5
    assert numbers["causes"] == {"wrong": 7}


# ---- measuring in chunks -------------------------------------------------------------------------------------


class Measured:
    """One measurement of all rl questions in chunks of one, which ends before chunk `die_at` is logged."""

    def __init__(self, content: Content, policy: Policy, folder: Path, die_at: int = -1) -> None:
        self.folder, self.die_at = folder, die_at
        self.judge = ScriptedJudge()
        chunks = measure(
            policy, tiny.style(), tiny.items(content, "rl"), LIMITS, self.judge,  # type: ignore[arg-type]
            samples=3, seed=5, done=self.done, log=self.log,
        )  # fmt: skip
        self.counts: list[int] = []
        self.groups: list[Group] = []
        try:
            for count, groups in chunks:
                self.counts.append(count)
                self.groups += groups
        except Killed:
            pass

    def done(self, number: int) -> list[Group] | None:
        path = part_path(self.folder, number)
        return read_groups(path) if path.exists() else None

    def log(self, number: int, groups: Sequence[Group]) -> None:
        if number == self.die_at:
            raise Killed
        write_groups(part_path(self.folder, number), groups, Lineage(run="tiny", stage="difficulty"), step=number)


def said(groups: Sequence[Group]) -> list[list[str]]:
    return [[rollout.completion.raw for rollout in group.rollouts] for group in groups]


def test_measuring_goes_on_where_it_was_killed(
    content: Content, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(difficulty, "CHUNK", 1)
    policy = Policy(model_folder)
    whole = Measured(content, policy, tmp_path / "whole")
    assert whole.counts == [1, 2, 3, 4]
    assert whole.judge.judged == [f"rl-{number}" for number in range(4) for _ in range(3)]

    first = Measured(content, policy, tmp_path / "killed", die_at=2)
    assert first.counts == [1, 2]
    second = Measured(content, policy, tmp_path / "killed")
    assert second.counts == [1, 2, 3, 4]
    assert second.judge.judged == ["rl-2"] * 3 + ["rl-3"] * 3
    assert said(second.groups) == said(whole.groups)
    assert [pass_rate(one) for one in second.groups] == [pass_rate(one) for one in whole.groups]

    third = Measured(content, policy, tmp_path / "killed")
    assert third.judge.judged == []
    assert said(third.groups) == said(whole.groups)


def test_chunks_differ_in_their_seeds(
    content: Content, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every chunk would repeat the same luck."""
    monkeypatch.setattr(difficulty, "CHUNK", 1)
    seeds: list[int] = []
    policy = Policy(model_folder)
    sample = policy.sample
    monkeypatch.setattr(policy, "sample", lambda *args, **how: seeds.append(how["seed"]) or sample(*args, **how))
    Measured(content, policy, tmp_path)
    assert seeds == [5, 6, 7, 8]

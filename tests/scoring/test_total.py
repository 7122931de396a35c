"""Totals: one case a part, and the invariants over generated evidence for every released rule."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.records import Candidate, Execution, Finish, Gold, Match, Outcome, Reward, Verdict
from text2sql_rl.scoring import Evidence, Rule, is_right, load_rule, rule_names, score, standing

SOUND = [rule for rule in map(load_rule, rule_names()) if not rule.deliberately_bad]
BOUND = load_rule("bound-v1")
SQL = Candidate(sql="SELECT a FROM t", answers=1)
NOTHING = Candidate(sql=None, reason="no_sql", clean=False)


def rows(count: int, reads_tables: bool = True) -> Execution:
    return Execution(outcome=Outcome.ROWS, columns=("a",), rows=((1,),) * count, reads_tables=reads_tables)


def gold(count: int = 10) -> Gold:
    return Gold(sql="SELECT a FROM t", execution=rows(count))


def verdict(overlap: float = 0.0, columns: float = 0.0, match: Match = Match.MISMATCH) -> Verdict:
    return Verdict(match=match, code="code", words="words", row_overlap=overlap, column_overlap=columns)


def ran(count: int, overlap: float = 0.0, columns: float = 0.0, gold_rows: int = 10) -> Evidence:
    return Evidence(candidate=SQL, execution=rows(count), gold=gold(gold_rows), verdict=verdict(overlap, columns))


RIGHT = replace(ran(10), verdict=verdict(1.0, 1.0, Match.MATCH), equivalent=True)


def stopped(outcome: Outcome) -> Evidence:
    return replace(ran(10), execution=Execution(outcome=outcome, reason="why"))


NO_ANSWER = Evidence(candidate=NOTHING, execution=None, gold=gold(), verdict=None)


@pytest.mark.parametrize(
    ("evidence", "place", "total"),
    [
        (RIGHT, "equivalent", 1.0),
        (replace(RIGHT, candidate=replace(SQL, clean=False)), "equivalent", 0.95),
        (replace(RIGHT, finish=Finish.LENGTH), "equivalent", 0.95),
        (replace(RIGHT, candidate=replace(SQL, answers=2)), "no_answer", -0.1),
        (replace(RIGHT, execution=rows(10, reads_tables=False)), "constant", -0.025),
        (ran(10, 1.0, 1.0), "near", 0.05),
        (ran(8, 0.8, 0.0), "wrong", 0.02),
        (ran(10, 0.5, 0.5), "near", 0.025),
        (ran(10), "wrong", 0.0),
        (ran(0), "empty", -0.015),
        (ran(1, 0.1), "row_count", -0.015),
        (ran(51, 0.2), "row_count", -0.015),
        (ran(50), "wrong", 0.0),
        (ran(2), "wrong", 0.0),
        (ran(3, gold_rows=0), "wrong", 0.0),
        (ran(6, gold_rows=0), "row_count", -0.015),
        (ran(0, gold_rows=0), "wrong", 0.0),
        (stopped(Outcome.ERROR), "error", -0.02),
        (stopped(Outcome.TIMEOUT), "timeout", -0.05),
        (stopped(Outcome.MEMORY), "timeout", -0.05),
        (stopped(Outcome.TOO_LARGE), "timeout", -0.05),
        (stopped(Outcome.REFUSED), "refused", -0.2),
        (replace(stopped(Outcome.REFUSED), candidate=replace(SQL, answers=2)), "refused", -0.2),
        (replace(stopped(Outcome.REFUSED), finish=Finish.LENGTH), "refused", -0.25),
        (replace(ran(3), execution=rows(3, False), finish=Finish.LENGTH), "constant", -0.075),
        (NO_ANSWER, "no_answer", -0.1),
        (replace(NO_ANSWER, finish=Finish.LENGTH), "no_answer", -0.15),
    ],
)
def test_standing_and_total_under_the_default_rule(evidence: Evidence, place: str, total: float) -> None:
    assert standing(evidence, BOUND.ratio) == place
    assert score(evidence, BOUND).total == pytest.approx(total)


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        (replace(RIGHT, gold=replace(gold(), unverifiable="it times out")), "it times out"),
        (replace(NO_ANSWER, gold=replace(gold(), unverifiable="it times out")), "it times out"),
        (stopped(Outcome.FAULT), "the sandbox failed: why"),
        (replace(ran(10), verdict=verdict(match=Match.UNVERIFIABLE)), "words"),
        (replace(ran(10), execution=None), "not run"),
        (replace(ran(10), verdict=None), "not run"),
    ],
)
@pytest.mark.parametrize("rule", SOUND, ids=lambda rule: rule.name)
def test_what_cannot_be_judged_is_never_a_number(evidence: Evidence, says: str, rule: Rule) -> None:
    reward = score(evidence, rule)
    assert reward.total is None
    assert reward.items == ()
    assert says in reward.unscored
    assert (reward.rule, reward.rule_sha256) == (rule.name, rule.sha256)


def item(reward: Reward, name: str) -> tuple[float, float]:
    found = next(item for item in reward.items if item.name == name)
    return found.value, found.points


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("format", RIGHT, NO_ANSWER),
        ("executes", ran(0), stopped(Outcome.ERROR)),
        ("correct", RIGHT, ran(10, 1.0, 1.0)),
        ("rows", ran(10, 1.0), ran(51, 1.0)),
        ("columns", ran(10, 0.0, 1.0), ran(51, 0.0, 1.0)),
        ("empty", ran(0), ran(0, gold_rows=0)),
        ("row_count", ran(51), ran(10)),
        ("error", stopped(Outcome.ERROR), stopped(Outcome.TIMEOUT)),
        ("timeout", stopped(Outcome.MEMORY), stopped(Outcome.ERROR)),
        ("no_answer", NO_ANSWER, ran(0)),
        ("over_long", replace(RIGHT, finish=Finish.LENGTH), RIGHT),
        ("refused", stopped(Outcome.REFUSED), NO_ANSWER),
        ("constant", replace(ran(3), execution=rows(3, False)), ran(3)),
        ("several_answers", replace(RIGHT, candidate=replace(SQL, answers=2)), RIGHT),
    ],
)
def test_each_part_measures_what_it_says(name: str, holds: Evidence, fails: Evidence) -> None:
    assert item(score(holds, BOUND), name)[0] == 1.0
    assert item(score(fails, BOUND), name) == (0.0, 0.0)


def test_a_constant_is_legal_where_the_gold_is_one() -> None:
    constant = Gold(sql="SELECT 1", execution=rows(1, reads_tables=False))
    evidence = replace(RIGHT, execution=rows(1, reads_tables=False), gold=constant)
    assert score(evidence, BOUND).total == 1.0


def test_shaping_is_cut_at_its_bound() -> None:
    rule = BOUND.model_copy(update={"components": {"correct": 0.5, "rows": 0.5}})
    reward = score(ran(10, 1.0), rule)
    assert item(reward, "binding") == pytest.approx((1.0, -0.45))
    assert reward.total == pytest.approx(0.05)


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    """Evidence as the judge can produce it: the parts agree with each other."""
    finish = draw(st.sampled_from(Finish))
    gold_rows = draw(st.sampled_from((0, 1, 3, 40)))
    if draw(st.integers(0, 5)) == 0:
        return Evidence(candidate=NOTHING, execution=None, gold=gold(gold_rows), verdict=None, finish=finish)
    candidate = Candidate(sql="SELECT 1", answers=draw(st.sampled_from((1, 1, 1, 2))), clean=draw(st.booleans()))
    outcome = draw(st.sampled_from([Outcome.ROWS] * 4 + [one for one in Outcome if one is not Outcome.FAULT]))
    if outcome is not Outcome.ROWS:
        execution = Execution(outcome=outcome)
        return Evidence(
            candidate=candidate, execution=execution, gold=gold(gold_rows), verdict=verdict(), finish=finish
        )
    equivalent = draw(st.booleans())
    count = gold_rows if equivalent else draw(st.sampled_from((0, 1, 2, 3, 39, 300)))
    overlaps = st.floats(min_value=0, max_value=1)
    found = verdict(1.0, 1.0, Match.MATCH) if equivalent else verdict(draw(overlaps), draw(overlaps))
    return Evidence(
        candidate=candidate,
        execution=rows(count, draw(st.booleans())),
        gold=gold(gold_rows),
        verdict=found,
        finish=finish,
        equivalent=equivalent,
    )


TIERS = {
    "equivalent": 0,
    "near": 1,
    "wrong": 2,
    "empty": 3,
    "row_count": 3,
    "error": 4,
    "constant": 5,
    "timeout": 6,
    "no_answer": 7,
    "refused": 8,
}


def total_of(evidence: Evidence, rule: Rule) -> float:
    total = score(evidence, rule).total
    assert total is not None
    return total


@pytest.mark.parametrize("rule", SOUND, ids=lambda rule: rule.name)
@given(one=evidences(), other=evidences())
@settings(max_examples=150, deadline=None)
def test_dominance_binding_order_and_bounds(rule: Rule, one: Evidence, other: Evidence) -> None:
    first, second = total_of(one, rule), total_of(other, rule)
    assert rule.bounds.low <= first <= rule.bounds.high
    if not is_right(one):
        assert first <= rule.binding.shaping_at_most
    if is_right(one) and not is_right(other):
        assert first - second >= rule.dominance_margin - 1e-9
    better, worse = TIERS[standing(one, rule.ratio)], TIERS[standing(other, rule.ratio)]
    if one.finish is other.finish and better < worse:
        assert first > second if rule.order == "strict" else first >= second


@pytest.mark.parametrize("rule", SOUND, ids=lambda rule: rule.name)
@given(evidence=evidences())
@settings(max_examples=80, deadline=None)
def test_padding_repeats_and_running_on_earn_nothing(rule: Rule, evidence: Evidence) -> None:
    total = total_of(evidence, rule)
    spoilt = (
        replace(evidence, candidate=replace(evidence.candidate, clean=False)),
        replace(evidence, candidate=replace(evidence.candidate, answers=max(2, evidence.candidate.answers))),
        replace(evidence, finish=Finish.LENGTH),
    )
    for one in spoilt:
        assert total_of(one, rule) <= total


@pytest.mark.parametrize("rule", [*SOUND, load_rule("executes-only-v1")], ids=lambda rule: rule.name)
@given(evidence=evidences())
@settings(max_examples=80, deadline=None)
def test_the_items_are_the_whole_evidence(rule: Rule, evidence: Evidence) -> None:
    reward = score(evidence, rule)
    assert reward.total == pytest.approx(math.fsum(item.points for item in reward.items), abs=1e-12)
    assert all(0 <= item.value <= 1 for item in reward.items)
    assert all(item.points <= 0 for item in reward.items if item.kind != "component")
    assert score(evidence, rule) == reward

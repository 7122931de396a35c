"""A rollout told in words: every fact that decided its reward is there, and nothing that did not."""

from __future__ import annotations

import json
from dataclasses import replace

from text2sql_rl.explain import evidence, explain, one_line
from text2sql_rl.records import (
    Candidate,
    Completion,
    Execution,
    Finish,
    Item,
    Match,
    Outcome,
    Reward,
    Rollout,
    Verdict,
)

WRONG = Rollout(
    question_id="q1",
    database="stable",
    completion=Completion(question_id="q1", text="SELECT 3", raw="SELECT 3", finish=Finish.STOP, tokens=2),
    candidate=Candidate(sql="SELECT 3", answers=1),
    execution=Execution(outcome=Outcome.ROWS, columns=("3",), types=("INTEGER",), rows=((3,),)),
    verdict=Verdict(match=Match.MISMATCH, code="values", words="other values", flags=("weak",)),
    reward=Reward(
        total=-0.025,
        rule="strict",
        items=(
            Item(name="correct", kind="component", value=0.0, weight=0.9, points=0.0, why="equivalent"),
            Item(name="constant", kind="gate", value=1.0, weight=-0.025, points=-0.025, why="reads no table"),
        ),
    ),
    cause="wrong",
    equivalent=False,
    gold_rows=1,
    rows=1,
)


def test_a_wrong_answer_in_words() -> None:
    assert explain(WRONG).splitlines() == [
        "candidate  SELECT 3",
        "execution  rows: 1 rows, gold has 1",
        "verdict    mismatch, values: other values [weak]",
        "reward     -0.025, counted as wrong, by rule strict",
        "   -0.0250  gate       constant         1 of -0.025: reads no table",
    ]


def test_no_answer_and_unscored_in_words() -> None:
    silent = replace(
        WRONG,
        candidate=Candidate(sql=None, reason="no SQL in the text", clean=False),
        execution=None,
        verdict=None,
        reward=Reward(total=None, unscored="the gold fails"),
    )
    assert explain(silent).splitlines() == [
        "candidate  none: no SQL in the text",
        "           with more beside the one answer",
        "reward     unscored: the gold fails",
    ]


def test_a_failed_execution_says_why() -> None:
    failed = replace(WRONG, execution=Execution(outcome=Outcome.TIMEOUT, reason="stopped after 2 s"), rows=None)
    assert "execution  timeout: stopped after 2 s" in explain(failed).splitlines()


def test_evidence_is_json_without_the_rows() -> None:
    told = json.loads(json.dumps(evidence(WRONG)))
    assert told["execution"]["rows"] == []
    assert told["execution"]["outcome"] == "rows"
    assert told["reward"]["items"][1]["points"] == -0.025
    assert evidence(replace(WRONG, execution=None))["execution"] is None


def test_an_engines_long_error_stays_on_one_line() -> None:
    reason = 'Binder Error: column "nme" not found!\nCandidate bindings: "name"\n\nLINE 1: SELECT nme FROM t\n      ^^^'
    failed = replace(
        WRONG,
        execution=Execution(outcome=Outcome.ERROR, reason=reason),
        verdict=Verdict(match=Match.MISMATCH, code="error", words=reason),
        rows=None,
    )
    lines = explain(failed).splitlines()
    assert lines[1] == 'execution  error: Binder Error: column "nme" not found! Candidate bindings: "name"'
    assert lines[2].startswith("reward")
    assert one_line("x" * 500) == "x" * 197 + "..."

"""The report says in words which advantage and which loss the run declares."""

from __future__ import annotations

from text2sql_rl.group import describe_aggregation
from text2sql_rl.report.numbers import declared


def test_the_declared_advantage_has_its_formula_and_its_loss() -> None:
    assert declared({"advantage": {"scale": "sample", "floor": 0.5}, "aggregation": "dr_grpo"}) == {
        "scale": "sample",
        "floor": 0.5,
        "formula": "(reward - group mean) / sample standard deviation, the divisor at least 0.5",
        "loss": describe_aggregation("dr_grpo"),
        "truncated": "a completion cut at the token limit counts like any other",
    }


def test_a_run_of_before_the_choice_says_what_its_loss_was() -> None:
    found = declared({"advantage": {"scale": "batch", "floor": 0.0}})
    assert found["loss"] == describe_aggregation("dapo")
    assert "sample standard deviation over all rollouts of the step" in found["formula"]

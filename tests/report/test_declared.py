"""The report says in words which advantage and which loss the run declares."""

from __future__ import annotations

from text2sql_rl.group import AGGREGATION_WORDS
from text2sql_rl.report.numbers import declared


def test_the_declared_advantage_has_its_formula_and_its_loss() -> None:
    assert declared({"scale": "sample", "floor": 0.5}) == {
        "scale": "sample",
        "floor": 0.5,
        "formula": "(reward - group mean) / sample standard deviation, the divisor at least 0.5",
        "loss": AGGREGATION_WORDS,
        "truncated": "a completion cut at the token limit counts like any other",
    }

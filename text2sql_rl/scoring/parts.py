"""What a rule can pay, deduct and cap: one pure function a part, and the three literal tuples that list them.

In: evidence and its standing. Out: a measurement in [0, 1]. Not here: weights, caps, totals.
A new part = one function, one entry in its tuple, one case in the tests; rules that do not name it give it no weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from text2sql_rl.records import Finish, Outcome
from text2sql_rl.scoring.evidence import Evidence


class Part(NamedTuple):
    """A named measurement; `words` say what a full measurement means."""

    name: str
    measure: Callable[[Evidence, str], float]
    words: str


def _format(evidence: Evidence, standing: str) -> float:
    return float(evidence.candidate.sql is not None and evidence.candidate.clean and evidence.candidate.answers == 1)


def _executes(evidence: Evidence, standing: str) -> float:
    return float(evidence.execution is not None and evidence.execution.outcome is Outcome.ROWS)


def _correct(evidence: Evidence, standing: str) -> float:
    return float(standing == "equivalent")


# Overlap is paid only where the row count is plausible: a table dump overlaps with nearly every answer.
def _rows(evidence: Evidence, standing: str) -> float:
    if standing == "equivalent":
        return 1.0
    return evidence.verdict.row_overlap if evidence.verdict and standing in ("near", "wrong") else 0.0


def _columns(evidence: Evidence, standing: str) -> float:
    if standing == "equivalent":
        return 1.0
    return evidence.verdict.column_overlap if evidence.verdict and standing in ("near", "wrong") else 0.0


def _empty(evidence: Evidence, standing: str) -> float:
    return float(standing == "empty")


def _row_count(evidence: Evidence, standing: str) -> float:
    return float(standing == "row_count")


def _error(evidence: Evidence, standing: str) -> float:
    return float(standing == "error")


def _timeout(evidence: Evidence, standing: str) -> float:
    return float(standing == "timeout")


def _no_answer(evidence: Evidence, standing: str) -> float:
    return float(standing == "no_answer")


def _over_long(evidence: Evidence, standing: str) -> float:
    return float(evidence.finish is Finish.LENGTH)


def _refused(evidence: Evidence, standing: str) -> float:
    return float(standing == "refused")


def _constant(evidence: Evidence, standing: str) -> float:
    return float(standing == "constant")


def _several_answers(evidence: Evidence, standing: str) -> float:
    return float(evidence.candidate.answers > 1)


COMPONENTS = (
    Part("format", _format, "the completion holds one answer and nothing beside it"),
    Part("executes", _executes, "the candidate gives rows"),
    Part("correct", _correct, "the candidate is equivalent to the gold on every instance"),
    Part("rows", _rows, "share of the gold's rows reproduced, where the row count is plausible"),
    Part("columns", _columns, "share of the gold's columns reproduced, where the row count is plausible"),
)
PENALTIES = (
    Part("empty", _empty, "no rows where the gold has some"),
    Part("row_count", _row_count, "far fewer or far more rows than the gold"),
    Part("error", _error, "the candidate fails to run"),
    Part("timeout", _timeout, "the candidate reaches a limit of time, memory or size"),
    Part("no_answer", _no_answer, "no candidate, or several different ones"),
    Part("over_long", _over_long, "the token limit cut the completion"),
)
GATES = (
    Part("refused", _refused, "the sandbox refuses the candidate: it is unsafe, or several statements"),
    Part("constant", _constant, "the candidate reads no table"),
    Part("several_answers", _several_answers, "the completion holds several different answers"),
)

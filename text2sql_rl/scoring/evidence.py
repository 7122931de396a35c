"""What a reward is computed from, and the one word it stands under.

In: records of one judged completion. Out: `Evidence`, why it cannot be scored, and its standing.
Not here: how many points a standing is worth; that is the rule file's.
"""

from __future__ import annotations

from dataclasses import dataclass

from text2sql_rl.records import Candidate, Execution, Finish, Gold, Match, Outcome, Verdict

# Best first; a strict rule pays each of them more than every later one (empty and row_count stand side by side).
STANDINGS = (
    "equivalent",
    "near",
    "wrong",
    "empty",
    "row_count",
    "error",
    "constant",
    "timeout",
    "no_answer",
    "refused",
)
# At least half of the gold's rows and columns, taken together, are reproduced.
NEAR_OVERLAP = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything a reward may depend on.

    `execution` and `verdict` are of instance 0, and None where the completion held no candidate. `equivalent` is
    true when the verdict is a match on every instance.
    """

    candidate: Candidate
    execution: Execution | None
    gold: Gold
    verdict: Verdict | None
    finish: Finish = Finish.STOP
    equivalent: bool = False


@dataclass(frozen=True, slots=True)
class RowRatio:
    """Candidate's rows over the gold's (at least one) outside of [low, high] are an odd row count."""

    low: float
    high: float


def unscored_reason(evidence: Evidence) -> str:
    """Why this cannot be scored, in words; empty when it can."""
    if evidence.gold.unverifiable:
        return f"the gold cannot judge: {evidence.gold.unverifiable}"
    if evidence.candidate.sql is None:
        return ""
    if evidence.execution is None or evidence.verdict is None:
        return "the candidate was not run"
    if evidence.execution.outcome is Outcome.FAULT:
        return f"the sandbox failed: {evidence.execution.reason or 'no reason given'}"
    return evidence.verdict.words if evidence.verdict.match is Match.UNVERIFIABLE else ""


def is_constant(evidence: Evidence) -> bool:
    """Whether the candidate's rows are typed in where the gold reads a table: it reads none, or only constants."""
    execution, verdict = evidence.execution, evidence.verdict
    if execution is None or execution.outcome is not Outcome.ROWS or not evidence.gold.execution.reads_tables:
        return False
    return not execution.reads_tables or (verdict is not None and verdict.code == "constant")


def is_right(evidence: Evidence) -> bool:
    """Whether this counts as the right answer: equivalent, the only answer given, and read from the database."""
    return (
        evidence.equivalent
        and evidence.candidate.sql is not None
        and evidence.candidate.answers <= 1
        and not is_constant(evidence)
    )


def standing(evidence: Evidence, ratio: RowRatio) -> str:
    """The one of `STANDINGS` a scorable completion stands under; where several apply, the gravest.

    Reaching a limit of time, memory or size is all `timeout`. Several different answers are no answer.
    """
    if is_right(evidence):
        return "equivalent"
    execution, verdict = evidence.execution, evidence.verdict
    if execution is None or verdict is None:
        return "no_answer"
    if execution.outcome is Outcome.REFUSED:
        return "refused"
    if evidence.candidate.answers > 1:
        return "no_answer"
    if execution.outcome is Outcome.ERROR:
        return "error"
    if execution.outcome is not Outcome.ROWS:
        return "timeout"
    return "constant" if is_constant(evidence) else _of_rows(len(execution.rows), evidence, verdict, ratio)


def _of_rows(rows: int, evidence: Evidence, verdict: Verdict, ratio: RowRatio) -> str:
    gold_rows = len(evidence.gold.execution.rows)
    if not rows and gold_rows:
        return "empty"
    # An empty gold has no ratio: one row counts as the nearest thing to it.
    if not rows == gold_rows == 0 and not ratio.low <= max(rows, 1) / max(gold_rows, 1) <= ratio.high:
        return "row_count"
    return "near" if (verdict.row_overlap + verdict.column_overlap) / 2 >= NEAR_OVERLAP else "wrong"

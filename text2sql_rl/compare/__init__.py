"""Whether a candidate's rows answer the question the way the gold's do.

In: a prepared gold (gold.py) and the execution of a candidate on the same instance. Out: a verdict with a code
for counting, words for people, and overlaps for partial credit. Pure: it runs nothing and reads no file.
Not here: extraction, execution, preparing the gold, rewards.

Policy, in one place:
- Rows are a bag: duplicates matter. Order matters on the gold's sort keys and only there; tied rows may come in
  any order, and where LIMIT cuts a tie any legal choice is accepted.
- Column names never matter in the gold's order; another order must be told by names or families (columns.py).
  A missing or an extra column is a mismatch.
- What makes two cells equal is the docstring of cells.py.
- Empty answers match when number and families of the columns agree, flagged `empty`.
- A candidate that reads no table, or can only return constants of its own or nothing (typed.py), never answers a gold
  that reads.
- A gold that cannot judge gives `unverifiable`; so does a candidate that differs only where the gold leaves the
  answer open. A mismatch with a second defensible reading (doubts.py) is flagged `ambiguous` and names it.

Overlaps: `row_overlap` is the multiset intersection of rows over the larger number of rows; `column_overlap` the
share of the gold's columns reproduced as whole columns (same values, same multiplicity). Both 1.0 for a match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from text2sql_rl.compare.cells import Family, comparable, family
from text2sql_rl.compare.columns import Assignment, assignments
from text2sql_rl.compare.doubts import doubt, weakness
from text2sql_rl.compare.rows import Kind, Sameness, answer_width, relate
from text2sql_rl.compare.shares import column_share
from text2sql_rl.compare.typed import typed_in
from text2sql_rl.records import Execution, Gold, Match, Outcome, Verdict

__all__ = ["compare", "overall", "proves_little", "tells"]

_WORDS = {
    Kind.ORDER: "the right rows, but not in the order the gold asks for",
    Kind.MULTIPLICITY: "the right distinct rows, but not as often as in the gold",
    Kind.VALUES: "other values than the gold",
}


def compare(gold: Gold, execution: Execution, sql: str = "") -> Verdict:
    """Compare a candidate's execution with the prepared gold of the same instance.

    Args:
        gold: the prepared gold.
        execution: what the candidate gave.
        sql: the candidate's text; with it, a match is refused when the answer is typed in.

    Never raises for what a candidate returned. Symmetric up to the gold's sort keys and booleans.
    """
    if gold.unverifiable:
        return Verdict(match=Match.UNVERIFIABLE, code="gold", words=gold.unverifiable, flags=gold.flags)
    if execution.outcome == Outcome.FAULT:
        return Verdict(match=Match.UNVERIFIABLE, code="fault", words=execution.reason or "the sandbox failed")
    if execution.outcome != Outcome.ROWS:
        return Verdict(match=Match.MISMATCH, code=execution.outcome.value, words=execution.reason or "no rows")
    if gold.execution.reads_tables and not execution.reads_tables:
        return _mismatch("constant", "the candidate reads no table, so its rows are typed in")
    verdict = _matched(gold, execution)
    if verdict and sql and typed_in(sql, gold.sql, proves_little=proves_little(execution)):
        return _mismatch("constant", "the candidate can only return constants of its own, so its answer is typed in")
    return verdict or _mismatched(gold, execution)


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict over all instances: a match only if no instance tells candidate and gold apart.

    Args:
        verdicts: one an instance, the real one first. What is unverifiable or ambiguous on a later instance is no
            evidence against a match on the real rows.
    """
    first = verdicts[0]
    if first.match != Match.MATCH:
        return first
    for verdict in verdicts[1:]:
        if tells(verdict):
            words = f"right on the real rows only; on other rows of the same schema: {verdict.words}"
            return replace(verdict, words=words, flags=(*verdict.flags, "other_rows"))
    return first


def tells(verdict: Verdict) -> bool:
    """Whether a verdict on other rows tells a candidate from the gold that it matched on the real ones.

    A second defensible reading does not; nor does a time of day beside a date that was midnight on the real rows.
    """
    return verdict.match == Match.MISMATCH and not {"ambiguous", "same_day"} & set(verdict.flags)


def proves_little(execution: Execution) -> bool:
    """Whether an empty selection would give the same: no rows, or one row of zeros, NULLs and falses."""
    return len(execution.rows) < 2 and not any(cell for row in execution.rows for cell in row)


def _matched(gold: Gold, execution: Execution) -> Verdict | None:
    flags = list(gold.flags)
    if not _identical(gold, execution):
        assignment = _accepted(gold, execution)
        if assignment is None:
            return None
        if assignment != tuple(range(len(assignment))):
            flags.append("permuted_columns")
        if _booleans_as_numbers(gold, execution, assignment):
            flags.append("boolean_as_number")
    if not execution.rows:
        flags.append("empty")
    flags.extend(weakness(gold))
    words = "the same rows as the gold" if execution.rows else "both answers are empty"
    return Verdict(
        match=Match.MATCH,
        code="match",
        words=words,
        row_overlap=1.0,
        column_overlap=1.0,
        flags=tuple(dict.fromkeys(flags)),
    )


def _identical(gold: Gold, execution: Execution) -> bool:
    """The cheap answer for most right candidates: same types, same rows in the same order."""
    return not gold.hidden and gold.execution.types == execution.types and gold.execution.rows == execution.rows


def _accepted(gold: Gold, execution: Execution) -> Assignment | None:
    if len(execution.columns) != answer_width(gold) or bool(execution.rows) != bool(gold.execution.rows):
        return None
    for assignment in _assignments(gold, execution):
        if execution.rows:
            if relate(gold, execution, assignment).kind == Kind.SAME:
                return assignment
        elif _comparable(gold, execution, assignment):
            return assignment
    return None


def _assignments(gold: Gold, execution: Execution) -> tuple[Assignment, ...]:
    width = answer_width(gold)
    return assignments(gold.execution.columns[:width], gold.execution.types[:width], execution.columns, execution.types)


def _comparable(gold: Gold, execution: Execution, assignment: Assignment) -> bool:
    return all(
        comparable(family(gold.execution.types[at]), family(execution.types[other]))
        for at, other in enumerate(assignment)
    )


def _booleans_as_numbers(gold: Gold, execution: Execution, assignment: Assignment) -> bool:
    return any(
        (family(gold.execution.types[at]), family(execution.types[other])) == (Family.BOOL, Family.NUMBER)
        for at, other in enumerate(assignment)
    )


def _mismatched(gold: Gold, execution: Execution) -> Verdict:
    verdict = _explained(gold, execution)
    other = doubt(gold, execution, lambda g, e: _accepted(g, e) is not None)
    if other is None:
        return verdict
    if other.plain:
        return replace(verdict, flags=(*verdict.flags, other.name))
    return Verdict(
        match=Match.UNVERIFIABLE if other.open else Match.MISMATCH,
        code=other.name if other.open else verdict.code,
        words=other.words,
        row_overlap=verdict.row_overlap,
        column_overlap=verdict.column_overlap,
        flags=("ambiguous", other.name),
    )


def _explained(gold: Gold, execution: Execution) -> Verdict:
    """The plain mismatch: its code, words and overlaps under the assignment that agrees best."""
    expected, found = len(gold.execution.rows), len(execution.rows)
    width = answer_width(gold)
    if len(execution.columns) != width:
        words = f"{len(execution.columns)} columns, expected {width}"
        return _mismatch("columns", words, Sameness(Kind.VALUES, 0.0, column_share(gold, execution)))
    if not expected and not found:
        kinds = ", ".join(family(name) for name in gold.execution.types[:width])
        return _mismatch("columns", f"both answers are empty, but the columns are not of the kinds {kinds}")
    if not expected or not found:
        return _mismatch("empty", f"{found} rows, expected {expected}")
    best = max(
        (relate(gold, execution, assignment) for assignment in _assignments(gold, execution)),
        key=lambda same: (same.row_overlap, same.column_overlap),
    )
    words = _WORDS.get(best.kind, "") or f"{found} rows, expected {expected}"
    return _mismatch(best.kind.value, words, best)


def _mismatch(code: str, words: str, same: Sameness | None = None) -> Verdict:
    return Verdict(
        match=Match.MISMATCH,
        code=code,
        words=words,
        row_overlap=same.row_overlap if same else 0.0,
        column_overlap=same.column_overlap if same else 0.0,
    )

"""Rows that the judge never saw, and the engine's own bag difference: what tells an accepted candidate from its gold.

In: a gold, its real rows, witnesses (instances of other seeds), and candidates that the judge accepted. Out: for each
its kind of find, `lucky` or `disputed` (search.py), with the reason, or nothing. Not here: making witnesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from text2sql_rl.compare import compare, tells
from text2sql_rl.compare.numbers import is_number
from text2sql_rl.gold import prepare_golds
from text2sql_rl.instances import fair
from text2sql_rl.records import Execution, Gold, Instance, Match, Outcome, Rollout
from text2sql_rl.sandbox import Job, Sandbox

_CHECKED = 2  # witnesses that also the engine's bag difference looks at
# Policies of comparison under which equal answers are not equal bags of cells.
_EXPLAINED = frozenset((
    "permuted_columns", "boolean_as_number", "tie_cut", "unordered_limit", "unordered_aggregate", "arbitrary_value",
    "ambiguous", "same_day", "limit_unchecked", "order_unchecked",
))  # fmt: skip


class Witnesses:
    """The witnesses of one gold."""

    def __init__(self, gold: Gold, real: Instance, others: Sequence[Instance], sandbox: Sandbox) -> None:
        """Prepare the gold on them.

        Args:
            gold: prepared on the real rows.
            real: instance 0.
            others: the witnesses.
            sandbox: where all of it runs.
        """
        self._gold, self._real, self._others, self._sandbox = gold, real, others, sandbox
        self._targets = fair(gold, prepare_golds([(one, gold.sql) for one in others], sandbox))

    def tell(self, accepted: Sequence[tuple[str, Rollout]]) -> list[tuple[str, str] | None]:
        """For each candidate that the judge accepted: the kind and reason that it is not equivalent, or None."""
        ran = iter(self._sandbox.run([Job(other, sql) for sql, _ in accepted for other in self._others]))
        where = (self._real, *self._others[:_CHECKED])
        differ = iter(self._sandbox.run([Job(at, self._difference(sql)) for sql, _ in accepted for at in where]))
        told: list[tuple[str, str] | None] = []
        for _, rollout in accepted:
            executions = [next(ran) for _ in self._others]
            differences = [next(differ) for _ in where]
            told.append(self._luck(executions) or self._dispute(rollout, executions, differences))
        return told

    def _luck(self, executions: Sequence[Execution]) -> tuple[str, str] | None:
        for target, execution in zip(self._targets, executions, strict=True):
            verdict = compare(target, execution)
            if tells(verdict) and execution.outcome is Outcome.ROWS and not _close(target, execution):
                return "lucky", f"on a witness: {verdict.words}"
        return None

    def _dispute(
        self, rollout: Rollout, executions: Sequence[Execution], differences: Sequence[Execution]
    ) -> tuple[str, str] | None:
        flags = set(rollout.verdict.flags) if rollout.verdict else set()
        # On the real rows there may be none to show that columns stand in another order.
        flags |= {flag for pair in zip(self._targets, executions, strict=True) for flag in compare(*pair).flags}
        floats = {"FLOAT", "DOUBLE", "INTERVAL"} & {
            *self._gold.execution.types,
            *(rollout.execution or self._gold.execution).types,
        }
        if flags & _EXPLAINED or floats or self._gold.loose:
            return None
        golds = (self._gold, *self._targets)
        for gold, difference in zip(golds, differences, strict=False):
            number = difference.rows[0][0] if difference.rows else 0
            if number and not gold.unverifiable and not _EXPLAINED & set(gold.flags) and gold.legal_rows is None:
                return "disputed", f"the engine counts {number} rows that differ"
        return None

    def _difference(self, sql: str) -> str:
        """How many rows only one of gold and candidate has, by the engine's own bag difference."""
        gold, own = f"SELECT * FROM ({self._gold.sql}\n) AS g", f"SELECT * FROM ({sql}\n) AS c"
        return f"SELECT count(*) FROM (({gold} EXCEPT ALL {own}) UNION ALL ({own} EXCEPT ALL {gold})) AS d"


def _close(gold: Gold, execution: Execution) -> bool:
    """Whether a candidate differs from its gold only by what the declared tolerance allows larger numbers."""
    rounded = replace(gold, execution=_rounded(gold.execution))
    return compare(rounded, _rounded(execution)).match is Match.MATCH


def _rounded(execution: Execution) -> Execution:
    rows = tuple(
        tuple(float(f"{round(float(cell), 3):.5g}") if is_number(cell, below=1e15) else cell for cell in row)
        for row in execution.rows
    )
    return replace(execution, rows=rows)

"""Golds, run first and in sessions of their own, with all that comparison must know about them.

In: instances with gold SQL, and a sandbox. Out: one `Gold` a pair, in order. Each gold runs as written, with its
sort keys and the ties at its limit shown (plan.py), and on the same rows stored in the opposite order. A gold that
fails, runs out of time, calls the dice, or whose answer depends on the clock or on the stored order is
unverifiable, with the reason; where only some columns depend on it, they are `loose`. So is one that asks today's date
and finds nothing: the rows have grown too old for it, and any empty selection would match. Every gold that is returned
as verifiable matches its own execution.

A run that ends by the moment (out of time, out of memory, the sandbox's own fault) is tried once more. A gold whose
runs still do not end is unverifiable for that reason, and its `execution` is the one that failed: nothing is said
about its answer. Only what `lasting` tells is kept for other runs.

Flags: empty, tie_cut (LIMIT cuts a tie and the choice shows), unordered_limit (LIMIT without ORDER BY cuts),
order_unchecked and limit_unchecked (sort keys or ties that could not be shown), clock (reads today's date),
unordered_aggregate and arbitrary_value (some columns depend on the stored order), constant (reads no table),
unsettled (a check ran out of time or memory, so it proved nothing this time).

Cache: a gold depends on nothing but `gold_key` (cache.py). Not here: comparison, judging candidates.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import MutableMapping, Sequence
from dataclasses import asdict, replace
from typing import Protocol

import duckdb

from text2sql_rl.compare import compare, proves_little
from text2sql_rl.compare.cells import token
from text2sql_rl.gold.cache import GoldCache
from text2sql_rl.gold.plan import Plan, plan
from text2sql_rl.records import Execution, Gold, Instance, Match, Outcome
from text2sql_rl.sandbox import Job, Limits

__all__ = ["GoldCache", "gold_key", "lasting", "prepare_golds"]

# Raise it when a gold would be prepared differently from the same inputs.
_VERSION = 2
# Ends that say more about the moment than about the statement.
_MOMENTARY = (Outcome.TIMEOUT, Outcome.MEMORY, Outcome.FAULT)


class Runs(Protocol):
    """The part of a sandbox that golds need."""

    limits: Limits

    def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
        """One execution a job, in order."""
        ...


def gold_key(instance: Instance, sql: str, limits: Limits) -> str:
    """SHA-256 over everything a prepared gold depends on: rows, text, limits, engine and this room's version."""
    parts = [_VERSION, duckdb.__version__, instance.sha256, sql, asdict(limits)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def lasting(gold: Gold) -> bool:
    """Whether another run would prepare the same gold: it ran, all its checks ended, and it does not ask the clock."""
    return gold.execution.outcome is Outcome.ROWS and not {"unsettled", "clock"} & set(gold.flags)


def prepare_golds(
    pairs: Sequence[tuple[Instance, str]], sandbox: Runs, cache: MutableMapping[str, Gold] | None = None
) -> tuple[Gold, ...]:
    """Prepare one gold a pair, in order, in two batches whatever their number.

    Args:
        pairs: an instance and the gold SQL to prepare on it.
        sandbox: where they run; under the same limits as the candidates.
        cache: prepared golds by `gold_key`, read and filled with those that last.
    """
    keys = [gold_key(instance, sql, sandbox.limits) for instance, sql in pairs]
    known: dict[str, Gold] = {}
    if cache is not None:
        known.update((key, gold) for key in dict.fromkeys(keys) if (gold := cache.get(key)) is not None)
    missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}
    fresh = dict(zip(missing, _prepare(list(missing.values()), sandbox), strict=True))
    if cache is not None and fresh:
        cache.update((key, gold) for key, gold in fresh.items() if lasting(gold))
    known.update(fresh)
    return tuple(known[key] for key in keys)


def _prepare(pairs: Sequence[tuple[Instance, str]], sandbox: Runs) -> list[Gold]:
    written = _run(sandbox, [Job(instance, sql) for instance, sql in pairs])
    plans = [
        plan(sql, execution.columns) if execution.outcome == Outcome.ROWS else Plan()
        for (_, sql), execution in zip(pairs, written, strict=True)
    ]
    second: list[tuple[int, str, str]] = []
    for at, ((instance, sql), how, execution) in enumerate(zip(pairs, plans, written, strict=True)):
        if execution.outcome == Outcome.ROWS and not how.volatile:
            # On other rows the turned run shows as much as a second one: that it repeats itself is known from the real.
            again = "" if instance.index and how.shaken_sql else sql
            probes = {"again": again, "keyed": how.keyed_sql, "shaken": how.shaken_sql}
            probes["calendar"] = _calendar_probe(sql, execution)
            second.extend((at, name, text) for name, text in probes.items() if text)
    answers = _run(sandbox, [Job(pairs[at][0], text) for at, _, text in second])
    seen: list[dict[str, Execution]] = [{} for _ in pairs]
    for (at, name, _), answer in zip(second, answers, strict=True):
        seen[at][name] = answer
    return [
        _settled(sql, how, execution, probes)
        for (_, sql), how, execution, probes in zip(pairs, plans, written, seen, strict=True)
    ]


def _run(sandbox: Runs, jobs: Sequence[Job]) -> list[Execution]:
    """Run all; what the moment may have ended runs once more."""
    ran = list(sandbox.run(jobs))
    again = [at for at, execution in enumerate(ran) if execution.outcome in _MOMENTARY]
    for at, execution in zip(again, sandbox.run([jobs[at] for at in again]) if again else (), strict=True):
        ran[at] = execution
    return ran


def _settled(sql: str, how: Plan, written: Execution, probes: dict[str, Execution]) -> Gold:
    """One gold from what its statements gave."""
    plain = Gold(sql=sql, execution=written)
    if written.outcome != Outcome.ROWS:
        reason = f"the gold gives no rows ({written.outcome.value}): {written.reason}"
        return replace(plain, unverifiable=reason)
    if how.volatile:
        return replace(plain, unverifiable=f"the gold is not deterministic ({how.volatile})")
    fault = next((probe for probe in probes.values() if probe.outcome is Outcome.FAULT), None)
    if fault is not None:
        return replace(plain, execution=fault, unverifiable=f"the sandbox failed on the gold: {fault.reason}")
    if (again := probes.get("again", written)).outcome is not Outcome.ROWS:
        reason = f"the gold ran once, and then gave no rows ({again.outcome.value}): {again.reason}"
        return replace(plain, execution=again, unverifiable=reason)
    if compare(plain, again).match != Match.MATCH:
        return replace(plain, unverifiable="two runs of the gold give different answers")
    if "clock" in how.flags and proves_little(written):
        return replace(plain, unverifiable="the gold asks today's date, and finds nothing", flags=how.flags)
    flags = [*how.flags]
    if any(probe.outcome in _MOMENTARY for probe in probes.values()):
        flags.append("unsettled")
    if not written.rows:
        flags.append("empty")
    if not written.reads_tables:
        flags.append("constant")
    loose = dict(how.loose)
    if "calendar" in probes:
        loose.update(_calendar_columns(written, probes["calendar"]))
    gold = replace(_keyed(plain, how, probes.get("keyed"), flags), flags=tuple(flags), loose=loose)
    return _shaken(gold, probes.get("shaken"))


def _keyed(plain: Gold, how: Plan, shown: Execution | None, flags: list[str]) -> Gold:
    """The gold with its sort keys and legal rows, or as written with a flag when they cannot be trusted."""
    written = plain.execution
    if not how.keyed_sql:
        return replace(plain, sort_keys=how.keys)
    if shown is None or shown.outcome != Outcome.ROWS or not written.rows:
        if written.rows:
            flags.append("limit_unchecked" if how.limit is not None or how.first else "order_unchecked")
        return replace(plain, sort_keys=() if how.hidden else how.keys)
    end = len(shown.rows) if how.limit is None else how.first + how.limit
    execution = replace(
        written, columns=shown.columns, types=shown.types, rows=shown.rows[how.first : end], elapsed_s=written.elapsed_s
    )
    execution = replace(execution, columns=written.columns + shown.columns[len(written.columns) :])
    gold = replace(plain, execution=execution, sort_keys=how.keys, hidden=how.hidden)
    gold = _with_ties(gold, shown, how, flags)
    if compare(gold, written).match == Match.MATCH:
        return gold
    flags.append("order_unchecked")
    return plain


def _with_ties(gold: Gold, shown: Execution, how: Plan, flags: list[str]) -> Gold:
    """`legal_rows` where the limit cuts a tie, with a flag where the choice shows in the answer."""
    rows, kept = shown.rows, gold.execution.rows
    if not kept or len(kept) == len(rows):
        return gold
    width = len(gold.execution.columns) - gold.hidden

    def tied(at: int) -> tuple[int, int]:
        """The rows that tie with the one at `at`."""
        key = [token(rows[at][key.column]) for key in gold.sort_keys]
        low, high = at, at + 1
        while low > 0 and [token(rows[low - 1][key.column]) for key in gold.sort_keys] == key:
            low -= 1
        while high < len(rows) and [token(rows[high][key.column]) for key in gold.sort_keys] == key:
            high += 1
        return low, high

    first, end = how.first, how.first + len(kept)
    head, tail = tied(first), tied(end - 1)
    if head[0] == first and tail[1] == end:
        return gold
    cut = (head, tail) if head[0] < first else (tail,)
    if any(len({token(row[:width]) for row in rows[low:high]}) > 1 for low, high in cut):
        flags.append("tie_cut" if gold.sort_keys else "unordered_limit")
    return replace(gold, legal_rows=rows[head[0] : tail[1]])


# ---- what depends on the stored order, and intervals -------------------------------------------------------


def _shaken(gold: Gold, shaken: Execution | None) -> Gold:
    """Compare with the run on turned rows; a failed one (views, rowid) proves nothing."""
    if shaken is None or shaken.outcome != Outcome.ROWS or compare(gold, shaken).match == Match.MATCH:
        return gold
    width = len(gold.execution.columns) - gold.hidden
    reason = "the answer depends on the order in which rows are stored"
    if len(shaken.rows) == len(gold.execution.rows):
        differing = [at for at in range(width) if _bag(gold.execution, at) != _bag(shaken, at)]
        for what, flag in (("unordered", "unordered_aggregate"), ("arbitrary", "arbitrary_value")):
            loose = {**gold.loose, **dict.fromkeys(differing, what)}
            open_gold = replace(gold, loose=loose, flags=(*gold.flags, flag))
            judges = what == "unordered" or len(differing) < width
            if judges and compare(open_gold, shaken).match == Match.UNVERIFIABLE:
                return open_gold
    return replace(gold, unverifiable=reason)


def _bag(execution: Execution, at: int) -> Counter[object]:
    return Counter(token(row[at]) for row in execution.rows)


def _calendar_probe(sql: str, execution: Execution) -> str:
    """A statement that writes the gold's intervals as text: the client gives months as 30 days."""
    if "INTERVAL" not in execution.types:
        return ""
    names = [f"__gold_{at}" for at in range(len(execution.columns))]
    shown = ", ".join(
        f"CAST({name} AS VARCHAR)" if kind == "INTERVAL" else "NULL"
        for name, kind in zip(names, execution.types, strict=True)
    )
    return f"SELECT {shown} FROM (\n{sql.rstrip().rstrip(';')}\n) AS __gold({', '.join(names)})"


def _calendar_columns(written: Execution, probe: Execution) -> dict[int, str]:
    return {
        at: "calendar"
        for at, kind in enumerate(written.types)
        if kind == "INTERVAL"
        and any(isinstance(row[at], str) and ("month" in row[at] or "year" in row[at]) for row in probe.rows)
    }

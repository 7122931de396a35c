"""One rollout told: what was found, what it gave, and every point of its reward.

In: a rollout. Out: text for people, or plain data for programs. Not here: any judgement.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from text2sql_rl.records import Item, Rollout

_REASON_CHARS = 200


def explain(rollout: Rollout) -> str:
    """The evidence of one reward, a line a fact; items that measured nothing are left out."""
    return "\n".join(_lines(rollout))


def evidence(rollout: Rollout) -> dict[str, Any]:
    """The rollout as plain data, ready for JSON, without the rows its execution gave."""
    execution = replace(rollout.execution, rows=()) if rollout.execution else None
    return asdict(replace(rollout, execution=execution))


def one_line(reason: str) -> str:
    """A reason for a table of reasons: without the engine's drawing of the place, and cut where it is very long."""
    told = " ".join(reason.partition("\nLINE ")[0].split())
    return told if len(told) <= _REASON_CHARS else f"{told[: _REASON_CHARS - 3].rstrip()}..."


def visible(text: str) -> str:
    """Text that shows what it holds: control, direction and unassigned characters become their code."""
    return "".join(
        one if one in "\n\t" or unicodedata.category(one)[0] != "C" else f"\\u{{{ord(one):x}}}" for one in text
    )


def _lines(rollout: Rollout) -> Iterator[str]:
    candidate, execution, verdict, reward = rollout.candidate, rollout.execution, rollout.verdict, rollout.reward
    yield f"candidate  {candidate.sql if candidate.sql is not None else f'none: {candidate.reason}'}"
    if candidate.answers > 1:
        yield f"           {candidate.answers} different answers"
    if not candidate.clean:
        yield "           with more beside the one answer"
    if execution is not None:
        found = one_line(execution.reason)
        if rollout.rows is not None:
            found = f"{rollout.rows} rows, gold has {rollout.gold_rows}"
        yield f"execution  {execution.outcome.value}: {found}"
    if verdict is not None and execution is not None and verdict.words != execution.reason:
        flags = f" [{', '.join(verdict.flags)}]" if verdict.flags else ""
        yield f"verdict    {verdict.match.value}, {verdict.code}: {one_line(verdict.words)}{flags}"
    if reward.total is None:
        yield f"reward     unscored: {one_line(reward.unscored)}"
        return
    yield f"reward     {reward.total:g}, counted as {rollout.cause}, by rule {reward.rule}"
    yield from (_item(item) for item in reward.items if item.value or item.points)


def _item(item: Item) -> str:
    why = one_line(item.why)
    return f"  {item.points:+8.4f}  {item.kind:<9}  {item.name:<15}  {item.value:g} of {item.weight:g}: {why}"

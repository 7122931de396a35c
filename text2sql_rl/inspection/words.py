"""What was found, on a console.

In: rows of a query, or looked-at groups. Out: text and tables. What models wrote is hostile, so control and direction
characters are made visible. Not here: finding anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group as Rendered
from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from text2sql_rl.explain import explain, visible
from text2sql_rl.inspection.groups import Line, StageLog, View, tells
from text2sql_rl.records import Finish, Group, GroupKind

_LONGEST_WHOLE = 40  # characters; what is longer leaves too little of 80 to the columns beside it
_KINDS = {
    GroupKind.INFORMATIVE: "right and wrong",
    GroupKind.ALL_CORRECT: "all right",
    GroupKind.ALL_WRONG: "all wrong",
    GroupKind.LOW_SPREAD: "too little spread",
    GroupKind.UNSCORED: "not judged",
}


def query_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: str = "") -> Table:
    """Rows of a query, nothing cut: a long text goes on below it, in the column `whole` only where it must."""
    table = Table(header_style="bold", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        numeric = any(isinstance(row[number], int | float) for row in rows)
        most = max((len(visible(_cell(row[number]))) for row in rows), default=0)
        keep = name == whole and most <= _LONGEST_WHOLE
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(Text(visible(name)), justify=justify, overflow="fold", no_wrap=keep)
    for row in rows:
        table.add_row(*(Text("NULL" if value is None else visible(_cell(value))) for value in row))
    return table


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def overview(log: StageLog, lines: Sequence[Line], chosen: Sequence[Line]) -> RenderableType:
    """The kinds of all `lines`, and the `chosen` of them in a table."""
    kinds, causes = Counter(line.kind for line in lines), Counter(line.cause for line in lines if line.cause)
    why = f" (most often: {_counted(causes)})" if causes else ""
    told = ", ".join(
        f"{kinds[one]:,} {_KINDS[one]}{why * (one is GroupKind.ALL_WRONG)}" for one in GroupKind if kinds[one]
    )
    steps = sorted({line.step for line in lines})
    where = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    columns = ("step", "group", "right", "mean reward", "question", "what it tells")
    rows = [
        (line.step, line.number, f"{line.right} of {line.scored}", round(line.mean, 3), line.question_id,
         tells(line) or "all right")
        for line in chosen
    ]  # fmt: skip
    parts: list[RenderableType] = [
        Text(visible(f"run {log.run}, stage {log.stage}, {where}: {len(lines):,} groups"), style="bold"),
        Text(told),
        Text(f"advantage: {log.definition}\n"),
        query_table(columns, rows, "question"),
    ]
    if chosen:
        parts.append(Text(f"\n--step {chosen[0].step} --group {chosen[0].number} shows the first of them in full"))
    return Rendered(*parts)


def view_lines(view: View) -> Iterator[str]:
    """A group in full: what was asked, then each distinct answer, the best paid first."""
    group = view.group
    scored = [one for one in group.rollouts if one.reward.total is not None]
    right = sum(one.equivalent for one in scored)
    yield f"group {view.number} of step {view.step}, stage {view.stage}: {right} of {len(scored)} right"
    yield f"question   {group.question_id}: {view.text or '(its words are not at hand)'}"
    yield f"database   {view.database}"
    yield f"gold       {view.gold_sql}"
    yield f"reward     mean {group.mean:.4g}, spread {group.spread:.4g}, by rule {view.rule}"
    yield f"advantage  {view.definition}"
    same: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, rollout in enumerate(group.rollouts):
        said = rollout.completion.text if rollout.candidate.sql is None else rollout.candidate.sql
        same[said, rollout.reward.total, rollout.cause, rollout.completion.finish].append(place)
    order = sorted(same.values(), key=lambda places: _rank(group, places))
    for places in order:
        yield from _answer(group, places)


def _rank(group: Group, places: Sequence[int]) -> tuple[bool, float, int]:
    total = group.rollouts[places[0]].reward.total
    return total is None, -(total or 0.0), -len(places)


def _answer(group: Group, places: Sequence[int]) -> Iterator[str]:
    rollout = group.rollouts[places[0]]
    times = "once" if len(places) == 1 else f"{len(places)} times"
    yield ""
    yield f"advantage {group.advantages[places[0]]:+.4f}, {times} (answer {', '.join(str(place) for place in places)})"
    if rollout.candidate.sql is None or not rollout.candidate.clean:
        yield f"completion {rollout.completion.text}"
    if rollout.completion.finish is Finish.LENGTH:
        yield f"           cut at the token limit, after {rollout.completion.tokens} tokens"
    yield explain(rollout)


def _counted(causes: Mapping[str, int]) -> str:
    return ", ".join(f"{cause} {count:,}" for cause, count in sorted(causes.items(), key=lambda one: (-one[1], one[0])))

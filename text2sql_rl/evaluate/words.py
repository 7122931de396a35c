"""Evaluations and comparisons as tables for people.

In: the content of results.json, or what `compare_evaluations` gives. Out: things that rich prints: coloured on a
terminal, plain text elsewhere. Warnings stand first. What models and databases wrote is printed as text, never as
markup or as control characters. Not here: numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_ROWS = 20  # of the longer tables; results.json has all


def score_tables(results: Mapping[str, Any]) -> Group:
    """One evaluation: warnings, then for every question set its accuracies and what fails."""
    parts: list[RenderableType] = [Text(f"{results['source']['kind']} {plain(results['source']['name'])}", "bold")]
    parts += [Text(f"warning: {plain(warning)}", "yellow") for warning in results["warnings"]]
    for role, numbers in results["roles"].items():
        parts += [Text(""), *_role(role, numbers, max(results["instances"].values(), default=1))]
    return Group(*parts)


def comparison_tables(found: Mapping[str, Any]) -> Group:
    """Two evaluations: warnings, then for every question set the difference, the databases and the disagreements."""
    parts: list[RenderableType] = [Text(f"first   {plain(found['first'])}\nsecond  {plain(found['second'])}", "bold")]
    parts += [Text(f"warning: {plain(warning)}", "yellow") for warning in found["warnings"]]
    for role, numbers in found["roles"].items():
        parts += [Text(""), *_compared(role, numbers)]
    return Group(*parts)


def plain(text: str) -> str:
    """The text on one line, with what would move the cursor or change colours shown instead of done."""
    words = " ".join(text.split())
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in words)


def percent(share: float | None) -> str:
    """A share as percent with one digit."""
    return "-" if share is None else f"{100 * share:.1f} %"


def _ends(ends: Sequence[float] | None, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    return "-" if ends is None else f"{100 * ends[0]:{sign}.1f} to {100 * ends[1]:{sign}.1f}"


def _role(role: str, numbers: Mapping[str, Any], instances: int) -> Iterator[RenderableType]:
    where = "one database" if numbers["databases"] == 1 else f"{numbers['databases']} databases"
    title = f"{plain(role)}: {numbers['questions']:,} questions on {where}"
    table = _table(title, ("measure", "accuracy", "95 % interval", "right", "of"))
    rows = {
        f"right on all instances (up to {instances})": {**numbers, "questions": numbers["scored"]},
        "right on the real rows": numbers["real_rows"],
        "BIRD-style": numbers["set_match"],
        "test-suite-style": numbers["suite_match"],
    }
    for name, part in rows.items():
        table.add_row(name, *_line(part))
    yield from (table, Text(""))
    if numbers["pass_at"]:
        table = _table("", ("k", "pass@k", "95 % interval", "majority of k"))
        for k, share in numbers["pass_at"].items():
            table.add_row(k, percent(share), _ends(numbers["pass_at_ci95"][k]), percent(numbers["majority_at"][k]))
        yield from (table, Text(""))
    if numbers["causes"]:
        failed = sum(numbers["causes"].values())
        table = _table("", ("why wrong", "answers", "share"))
        for cause, count in numbers["causes"].items():
            table.add_row(cause, f"{count:,}", percent(count / failed))
        yield from (table, Text(""))
    table = _table("", ("group", "accuracy", "right", "of"))
    for kind in ("hardness", "feature", "length", "database"):
        parts = numbers[f"by_{kind}"]
        for name, part in list(parts.items())[:_ROWS]:
            shown = percent(part["correct"] / part["scored"])
            table.add_row(f"{kind} {plain(name)}", shown, f"{part['correct']:,}", f"{part['scored']:,}")
        if len(parts) > _ROWS:
            table.add_row(f"{len(parts) - _ROWS:,} more by {kind}: results.json")
    yield table
    yield Text("".join(f"\n{note}" for note in _notes(numbers)))


def _line(part: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return percent(part["accuracy"]), _ends(part["ci95"]), f"{part['correct']:,}", f"{part['questions']:,}"


def _notes(numbers: Mapping[str, Any]) -> Iterator[str]:
    for reason, count in numbers["unscored"].items():
        yield f"not judged: {count:,}, {plain(reason)}"
    if power := numbers["power"]:
        yield (
            f"An interval of one point to each side would take about {power['questions_for_one_point']:,} questions on "
            f"databases like these (design effect {power['design_effect']:.1f})."
        )
    for what, spread in (("SQL", numbers["seconds"]["sql"]), ("completion", numbers["seconds"]["completion"])):
        if spread:
            yield f"seconds a {what}: median {spread['median']:.3g}, 95 % under {spread['p95']:.3g}"
    if (spread := numbers["tokens"]["completion"]) and spread["total"]:
        yield f"tokens a completion: median {spread['median']:.0f}, 95 % under {spread['p95']:.0f}"


def _compared(role: str, numbers: Mapping[str, Any]) -> Iterator[RenderableType]:
    table = _table(f"{plain(role)}: {numbers['questions']:,} questions that both were scored on", ("", "", ""))
    table.show_header, table.columns[-1].justify = False, "left"
    for name, other in (("first", "second"), ("second", "first")):
        alone = f"{numbers[f'only_{name}']:,} right that the {other} misses"
        table.add_row(name, percent(numbers[f"accuracy_{name}"]), alone)
    difference = f"{100 * numbers['difference']:+.1f} points"
    table.add_row("difference", difference, f"95 % interval over databases {_ends(numbers['ci95'], signed=True)}")
    table.add_row("McNemar", f"p = {_p(numbers['p'])}", "exact, two-sided, questions as independent")
    own = numbers["by_database"]
    leads = f"ahead in {own['second_ahead']}, behind in {own['second_behind']}, level in {own['level']}"
    table.add_row("databases", str(len(own["databases"])), f"the second is {leads}")
    power = numbers["power"]
    table.add_row(
        "power", f"{power['questions_to_see_one_point']:,}", "questions to see one point, four times in five"
    )  # fmt: skip
    yield table
    if numbers["left_out"]:
        yield Text(f"left out: {numbers['left_out']:,} questions that only one was asked or scored on")
    table = _table("", ("database", "questions", "only the first is right", "only the second"))
    ranked = sorted(own["databases"].items(), key=lambda one: one[1]["only_first"] - one[1]["only_second"])
    for name, part in ranked:
        if part["only_first"] or part["only_second"]:
            table.add_row(plain(name), *(str(part[key]) for key in ("questions", "only_first", "only_second")))
    if table.row_count:
        yield from (Text(""), table)
    if numbers["disagreements"]:
        yield Text("\nthe most telling questions that only one answers", "bold")
    for at, one in enumerate(numbers["disagreements"], 1):
        yield from _disagreement(at, one)


def _disagreement(at: int, one: Mapping[str, Any]) -> Iterator[RenderableType]:
    sampled = max(one["completions"]) > 1
    shares = f"; right in {percent(one['share_first'])} and {percent(one['share_second'])} of their completions"
    # An engine's message repeats the statement under its first line.
    reason = plain(one["reason"] or "").partition(" LINE 1:")[0]
    asked, said = Table.grid(padding=(0, 1, 0, 0)), Table.grid(padding=(0, 2, 0, 0))
    asked.add_row(f"{at}.", Text(f"{plain(one['question'])}  [{plain(one['database'])}, {plain(one['question_id'])}]"))
    for name in ("gold", "first", "second"):
        said.add_row(name, Text(plain(one[f"{name}_sql"]) or "(no SQL)"))
    verdict = f"{one['right']} is right; the other counts as {one['cause']}"
    said.add_row("", Text(f"{verdict}{f': {reason}' if reason else ''}{shares * sampled}"))
    yield from (Text(""), asked, Padding(said, (0, 0, 0, 3)))


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold",
                  box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))  # fmt: skip
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if not number else "right", no_wrap=True)
    return table

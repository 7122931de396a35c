"""The report on a console.

In: the numbers of report.json. Out: things that rich prints: coloured on a terminal, plain text elsewhere. Not here:
the page, the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from text2sql_rl.report.words import interval, p_value, percent, points, points_interval, visible

POLICY_WORDS = {
    "base": "base",
    "sft": "SFT",
    "sft_control": "control (more SFT)",
    "warmup": "warm-up",
    "grpo": "GRPO",
}
COMPARISON_WORDS = {
    "grpo_vs_control": "GRPO against the control",
    "grpo_vs_warmup": "GRPO against where it started",
    "grpo_vs_sft": "GRPO against SFT",
    "warmup_vs_sft": "warm-up against SFT",
    "control_vs_sft": "control against SFT",
}


def tables(numbers: Mapping[str, Any]) -> Group:
    """The whole report: answer, warnings, accuracies, comparisons, pass rates, costs."""
    parts: list[RenderableType] = [Text(f"run {numbers['run']}, rule {numbers['rule']}", style="bold")]
    parts += [Text(f"warning: {visible(warning)}", style="yellow") for warning in numbers["warnings"]]
    parts += [Text(numbers["answer"]), Text("")]
    heldout = numbers["heldout"]
    if "questions" in heldout:
        parts += [_accuracies(heldout), _comparisons(heldout)]
    if any(numbers["difficulty"][when] for when in ("before_warmup", "after_warmup")):
        parts.append(_pass_rates(numbers["difficulty"]))
    parts.append(_costs(numbers))
    return Group(*parts)


def _accuracies(heldout: Mapping[str, Any]) -> Table:
    written = heldout.get("handwritten", {})
    table = _table(
        f"greedy accuracy, {heldout['questions']:,} questions over {heldout['databases']} held-out databases"
    )
    for column in ("policy", "accuracy", "95 % over databases", "right", "hand-written", "95 %"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for name, shown in POLICY_WORDS.items():
        if name in heldout:
            part, second = heldout[name], written.get(name, {})
            right = f"{part['correct']} of {part['scored']}"
            table.add_row(
                shown, percent(part["accuracy"]), interval(part["ci95"]), right,
                percent(second.get("accuracy")) if second else "", interval(second.get("ci95")),
            )  # fmt: skip
    return table


def _comparisons(heldout: Mapping[str, Any]) -> Table:
    table = _table("the same questions, paired")
    for column in ("", "difference", "95 % over databases", "gained", "lost", "McNemar"):
        table.add_column(column, justify="right" if column else "left")
    for name, shown in COMPARISON_WORDS.items():
        if pair := heldout["comparisons"].get(name):
            table.add_row(
                shown, points(pair["difference"]), points_interval(pair["ci95"]), str(pair["only_second"]),
                str(pair["only_first"]), p_value(pair["p"]),
            )  # fmt: skip
    return table


def _pass_rates(difficulty: Mapping[str, Any]) -> Table:
    table = _table(f"pass rates, kept where {difficulty['low']:g} < rate < {difficulty['high']:g}")
    for column in ("measured", "questions", "kept", "too easy", "too hard", "mean pass rate", "solved at least once"):
        table.add_column(column, justify="left" if column == "measured" else "right")
    for when in ("before_warmup", "after_warmup"):
        if part := difficulty[when]:
            shares = (percent(part[key] / max(1, part["questions"]), 0) for key in ("kept", "too_easy", "too_hard"))
            table.add_row(
                when.replace("_warmup", " the warm-up"), str(part["questions"]), *shares,
                percent(part.get("mean_pass_rate")), percent(part.get("pass_at_k")),
            )  # fmt: skip
    return table


def _costs(numbers: Mapping[str, Any]) -> Table:
    table = _table("cost")
    table.add_column("stage")
    table.add_column("minutes", justify="right")
    for name, stage in numbers["stages"].items():
        table.add_row(name, f"{stage['minutes']:.1f}{' (parent run)' if stage['inherited_from'] else ''}")
    if numbers["wall_s"]:
        table.add_row("whole run, stages side by side", f"{numbers['wall_s'] / 60:.1f}")
    if numbers["peak_rss_mb"]:
        table.add_row("peak memory", f"{numbers['peak_rss_mb']:,.0f} MB")
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", header_style="bold", pad_edge=False)

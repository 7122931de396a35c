"""The report on a console.

In: the numbers of report.json. Out: things that rich prints: coloured on a terminal, plain text elsewhere. Not here:
the page, the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
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


def comparison_words(part: Mapping[str, Any]) -> dict[str, str]:
    """Names of the comparisons of a question set, in order: what follows a warm-up is both, whatever its last step."""
    if "warmup" not in part:
        return {
            "grpo_vs_control": "GRPO over the control",
            "grpo_vs_sft": "GRPO over SFT",
            "control_vs_sft": "control over SFT",
        }
    return {
        "grpo_vs_control": "warm-up + GRPO over control",
        "grpo_vs_sft": "warm-up + GRPO over SFT",
        "grpo_vs_warmup": "GRPO alone over warm-up",
        "warmup_vs_sft": "warm-up alone over SFT",
        "control_vs_sft": "control over SFT",
    }


def tables(numbers: Mapping[str, Any]) -> Group:
    """The whole report: answer, warnings, accuracies, comparisons, pass rates, costs."""
    parts: list[RenderableType] = [Text(f"run {numbers['run']}, rule {numbers['rule']}", style="bold")]
    parts += [Text(f"warning: {visible(warning)}", style="yellow") for warning in numbers["warnings"]]
    parts += [Text(numbers["answer"]), Text("")]
    heldout = numbers["heldout"]
    if "questions" in heldout:
        parts += [_accuracies(heldout), Text("")]
        if heldout["comparisons"]:
            parts += [_comparisons(heldout), Text("")]
    if any(numbers["difficulty"][when] for when in ("before_warmup", "after_warmup")):
        parts += [_pass_rates(numbers["difficulty"]), Text("")]
    if (grpo := numbers["grpo"]) and grpo.get("completions_per_informative_group"):
        parts += [_price(grpo), Text("")]
    parts.append(_costs(numbers))
    return Group(*parts)


def _accuracies(heldout: Mapping[str, Any]) -> Table:
    written = heldout.get("handwritten", {})
    table = _table(
        f"greedy accuracy, {heldout['questions']:,} questions over {heldout['databases']} held-out databases",
        ("policy", "accuracy", "95 % interval", "real rows", *(("by hand", "95 %") if written else ())),
    )
    for name, shown in POLICY_WORDS.items():
        if name in heldout:
            row = [*_share(heldout[name]), percent((heldout[name].get("real_rows") or {}).get("accuracy"))]
            table.add_row(shown, *row, *(_share(written[name]) if name in written else ()))
    return table


def _share(part: Mapping[str, Any]) -> tuple[str, str]:
    return percent(part["accuracy"]), interval(part["ci95"]).removesuffix(" %")


def _comparisons(heldout: Mapping[str, Any]) -> Table:
    columns = ("the same questions, paired", "points", "95 % interval", "gained", "lost", "McNemar")
    table = _table("", columns)
    for name, shown in comparison_words(heldout).items():
        if pair := heldout["comparisons"].get(name):
            table.add_row(
                shown,
                points(pair["difference"]).removesuffix(" points"),
                points_interval(pair["ci95"]).removesuffix(" points"),
                str(pair["only_second"]),
                str(pair["only_first"]),
                p_value(pair["p"]),
            )
    return table


def _pass_rates(difficulty: Mapping[str, Any]) -> Table:
    columns = ("pass rates", "questions", "kept", "too easy", "too hard", "mean", "solved once")
    table = _table(f"questions kept where {difficulty['low']:g} < pass rate < {difficulty['high']:g}", columns)
    for when in ("before_warmup", "after_warmup"):
        if part := difficulty[when]:
            shares = [percent(part[key] / max(1, part["questions"]), 0) for key in ("kept", "too_easy", "too_hard")]
            rates = [percent(part.get(key)) for key in ("mean_pass_rate", "pass_at_k")]
            table.add_row(when.replace("_warmup", " the warm-up"), f"{part['questions']:,}", *shares, *rates)
    return table


def _price(grpo: Mapping[str, Any]) -> Table:
    """What dynamic sampling is there to lower, or to pay."""
    table = _table("", ("candidates per informative group", "first tenth", "last tenth", "all steps"))
    found = (grpo["start"].get("price"), grpo["end"].get("price"), grpo["completions_per_informative_group"])
    table.add_row("GRPO", *("none" if price is None else f"{price:.1f}" for price in found))
    return table


def _costs(numbers: Mapping[str, Any]) -> Table:
    table = _table("", ("stage", "minutes"))
    for name, stage in numbers["stages"].items():
        inherited = f" (of run {stage['inherited_from']})" if stage["inherited_from"] else ""
        table.add_row(name + inherited, f"{stage['minutes']:.1f}")
    if numbers["wall_s"]:
        table.add_row("whole run, stages side by side", f"{numbers['wall_s'] / 60:.1f}")
    if numbers["peak_rss_mb"]:
        table.add_row("peak memory, MB", f"{numbers['peak_rss_mb']:,.0f}")
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    """Narrow enough for 80 characters, and readable where there are no colours."""
    table = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold",
                  box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))  # fmt: skip
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table

"""The page's charts: which curves are drawn, in which words.

In: the numbers of report.json and GRPO's metrics.jsonl rows. Out: SVG figures; what was not measured gives an empty
one. Not here: shapes (charts.py), numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from text2sql_rl.report.charts import Interval, Line, area_chart, bar_chart, interval_chart, line_chart
from text2sql_rl.report.tables import POLICY_WORDS
from text2sql_rl.report.training import curve

KIND_WORDS = {
    "informative": "right and wrong",
    "all_correct": "all right",
    "all_wrong": "all wrong",
    "low_spread": "too little spread",
    "unscored": "unscored",
}
_WINDOWS = 40  # a step is a few groups only: its numbers jump, and more points than these show the jumps alone
_MOST_CAUSES = 5

Curve = Sequence[Sequence[float]]


def heldout_figure(heldout: Mapping[str, Any]) -> Markup:
    """Accuracy of each policy with its interval, from the base to GRPO."""
    return interval_chart(
        "Held-out accuracy, with its 95 % interval over databases",
        [
            Interval(words, heldout[name]["accuracy"], *heldout[name]["ci95"])
            for name, words in POLICY_WORDS.items()
            if name in heldout and heldout[name]["accuracy"] is not None and heldout[name]["ci95"]
        ],
    )


def figures(numbers: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> list[Markup]:
    """The charts of training.

    Args:
        numbers: of report.json.
        rows: of GRPO's metrics.jsonl.
    """
    grpo = numbers["grpo"] or {}
    steps = [row for row in rows if "reward" in row]
    related = [(one["run"], one["rule"], one["grpo"]) for one in numbers["related"]]
    own = f"{numbers['run']} ({numbers['rule']})"
    curves = [(own, grpo), *((f"{name} ({rule})", other) for name, rule, other in related)]

    def over_steps(title: str, key: str) -> Markup:
        return line_chart(title, [Line(name, windows(one.get(key, []))) for name, one in curves], "GRPO step")

    return [
        over_steps("Mean reward of the sampled candidates", "reward"),
        line_chart("Greedy accuracy on dev", [Line(name, one.get("dev_accuracy", [])) for name, one in curves],
                   "GRPO step", share=True),
        area_chart("What the groups were",
                   [Line(KIND_WORDS[kind], windows(points)) for kind, points in grpo.get("kinds", {}).items()
                    if any(share for _, share in points)], "GRPO step"),
        line_chart("Why sampled candidates failed", _causes(steps), "GRPO step"),
        over_steps("Tokens of a candidate", "mean_tokens"),
        line_chart("Entropy of the policy, in nats a token", [Line(own, windows(curve(steps, "entropy")))],
                   "GRPO step"),
        over_steps("KL from where GRPO started, in nats a token", "kl"),
        line_chart("Greedy accuracy on dev while fine-tuning",
                   [Line(words_, (numbers[name] or {}).get("dev_accuracy", []))
                    for name, words_ in (("sft", "SFT"), ("control", "control"), ("warmup", "warm-up"))],
                   "step of the stage", share=True),
        pass_rate_figure(numbers["difficulty"]),
    ]  # fmt: skip


def pass_rate_figure(difficulty: Mapping[str, Any]) -> Markup:
    """Questions by how many of their completions match, before and after the warm-up, with the filter's band."""
    series = {
        shown: difficulty[when]["histogram"]
        for when, shown in (("before_warmup", "before the warm-up"), ("after_warmup", "after the warm-up"))
        if difficulty[when] and difficulty[when].get("histogram")
    }
    if not series:
        return Markup("")
    samples = len(next(iter(series.values()))) - 1
    kept = [number for number in range(samples + 1) if difficulty["low"] < number / samples < difficulty["high"]]
    return bar_chart(
        "Questions by how many of their completions match",
        {name: bars for name, bars in series.items() if len(bars) == samples + 1},
        [str(number) for number in range(samples + 1)],
        f"matching, of {samples}; the filter keeps the shaded ones",
        band=kept,
    )


def windows(points: Curve, most: int = _WINDOWS) -> list[list[float]]:
    """[step, value] points; more than `most` are averaged in windows of nearly equal size, each at its last step."""
    if len(points) <= most:
        return [list(point) for point in points]
    edges = [number * len(points) // most for number in range(most + 1)]
    parts = [points[start:end] for start, end in pairwise(edges)]
    return [[part[-1][0], sum(value for _, value in part) / len(part)] for part in parts]


def _causes(steps: Sequence[Mapping[str, Any]]) -> list[Line]:
    """The most frequent causes of failure, as shares of the step's candidates."""
    keys = dict.fromkeys(key for row in steps for key in row if key.startswith("causes/"))
    found = [(key.removeprefix("causes/"), curve(steps, key)) for key in keys if key != "causes/equivalent"]
    found = [(name, points) for name, points in found if any(share for _, share in points)]
    found.sort(key=lambda pair: -sum(share for _, share in pair[1]))
    return [Line(name, windows(points)) for name, points in found[:_MOST_CAUSES]]

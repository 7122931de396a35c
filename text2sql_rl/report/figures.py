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
_SUPERVISED = {"sft": "SFT", "control": "control", "warmup": "warm-up"}
_STAGE_STEP = "step of the stage"
_ENTROPY = "Entropy of the policy, in nats a token"
KL_TITLE = "KL from where GRPO started, in nats a token"
_KINDS = "What the groups were, from below"
_PRICE = "Candidates sampled for each group that has right and wrong ones"
_PASS_RATES = "Questions by how many of their completions match"

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


def figures(numbers: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> dict[str, Markup]:
    """The charts of training by their titles; empty markup where a run did not measure what a chart shows.

    Args:
        numbers: of report.json.
        rows: of GRPO's metrics.jsonl.
    """
    grpo = numbers["grpo"] or {}
    rows = list(rows)
    steps = [row for row in rows if "reward" in row]
    related = [(one["path"], one["rule"], one["grpo"]) for one in numbers["related"] if one["grpo"]]
    own = f"{numbers['run']} ({numbers['rule']})"
    curves = [(own, grpo), *((f"{name} ({rule})", other) for name, rule, other in related)]
    supervised = [(shown, numbers[name] or {}) for name, shown in _SUPERVISED.items()]
    parts = grpo.get("parts", {})

    def over_steps(key: str) -> list[Line]:
        return [Line(name, windows(one.get(key, []))) for name, one in curves]

    def shares(found: Mapping[str, Curve]) -> list[Line]:
        return [Line(name, windows(points)) for name, points in found.items() if any(share for _, share in points)]

    hit = {f"{name} ({kind})": points for kind in ("penalty", "gate") for name, points in parts.get(kind, {}).items()}
    kinds = {KIND_WORDS[kind]: points for kind, points in grpo.get("kinds", {}).items()}
    drawn = [
        _lines("Mean reward of the sampled candidates", over_steps("reward")),
        _lines("Greedy accuracy on dev", [
            *(Line(name, one.get("dev_accuracy", [])) for name, one in curves),
            Line("on questions of SFT, to compare", curve(rows, "held_in_accuracy")),
        ], share=True),
        _lines("Mean reward by hardness of the question", _buckets(steps, "by/hardness/", "/reward")),
        _lines("How far the sampled candidates reach each part of the reward", shares(parts.get("component", {})),
               share=True),
        _lines("Sampled candidates that a penalty or a gate hits", _largest(shares(hit)), share=True),
        (_KINDS, area_chart(_KINDS, shares(kinds), "GRPO step")),
        _lines(_PRICE, [Line(name, one.get("price", [])) for name, one in curves]),
        _lines("Why sampled candidates failed", _causes(steps), share=True),
        _lines("Tokens of a candidate", [*over_steps("mean_tokens"), *_longest(grpo)]),
        _lines(_ENTROPY, over_steps("entropy")),
        _lines(KL_TITLE, over_steps("kl")),
        _lines("Loss while fine-tuning, after its first tenth",
               [Line(name, windows(_later(one.get("loss", [])))) for name, one in supervised], _STAGE_STEP),
        _lines("Greedy accuracy on dev while fine-tuning",
               [Line(name, one.get("dev_accuracy", [])) for name, one in supervised], _STAGE_STEP, share=True),
        (_PASS_RATES, pass_rate_figure(numbers["difficulty"])),
    ]  # fmt: skip
    cut = shares({own: grpo.get("cut", [])})
    # Nothing to see where no candidate was ever cut, as should be.
    return dict([*drawn, *([_lines("Candidates that the token limit cut", cut, share=True)] if cut else [])])


def _lines(title: str, lines: list[Line], x_label: str = "GRPO step", *, share: bool = False) -> tuple[str, Markup]:
    return title, line_chart(title, lines, x_label, share=share)


def _later(points: Curve) -> Curve:
    """Without the first tenth: a loss begins so high that nothing else would be seen beside it."""
    return points[len(points) // 10 :]


def _buckets(steps: Sequence[Mapping[str, Any]], start: str, end: str) -> list[Line]:
    """Curves of what was measured for parts of the candidates, by the name of the part."""
    keys = dict.fromkeys(key for row in steps for key in row if key.startswith(start) and key.endswith(end))
    return [Line(key.removeprefix(start).removesuffix(end), windows(curve(steps, key))) for key in keys]


def _largest(lines: list[Line]) -> list[Line]:
    """The curves that are highest on the whole."""
    return sorted(lines, key=lambda line: -sum(share for _, share in line.points))[:_MOST_CAUSES]


def _longest(grpo: Mapping[str, Any]) -> list[Line]:
    return [Line("the longest of a step", windows(grpo["longest"]))] if grpo.get("longest") else []


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
        _PASS_RATES,
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
    return _largest([Line(name, windows(points)) for name, points in found if any(share for _, share in points)])

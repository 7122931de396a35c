"""The report as one HTML page: it needs no network and runs one script, its own.

In: a run folder and the numbers of report.json. Out: the page's text. What models wrote is hostile: everything is
escaped, control and direction characters are made visible, and the page's own policy forbids requests and any script
but the one whose hash it names. Not here: numbers, charts' shapes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from text2sql_rl.report import words
from text2sql_rl.report.browser import browser
from text2sql_rl.report.charts import Line, area_chart, bar_chart, line_chart
from text2sql_rl.report.examples import Example, example_groups, heldout_failures, question_texts
from text2sql_rl.report.tables import COMPARISON_WORDS, POLICY_WORDS
from text2sql_rl.runs import RunFolder

_FOLDER = Path(__file__).parent
_GROUPS, _FAILURES, _RELATED_GROUPS = 12, 12, 6
_KIND_WORDS = {
    "informative": "right and wrong",
    "all_correct": "all right",
    "all_wrong": "all wrong",
    "low_spread": "too little spread",
    "unscored": "unscored",
}


def page(run: RunFolder, numbers: Mapping[str, Any]) -> str:
    """The page's text.

    Raises:
        RunError: a rollout or prediction file that should be shown is damaged.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=words.percent,
        interval=words.interval,
        points=words.points,
        p_value=words.p_value,
        points_interval=words.points_interval,
        short=words.short,
    )
    texts = question_texts()
    last = next((source for source in ("grpo", "warmup", "sft") if run.source(f"evaluate_{source}").is_done()), "base")
    script, browsed = (_FOLDER / "browser.js").read_text("utf-8"), browser(run, texts)
    return environment.get_template("page.html.j2").render(
        numbers=numbers,
        script=Markup(script),
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        browser=browsed,
        browser_json=Markup(browsed.text),
        heldout=numbers["heldout"],
        policies=POLICY_WORDS,
        comparisons=COMPARISON_WORDS,
        kinds=_KIND_WORDS,
        charts=_charts(numbers),
        parts=_parts(numbers["heldout"]),
        groups=example_groups(run.stage("grpo"), texts, _GROUPS),
        failures=heldout_failures(run.source(f"evaluate_{last}"), _FAILURES),
        failing=POLICY_WORDS[last],
        related_groups=_related_groups(run, numbers["related"], texts),
    )


def _shown(value: Any) -> Any:
    """Every text that reaches the page, whatever its source; charts are markup already."""
    return words.visible(value) if type(value) is str else value


def _charts(numbers: Mapping[str, Any]) -> dict[str, Markup]:
    grpo = numbers["grpo"] or {}
    related = [(one["run"], one["rule"], one["grpo"]) for one in numbers["related"]]
    own = f"{numbers['run']} ({numbers['rule']})"
    curves = [(own, grpo), *((f"{name} ({rule})", other) for name, rule, other in related)]
    return {
        "reward": line_chart(
            "Mean reward of the sampled candidates", [Line(name, one.get("reward", [])) for name, one in curves],
            "GRPO step",
        ),
        "dev": line_chart(
            "Greedy accuracy on dev", [Line(name, one.get("dev_accuracy", [])) for name, one in curves],
            "GRPO step", share=True,
        ),
        "kinds": area_chart(
            "What the groups were", [Line(_KIND_WORDS[kind], points) for kind, points in grpo.get("kinds", {}).items()],
            "GRPO step",
        ),
        "tokens": line_chart("Tokens of a candidate", [Line(own, grpo.get("mean_tokens", []))], "GRPO step"),
        "supervised": line_chart(
            "Greedy accuracy on dev while fine-tuning",
            [Line(words_, (numbers[name] or {}).get("dev_accuracy", []))
             for name, words_ in (("sft", "SFT"), ("control", "control"), ("warmup", "warm-up"))],
            "step of the stage", share=True,
        ),
        "pass_rates": _histogram(numbers["difficulty"]),
    }  # fmt: skip


def _histogram(difficulty: Mapping[str, Any]) -> Markup:
    series = {
        shown: difficulty[when]["histogram"]
        for when, shown in (("before_warmup", "before the warm-up"), ("after_warmup", "after the warm-up"))
        if difficulty[when] and difficulty[when].get("histogram")
    }
    if not series:
        return Markup("")
    samples = len(next(iter(series.values()))) - 1
    kept = [number for number in range(samples + 1) if difficulty["low"] < number / samples < difficulty["high"]]
    labels = [f"[{number}]" if number in kept else str(number) for number in range(samples + 1)]
    same = {name: bars for name, bars in series.items() if len(bars) == samples + 1}
    return bar_chart(
        "Questions by how many of their completions match; [kept] by the filter",
        same,
        labels,
        f"matching, of {samples}",
    )


def _parts(heldout: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tables of held-out accuracy by database, hardness and shape, and of the causes of failure: a column a policy."""
    names = [name for name in POLICY_WORDS if name in heldout]
    tables = []
    for key, title in (("by_database", "database"), ("by_hardness", "hardness"), ("by_shape", "SQL shape")):
        rows = {}
        for part in dict.fromkeys(part for name in names for part in heldout[name][key] or {}):
            cells = [(heldout[name][key] or {}).get(part) for name in names]
            rows[part] = [words.percent(cell["correct"] / cell["scored"]) if cell else "" for cell in cells]
            rows[part].append(str(max(cell["scored"] for cell in cells if cell)))
        tables.append({"title": f"Accuracy by {title}", "names": [*names, "questions"], "rows": rows})
    causes = dict.fromkeys(cause for name in names for cause in heldout[name]["causes"] or {})
    rows = {cause: [str((heldout[name]["causes"] or {}).get(cause, 0)) for name in names] for cause in causes}
    return [{"title": "Wrong answers by cause", "names": names, "rows": rows}, *tables]


def _related_groups(
    run: RunFolder, related: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> dict[str, list[Example]]:
    """Groups of the last third of each related run: what its reward taught the policy to write."""
    out = {}
    for one in related:
        stage = RunFolder(run.path.parent / one["run"]).stage("grpo")
        out[one["run"]] = example_groups(stage, texts, 3 * _RELATED_GROUPS)[-_RELATED_GROUPS:]
    return out

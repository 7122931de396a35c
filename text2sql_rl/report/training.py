"""What training measured: pass rates and the band, GRPO's curves and groups, the judge's share of a step.

In: metrics.jsonl rows and results of the training stages. Out: dicts for report.json; a stage that is missing or off is
None. Not here: held-out numbers, drawings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from text2sql_rl.records import GroupKind
from text2sql_rl.report.components import component_curves
from text2sql_rl.runs import RunFolder
from text2sql_rl.statistics import median_and_range

_MOST_POINTS = 300
_MEASURED = (
    "questions", "samples", "kept", "too_easy", "too_hard", "unscored", "histogram", "causes", "mean_pass_rate",
    "pass_at_k",
)  # fmt: skip
_PRICE = ("sampling", "completions", "informative_groups", "completions_per_informative_group")
_FIRST_AND_LAST = 0.1  # of the steps: what "at the start" and "at the end" mean

Row = Mapping[str, Any]
Curve = list[list[float]]


def training_numbers(run: RunFolder, config: Mapping[str, Any]) -> dict[str, Any]:
    """The parts `difficulty`, `sft`, `control`, `warmup` and `grpo` of report.json."""
    return {
        "difficulty": {
            "low": config["difficulty"]["low"],
            "high": config["difficulty"]["high"],
            "before_warmup": _pass_rates(run, "difficulty"),
            "after_warmup": _pass_rates(run, "difficulty_warm"),
        },
        **{name: _supervised(run, name) for name in ("sft", "control", "warmup")},
        "grpo": _with_components(run, grpo_numbers(run)),
    }


def _with_components(run: RunFolder, grpo: dict[str, Any] | None) -> dict[str, Any] | None:
    """With `parts`: kind of reward part -> name -> curve of its mean measurement; of the run itself only."""
    return None if grpo is None else {**grpo, "parts": component_curves(run.stage("grpo"))}


def grpo_numbers(run: RunFolder) -> dict[str, Any] | None:
    """Curves and shares of the stage grpo; None where it has measured nothing.

    Returns:
        signs: what the stage itself found wrong, in sentences.
        sampling: which questions were asked, in words.
        completions, informative_groups, completions_per_informative_group: what was paid for and what it gave; None in
            runs that did not count it.
        reward, dev_accuracy, accuracy, mean_tokens, longest, cut, entropy, kl, kl_k3: [step, value] curves; empty where
            not measured.
        start, end: means over the first and last tenth of the steps: reward, accuracy, kinds, causes; and the price.
        kinds: group kind -> curve of its share of the step's groups.
        price: curve of the completions sampled for each informative group.
        reward_share: the judge's share of a step's wall time: median, its 10 % and 90 % points, steps; whole = over
            all steps together.
    """
    rows = run.stage("grpo").metrics()
    steps = [row for row in rows if "reward" in row]
    if not steps:
        return None
    result = run.stage("grpo").result() if run.stage("grpo").is_done() else {}
    cut = max(1, round(len(steps) * _FIRST_AND_LAST))
    return {
        "steps": result.get("steps", steps[-1].get("step", len(steps))),
        "questions": result.get("questions"),
        "best_step": result.get("best_step"),
        "best_dev_accuracy": result.get("dev_accuracy"),
        "signs": result.get("signs", []),
        **{key: result.get(key) for key in _PRICE},
        "reward": curve(steps, "reward"),
        "dev_accuracy": [*_dev_at_start(run, rows), *curve(rows, "dev_accuracy")],
        "accuracy": curve(steps, "accuracy"),
        "mean_tokens": curve([{**row, "mean_tokens": _tokens(row)} for row in steps], "mean_tokens"),
        "longest": curve(steps, "completions/max_length"),
        "cut": curve(steps, "completions/clipped_ratio"),
        "entropy": curve(steps, "entropy"),
        "kl": curve(steps, "kl"),
        "kl_k3": curve(steps, "kl_k3"),
        "kinds": {kind: curve([{**row, kind: _kinds(row).get(kind)} for row in steps], kind) for kind in _all(steps)},
        "price": prices(steps),
        "start": _means(steps[:cut]),
        "end": _means(steps[-cut:]),
        "reward_share": _reward_share(steps),
    }


def curve(rows: Iterable[Row], key: str, most: int = _MOST_POINTS) -> Curve:
    """[step, value] points of one measurement; more than `most` are averaged in equal windows."""
    points = [[float(row.get("step", number)), float(row[key])] for number, row in enumerate(rows)
              if isinstance(row.get(key), int | float)]  # fmt: skip
    if len(points) <= most:
        return points
    edges = [round(number * len(points) / most) for number in range(most + 1)]
    windows = [points[start:end] for start, end in pairwise(edges)]
    return [[window[-1][0], sum(value for _, value in window) / len(window)] for window in windows]


def prices(steps: Sequence[Row], most: int = 40) -> Curve:
    """[step, completions sampled for each informative group] over at most `most` windows of equal numbers of steps.

    A window without an informative group goes on into the next one, so that its completions are not lost.
    """
    size, points = -(-len(steps) // most), []
    window: list[Row] = []
    for row in steps:
        window.append(row)
        if len(window) >= size and (price := _price(window)) is not None:
            points.append([float(row.get("step", 0)), price])
            window = []
    return points


def _price(rows: Iterable[Row]) -> float | None:
    known = [row for row in rows if isinstance(row.get("sampled/completions"), int | float)]
    groups = sum(row.get("sampled/informative_groups") or 0.0 for row in known)
    return sum(row["sampled/completions"] for row in known) / groups if groups else None


def reward_shares(rows: Sequence[Row]) -> list[float]:
    """The judge's share of each step's wall time, in [0, 1], as logged or from judge_s and step_time."""
    shares = []
    for row in rows:
        if isinstance(row.get("reward_share"), int | float):
            shares.append(float(row["reward_share"]))
        elif row.get("judge_s") is not None and row.get("step_time"):
            shares.append(float(row["judge_s"]) / float(row["step_time"]))
    return shares


def _dev_at_start(run: RunFolder, rows: Sequence[Row]) -> Curve:
    """Dev accuracy of the policy that GRPO started from, unless GRPO measured it itself."""
    if any("dev_accuracy" in row and row.get("step") == 0 for row in rows):
        return []
    before = next((stage for name in ("warmup", "sft") if (stage := run.source(name)).is_done()), None)
    accuracy = before.result().get("dev_accuracy") if before else None
    return [] if accuracy is None else [[0.0, float(accuracy)]]


def _reward_share(steps: Sequence[Row]) -> dict[str, Any] | None:
    shares = reward_shares(steps)
    if not shares:
        return None
    middle, spread = median_and_range(shares)
    timed = [row for row in steps if row.get("judge_s") is not None and row.get("step_time")]
    whole = sum(row["judge_s"] for row in timed) / sum(row["step_time"] for row in timed) if timed else None
    return {"median": middle, "low": spread.low, "high": spread.high, "steps": len(shares), "whole": whole}


def _pass_rates(run: RunFolder, name: str) -> dict[str, Any] | None:
    stage = run.source(name)
    if not stage.is_done():
        return None
    result = stage.result()
    return {key: result[key] for key in _MEASURED if key in result}


def _supervised(run: RunFolder, name: str) -> dict[str, Any] | None:
    stage = run.source(name)
    rows, result = stage.metrics(), stage.result() if stage.is_done() else {}
    if not rows and not result:
        return None
    keys = ("steps", "best_step", "pairs", "old_policy_pairs", "labelled_pairs")
    return {
        **{key: result[key] for key in keys if key in result},
        "best_dev_accuracy": result.get("dev_accuracy"),
        "loss": curve(rows, "loss"),
        "dev_accuracy": curve(rows, "dev_accuracy"),
    }


def _tokens(row: Row) -> Any:
    return row.get("mean_tokens", row.get("completions/mean_length"))


def _kinds(row: Row) -> dict[str, float]:
    """Each group kind's share of the row's groups; logged as counts in `kinds` or as shares in `groups/KIND`."""
    counts = row.get("kinds")
    if isinstance(counts, Mapping):
        total = sum(counts.values()) or 1
        return {str(kind): count / total for kind, count in counts.items()}
    return {kind.value: float(row[f"groups/{kind.value}"]) for kind in GroupKind if f"groups/{kind.value}" in row}


def _all(steps: Sequence[Row]) -> list[str]:
    seen = {kind for row in steps for kind in _kinds(row)}
    return [kind.value for kind in GroupKind if kind.value in seen]


def _means(rows: Sequence[Row]) -> dict[str, Any]:
    causes = sorted({key for row in rows for key in row if key.startswith("causes/")})
    return {
        "reward": _mean(row.get("reward") for row in rows),
        "accuracy": _mean(row.get("accuracy") for row in rows),
        "price": _price(rows),
        "kinds": {kind: _mean(_kinds(row).get(kind, 0.0) for row in rows) for kind in _all(rows)},
        "causes": {key.removeprefix("causes/"): _mean(row.get(key) for row in rows) for key in causes},
    }


def _mean(values: Iterable[Any]) -> float | None:
    known = [float(value) for value in values if isinstance(value, int | float)]
    return sum(known) / len(known) if known else None

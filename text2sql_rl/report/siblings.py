"""The runs beside this one: those that start from it (a lesson with another rule), and its other seeds.

In: a run folder; its neighbours are read, never written. Out: dicts for report.json. A neighbour that cannot be read
is passed over: it is not what this report is about. Not here: running them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.report.heldout import heldout_numbers, read_evaluations
from text2sql_rl.report.training import grpo_numbers
from text2sql_rl.runs import RunFolder

_NO_NUMBER_DEPENDS_ON = ("name", "note", "runs", "seed", "parent")


def sibling_numbers(run: RunFolder) -> dict[str, Any]:
    """The parts `related` and `seeds` of report.json.

    Returns:
        related: runs that start from this one, and the one that it starts from: rule, curves, held-out accuracy.
        seeds: accuracies of the runs that differ in their seed only, this one first; empty where it is alone.
        seed_spread: least, most and sample standard deviation over them, a policy; empty where it is alone.
    """
    own = run.read()["config"]
    neighbours = list(_neighbours(run))
    related = [
        _related(other, config)
        for other, config in neighbours
        if config.get("parent") == run.name or other.name == own.get("parent")
    ]
    same = [(other, config) for other, config in neighbours if _same_but_seed(own, config)]
    seeds = [_accuracies(one, config) for one, config in [(run, own), *same]] if same else []
    seeds = [row for row in seeds if row["accuracy"]]
    return {
        "related": [one for one in related if one["grpo"]],
        "seeds": seeds if len(seeds) > 1 else [],
        "seed_spread": _spread(seeds) if len(seeds) > 1 else {},
    }


def _neighbours(run: RunFolder) -> Iterator[tuple[RunFolder, Mapping[str, Any]]]:
    for path in sorted(run.path.parent.iterdir()):
        if path.name == run.name or not (path / "run.json").is_file():
            continue
        other = RunFolder(path)
        try:
            yield other, other.read()["config"]
        except (RunError, KeyError):
            continue


def _same_but_seed(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    def rest(config: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in config.items() if key not in _NO_NUMBER_DEPENDS_ON}

    return first.get("seed") != second.get("seed") and rest(first) == rest(second)


def _related(other: RunFolder, config: Mapping[str, Any]) -> dict[str, Any]:
    found = {"run": other.name, "rule": config["judge"]["rule"], "note": config.get("note", "")}
    try:
        numbers = heldout_numbers(read_evaluations(other), config["seed"])
        return {**found, "heldout": numbers.get("grpo"), "grpo": grpo_numbers(other)}
    except RunError:
        return {**found, "heldout": None, "grpo": None}


def _accuracies(run: RunFolder, config: Mapping[str, Any]) -> dict[str, Any]:
    try:
        evaluations = read_evaluations(run)
    except RunError:
        evaluations = {}
    accuracy = {name: roles["heldout"]["accuracy"] for name, roles in evaluations.items() if "heldout" in roles}
    return {"run": run.name, "seed": config.get("seed"), "accuracy": accuracy}


def _spread(rows: list[dict[str, Any]]) -> dict[str, Any]:
    out = {}
    for name in rows[0]["accuracy"]:
        values = [row["accuracy"][name] for row in rows if row["accuracy"].get(name) is not None]
        if len(values) > 1:
            deviation = statistics.stdev(values)
            out[name] = {"least": min(values), "most": max(values), "deviation": deviation, "seeds": len(values)}
    return out

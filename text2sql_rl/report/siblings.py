"""The runs beside this one: those that start from it (a lesson with another rule), its other seeds, and any named.

In: a run folder; its neighbours are read, never written. Out: dicts for report.json. A neighbour that cannot be read
is passed over: it is not what this report is about. Not here: running them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.report.heldout import POLICIES, heldout_numbers, last_policies, read_evaluations
from text2sql_rl.report.training import grpo_numbers
from text2sql_rl.runs import RunFolder
from text2sql_rl.runs.origin import differences

_SHOWN = ("accuracy", "ci95", "correct", "scored")
_NO_NUMBER_DEPENDS_ON = ("name", "note", "runs", "seed", "parent")


def sibling_numbers(run: RunFolder, beside: Sequence[RunFolder] = ()) -> dict[str, Any]:
    """The parts `related` and `seeds` of report.json.

    Args:
        run: the run that is reported.
        beside: further runs to hold it against.

    Returns:
        related: runs that start from this one, the one that it starts from, and those beside it: rule, curves,
            held-out numbers of each policy, config fields that differ, and the paired test of the last policies.
        seeds: accuracies of the runs that differ in their seed only, this one first; empty where it is alone.
        seed_spread: least, most and sample standard deviation over them, a policy; empty where it is alone.

    Raises:
        RunError: a run beside it cannot be read.
    """
    record = run.read()
    own, neighbours = record["config"], list(_neighbours(run))
    asked = [(other, other.read()) for other in beside if other.path.resolve() != run.path.resolve()]
    known = {other.path.resolve() for other, _ in asked}
    family = [
        (other, found)
        for other, found in neighbours
        if other.path.resolve() not in known
        and (found["config"].get("parent") == run.name or other.name == own.get("parent"))
    ]
    related = [(_related(run, record, other, found), other in beside) for other, found in [*asked, *family]]
    same = [(other, found["config"]) for other, found in neighbours if _same_but_seed(own, found["config"])]
    seeds = [_accuracies(one, config) for one, config in [(run, own), *same]] if same else []
    seeds = [row for row in seeds if row["accuracy"]]
    return {
        "related": [one for one, is_asked in related if one["grpo"] or is_asked],
        "seeds": seeds if len(seeds) > 1 else [],
        "seed_spread": _spread(seeds) if len(seeds) > 1 else {},
    }


def _neighbours(run: RunFolder) -> Iterator[tuple[RunFolder, dict[str, Any]]]:
    for path in sorted(run.path.parent.iterdir()):
        if path.name == run.name or not (path / "run.json").is_file():
            continue
        other = RunFolder(path)
        try:
            record = other.read()
        except RunError:
            continue
        if isinstance(record.get("config"), Mapping) and isinstance(record.get("content"), Mapping):
            yield other, record


def _same_but_seed(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return first.get("seed") != second.get("seed") and _rest(first) == _rest(second)


def _rest(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _NO_NUMBER_DEPENDS_ON}


def _related(run: RunFolder, record: Mapping[str, Any], other: RunFolder, found: Mapping[str, Any]) -> dict[str, Any]:
    own, config = record["config"], found["config"]
    numbers: dict[str, Any] = {
        "run": other.name,
        "path": os.path.relpath(other.path, run.path.parent),
        "rule": config["judge"]["rule"],
        "seed": config.get("seed"),
        "note": config.get("note", ""),
        "differs": {name: list(pair) for name, pair in differences(_rest(own), _rest(config)).items()},
        "heldout": None,
        "policies": {},
        "against": None,
        "grpo": None,
    }
    try:
        evaluations = read_evaluations(other)
        heldout = heldout_numbers(evaluations, config["seed"])
        numbers["heldout"] = heldout.get("grpo")
        numbers["policies"] = {
            name: {key: heldout[name][key] for key in _SHOWN} for name in POLICIES if name in heldout
        }
        if _heldout_files(record) == _heldout_files(found):
            numbers["against"] = last_policies(read_evaluations(run), evaluations, config["seed"])
        return {**numbers, "grpo": grpo_numbers(other)}
    except RunError:
        return numbers


def _heldout_files(record: Mapping[str, Any]) -> dict[str, str]:
    """Hashes of the held-out question files: where they differ, the same id may be another question."""
    return {name: sha256 for name, sha256 in record["content"]["data"].items() if name.startswith("heldout/")}


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

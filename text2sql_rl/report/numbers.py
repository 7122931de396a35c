"""A run folder -> every number of the report, as report.json keeps them.

In: a run folder, finished or not. Out: one dict. What is missing is named, not guessed. Not here: words (words.py),
tables, pages.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.group import AdvantageRule, describe, describe_aggregation, describe_truncated
from text2sql_rl.report import words
from text2sql_rl.report.costs import cost_numbers
from text2sql_rl.report.heldout import POLICIES, heldout_numbers, read_evaluations
from text2sql_rl.report.siblings import sibling_numbers
from text2sql_rl.report.training import training_numbers
from text2sql_rl.runs import RunFolder

FORMAT = 1


def run_numbers(run: RunFolder, beside: Sequence[RunFolder] = (), *, unfinished: bool = False) -> dict[str, Any]:
    """Every number of the report.

    Args:
        run: the run folder.
        beside: runs to compare it with, beside those that belong to it.
        unfinished: a run of which nothing is evaluated yet has numbers too.

    Raises:
        RunError: this is no run folder, nothing was evaluated yet, or one of its files is not what it should be.
    """
    record = run.read()
    config = record["config"]
    evaluations = read_evaluations(run)
    if not evaluations and not unfinished:
        raise RunError("no stage has been evaluated yet", file=run.path, field="stages/evaluate_*",
                       fix="`text2sql-rl run CONFIG` runs all that is missing, in order.")  # fmt: skip
    numbers: dict[str, Any] = {
        "format": FORMAT,
        "run": run.name,
        "note": config.get("note", ""),
        "seed": record.get("seed"),
        "rule": config["judge"]["rule"],
        "parent": config.get("parent"),
        "policy": config["policy"],
        "advantage": declared(config["grpo"]),
        "missing": _missing(config, evaluations),
        "heldout": heldout_numbers(evaluations, record.get("seed") or 0),
        **cost_numbers(run),
        **training_numbers(run, config),
        **sibling_numbers(run, beside),
        "lineage": _lineage(run, record),
    }
    return {**numbers, "answer": words.answer(numbers), "warnings": words.warnings(numbers)}


def declared(grpo: Mapping[str, Any]) -> dict[str, Any]:
    """The config's `grpo.advantage` and what it means in words: formula, tokens' losses, completions that were cut."""
    rule = AdvantageRule(**grpo["advantage"])
    loss = describe_aggregation(grpo.get("aggregation", "dapo"))
    return {**grpo["advantage"], "formula": describe(rule), "loss": loss, "truncated": describe_truncated(rule)}


def is_complete(numbers: Mapping[str, Any]) -> bool:
    """Whether every policy that the config trains was evaluated."""
    return not numbers["missing"]


def _missing(config: Mapping[str, Any], evaluations: Mapping[str, Any]) -> list[str]:
    off = {name for name, key in (("warmup", "warmup"), ("sft_control", "control")) if config.get(key) is None}
    return [f"evaluate_{source}" for name, source in POLICIES.items() if name not in {*off, *evaluations}]


def _lineage(run: RunFolder, record: Mapping[str, Any]) -> dict[str, Any]:
    sessions = record["sessions"]
    environment = next(
        (
            run.source(f"evaluate_{source}").result().get("environment")
            for source in reversed(POLICIES.values())
            if run.source(f"evaluate_{source}").is_done()
        ),
        None,
    )
    return {
        "created": record["created"],
        "command": _command(sessions[0]["argv"]),
        "sessions": len(sessions),
        "versions": sessions[-1]["versions"],
        "git": sessions[-1]["git"],
        "content": {kind: len(entries) for kind, entries in record["content"].items()},
        "rules": record["content"].get("rules", {}),
        "environment": environment,
        "report_python": sys.version.split()[0],
    }


def _command(argv: list[str]) -> str:
    """The command as a person would type it: without the folder of the program."""
    first, *rest = argv or ["text2sql-rl"]
    name = first.rpartition("/")[2]
    return " ".join(["text2sql-rl" if name in ("cli.py", "__main__.py") else name, *rest])

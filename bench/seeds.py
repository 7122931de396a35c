"""What the stages of the demo gain on held-out questions, over the seeds it was run with.

In: runs/demo and every runs/demo-*, or the folder of runs in $TEXT2SQL_BENCH_SEEDS; each with its evaluations. Out: the
mean over seeds of each gain, in points; `n` is the number of seeds, `spread` the highest gain minus the lowest, the
baseline no gain, or half of SFT's errors. `python bench/seeds.py` prints each seed, and the intervals: questions'
gains are averaged over the seeds, then whole databases are drawn. Not here: running the demo.
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

from measure import Result, tell

from text2sql_rl.errors import RunError
from text2sql_rl.evaluate.predictions import read_rows
from text2sql_rl.statistics import bootstrap_difference

_POLICIES = ("sft", "control", "warmup", "grpo")
_PAIRS = (("control", "grpo"), ("warmup", "grpo"), ("sft", "warmup"), ("sft", "grpo"), ("sft", "control"))
_LEAST = 2

# One seed: policy -> question id -> whether its greedy answer is right; and the database of each question.
Answers = dict[str, dict[str, float]]


def measure() -> list[Result]:
    """The gains.

    Raises:
        RunError: there are fewer than two runs with all evaluations, or they asked other questions.
    """
    runs, _ = _read()
    results = []
    for first, second in _PAIRS:
        gains = [100 * (_mean(run[second]) - _mean(run[first])) for run in runs.values()]
        name = f"demo.{second}_over_{first}"
        results.append(_result(name, gains, "points", 0.0))
    removed = [(_mean(run["grpo"]) - _mean(run["sft"])) / (1 - _mean(run["sft"])) for run in runs.values()]
    results.append(_result("demo.sft_errors_removed", removed, "share", 0.5))
    return results


def _result(name: str, values: list[float], unit: str, baseline: float) -> Result:
    return Result(name, round(statistics.mean(values), 4), unit, baseline, len(values),
                  round(max(values) - min(values), 4))  # fmt: skip


def _read() -> tuple[dict[str, Answers], dict[str, str]]:
    folder = Path(os.environ.get("TEXT2SQL_BENCH_SEEDS", "runs"))
    runs: dict[str, Answers] = {}
    databases: dict[str, str] = {}
    for run in sorted(path for path in (folder / "demo", *folder.glob("demo-*")) if path.is_dir()):
        files = {policy: run / "stages" / f"evaluate_{policy}" / "predictions.parquet" for policy in _POLICIES}
        if not all(file.is_file() for file in files.values()):
            continue
        answers: Answers = {}
        for policy, file in files.items():
            rows = [row for row in read_rows(file) if row["role"] == "heldout" and row["sample"] == 0]
            answers[policy] = {row["question_id"]: float(row["equivalent"]) for row in rows}
            databases |= {row["question_id"]: row["database"] for row in rows}
        runs[run.name] = answers
    asked = {frozenset(one) for run in runs.values() for one in run.values()}
    if len(runs) < _LEAST or len(asked) != 1:
        problem = "holds fewer than two demo runs with the same held-out questions, all evaluated"
        fix = "Run `text2sql-rl run configs/demo.yaml --set seed=18 --set name=demo-18`, and others."
        raise RunError(problem, file=folder, fix=fix)
    return runs, databases


def _mean(answers: dict[str, float]) -> float:
    return statistics.mean(answers.values())


def main() -> int:
    """Print each seed's accuracies, and each gain with its interval over databases."""
    runs, databases = _read()
    lines = ["run         " + "".join(f"{policy:>10}" for policy in _POLICIES)]
    for name, run in runs.items():
        lines.append(f"{name:<12}" + "".join(f"{100 * _mean(run[policy]):9.1f}%" for policy in _POLICIES))
    clusters = list(databases.values())
    for first, second in _PAIRS:
        gains = [100 * (_mean(run[second]) - _mean(run[first])) for run in runs.values()]
        before, after = ([statistics.mean(run[one][name] for run in runs.values()) for name in databases]
                         for one in (first, second))  # fmt: skip
        low, high = bootstrap_difference(before, after, clusters, seed=0)
        words = ", ".join(f"{gain:+.1f}" for gain in gains)
        lines.append(f"{second} over {first}: mean {statistics.mean(gains):+.1f} points "
                     f"({words}), 95 % over databases {100 * low:+.1f} to {100 * high:+.1f}")  # fmt: skip
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(tell(main))

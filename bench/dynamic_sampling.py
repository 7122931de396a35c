"""What a difficulty filter and dynamic sampling give together, against neither, for the same processor seconds.

In: runs/filtered-dynamic* and runs/unfiltered-plain*, or the same in the folder $TEXT2SQL_BENCH_DYNAMIC: finished runs
of these two configs, each with the same seeds. Out, for results.json:

- `heldout_gain`: held-out accuracy with both minus that with neither, in points, the mean over seeds; `n` is the number
  of seeds, `spread` the highest gain minus the lowest; `heldout_gain_low` and `_high` are its 95 % interval: questions'
  gains are averaged over the seeds, then whole databases are drawn, `n` being the number of questions;
- `informative_share` of the groups sampled, and `completions_per_informative_group`: with both, the baseline with
  neither; `n` is the number of groups, `spread` the width of the share's 95 % interval, for which whole training
  databases are drawn (of the price, the highest seed minus the lowest);
- `processor_time`: what GRPO and the pass rates before it took with both, over what GRPO took with neither; it should
  be 1. Seconds of the processor hardly grow while a machine does other work beside.

`python bench/dynamic_sampling.py` prints each run beside the warm-up that it starts from. Not here: running the arms,
which is one command each: `text2sql-rl run configs/filtered-dynamic.yaml`. Another seed is `--set seed=18 --set
parent=demo-18 --set name=filtered-dynamic-18`, after a demo of that seed and name.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import Result, tell

from text2sql_rl.errors import RunError
from text2sql_rl.evaluate.predictions import read_rows
from text2sql_rl.records import GroupKind
from text2sql_rl.rollout_log import read_groups
from text2sql_rl.runs import RunFolder
from text2sql_rl.statistics import Interval, bootstrap_difference, bootstrap_mean

ARMS = ("filtered-dynamic", "unfiltered-plain")
_PAID = ("difficulty_warm", "grpo")
_LEAST = 2


@dataclass(frozen=True)
class Arm:
    """One finished run: right answers by held-out question, at its start and its end, and what its groups were.

    `groups` holds (database, whether it was informative) of each group sampled.
    """

    start: Mapping[str, float]
    end: Mapping[str, float]
    databases: Mapping[str, str]
    groups: Sequence[tuple[str, bool]]
    completions: int
    cpu_s: float

    @property
    def price(self) -> float:
        """Completions sampled for each informative group."""
        return self.completions / max(1, sum(informative for _, informative in self.groups))


# By arm, then by seed.
Arms = dict[str, dict[int, Arm]]


def measure() -> list[Result]:
    """The comparison.

    Raises:
        RunError: fewer than two seeds of each arm are finished, or they asked other questions.
    """
    arms = _read()
    new, old = (list(arms[name].values()) for name in ARMS)
    gains = [_points(_mean(one.end) - _mean(other.end)) for one, other in zip(new, old, strict=True)]
    low, high = gain_interval(new, old)
    questions, seeds = len(new[0].end), len(new)
    shares = [_share(runs) for runs in (new, old)]
    width = _share_interval(new)
    prices = [sum(one.completions for one in runs) / max(1, sum(_informative(one) for one in runs))
              for runs in (new, old)]  # fmt: skip
    ratios = [one.cpu_s / other.cpu_s for one, other in zip(new, old, strict=True)]
    groups = sum(len(one.groups) for one in new)
    return [
        _result("heldout_gain", statistics.mean(gains), "points", 0.0, seeds, _range(gains)),
        _result("heldout_gain_low", _points(low), "points", 0.0, questions, 0.0),
        _result("heldout_gain_high", _points(high), "points", 0.0, questions, 0.0),
        _result("informative_share", shares[0], "share", shares[1], groups, width.high - width.low),
        _result("completions_per_informative_group", prices[0], "completions", prices[1], groups,
                _range([one.price for one in new])),
        _result("processor_time", statistics.mean(ratios), "ratio", 1.0, seeds, _range(ratios)),
    ]  # fmt: skip


def gain_interval(new: Sequence[Arm], old: Sequence[Arm]) -> Interval:
    """The 95 % interval of the gain in accuracy, paired by question, pooled over seeds, over databases."""
    databases = new[0].databases
    before, after = ([statistics.mean(run.end[name] for run in runs) for name in databases] for runs in (old, new))
    return bootstrap_difference(before, after, list(databases.values()), seed=0)


def _read() -> Arms:
    folder = Path(os.environ.get("TEXT2SQL_BENCH_DYNAMIC", "runs"))
    arms: Arms = {}
    for name in ARMS:
        runs = [RunFolder(path) for path in sorted(folder.glob(f"{name}*"))]
        done = [run for run in runs if run.exists() and run.stage("evaluate_grpo").is_done()]
        arms[name] = dict(sorted((int(run.read()["seed"]), _arm(run)) for run in done))
    seeds = {frozenset(runs) for runs in arms.values()}
    asked = {frozenset(run.end) for runs in arms.values() for run in runs.values()}
    if len(seeds) != 1 or len(asked) != 1 or len(arms[ARMS[0]]) < _LEAST:
        problem = f"holds fewer than two seeds of {' and '.join(ARMS)}, evaluated on the same questions"
        raise RunError(problem, file=folder, fix="Run both configs with the seeds of finished demos.")
    return arms


def _arm(run: RunFolder) -> Arm:
    end, databases = _answers(run, "evaluate_grpo")
    start, _ = _answers(run, "evaluate_warmup")
    groups = read_groups(run.stage("grpo").path / "rollouts")
    cost = run.read()["stages"]
    return Arm(
        start=start,
        end=end,
        databases=databases,
        groups=[(group.rollouts[0].database, group.kind is GroupKind.INFORMATIVE) for group in groups],
        completions=sum(len(group.rollouts) for group in groups),
        cpu_s=sum(cost[stage]["cpu_s"] for stage in _PAID if stage in cost),
    )


def _answers(run: RunFolder, stage: str) -> tuple[dict[str, float], dict[str, str]]:
    rows = read_rows(run.source(stage).path / "predictions.parquet")
    rows = [row for row in rows if row["role"] == "heldout" and row["sample"] == 0]
    return ({row["question_id"]: float(row["equivalent"]) for row in rows},
            {row["question_id"]: row["database"] for row in rows})  # fmt: skip


def _share(runs: Sequence[Arm]) -> float:
    return sum(map(_informative, runs)) / sum(len(run.groups) for run in runs)


def _share_interval(runs: Sequence[Arm]) -> Interval:
    groups = [group for run in runs for group in run.groups]
    return bootstrap_mean([float(told) for _, told in groups], [database for database, _ in groups], seed=0)


def _informative(run: Arm) -> int:
    return sum(told for _, told in run.groups)


def _mean(answers: Mapping[str, float]) -> float:
    return statistics.mean(answers.values())


def _points(share: float) -> float:
    return 100 * share


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _result(name: str, value: float, unit: str, baseline: float, n: int, spread: float) -> Result:
    return Result(f"dynamic_sampling.{name}", round(value, 4), unit, round(baseline, 4), n, round(spread, 4))


def main() -> int:
    """Print each run, the gain with its interval, and each arm's share of informative groups with its own."""
    arms = _read()
    lines = [f"{'run':<24} {'start':>7} {'end':>7} {'groups':>7} {'inform.':>8} {'price':>6} {'CPU min':>8}"]
    for name, runs in arms.items():
        for seed, run in runs.items():
            lines.append(
                f"{name + f' {seed}':<24} {_mean(run.start):7.1%} {_mean(run.end):7.1%} {len(run.groups):7} "
                f"{_share([run]):8.1%} {run.price:6.1f} {run.cpu_s / 60:8.2f}"
            )
    new, old = (list(arms[name].values()) for name in ARMS)
    gains = [_points(_mean(one.end) - _mean(other.end)) for one, other in zip(new, old, strict=True)]
    low, high = gain_interval(new, old)
    words = ", ".join(f"{gain:+.1f}" for gain in gains)
    lines.append(f"{ARMS[0]} over {ARMS[1]}: mean {statistics.mean(gains):+.1f} points ({words}), 95 % over databases "
                 f"{_points(low):+.1f} to {_points(high):+.1f}")  # fmt: skip
    for name, many in zip(ARMS, (new, old), strict=True):
        low, high = _share_interval(many)
        lines.append(f"{name}: {_share(many):.1%} of the groups informative, 95 % over training databases {low:.1%} to "
                     f"{high:.1%}")  # fmt: skip
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(tell(main))

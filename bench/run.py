"""`make bench`: measured numbers of the demo run and of the judge -> bench/results.json.

In: runs/demo, done. Out: a list of {name, value, unit, baseline, n, spread}; `baseline` is the goal the number is held
against, `spread` the distance between its quartiles. Not here: tests; nothing fails because a machine was busy.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from text2sql_rl.errors import RunError, Text2SqlError
from text2sql_rl.runs import RunFolder, write_text

OUT = Path(__file__).with_name("results.json")


def entry(name: str, values: Sequence[float], unit: str, baseline: float) -> dict[str, Any]:
    """One number: the median of `values` with their quartile distance."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return {
        "name": name,
        "value": round(statistics.median(values), 5),
        "unit": unit,
        "baseline": baseline,
        "n": len(values),
        "spread": round(high - low, 5),
    }


def reward_share(run: RunFolder) -> dict[str, Any]:
    """Share of a GRPO step's wall time that judging takes; the goal is under a tenth."""
    rows = [row for row in run.source("grpo").metrics() if row.get("step_time")]
    if len(rows) < 2:
        raise RunError("has no step times", file=run.source("grpo").path / "metrics.jsonl", fix="Run the demo first.")
    # A step that trains on a block sampled before judges nothing.
    return entry(
        "grpo.reward_share_of_step", [row.get("judge_s", 0.0) / row["step_time"] for row in rows], "share", 0.1
    )


def main() -> int:
    """Measure and write."""
    try:
        results = [reward_share(RunFolder(Path("runs/demo")))]
        write_text(OUT, json.dumps(results, indent=1) + "\n")
    except Text2SqlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for result in results:
        print(
            f"{result['name']:<28} {result['value']:g} {result['unit']} (goal {result['baseline']:g}, n {result['n']})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

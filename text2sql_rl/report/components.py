"""The single parts of the reward over a stage's steps: how far each component was reached, how often a deduction hit.

In: the rollout logs of a stage. Out: curves of the mean measurement of each part over the scored rollouts. Not here:
the total, which the stage measures itself; drawings.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from text2sql_rl.report.logged import named
from text2sql_rl.runs import StageFolder

Curves = dict[str, list[list[float]]]


def component_curves(stage: StageFolder) -> dict[str, Curves]:
    """Kind of part (component, penalty, gate) -> its name -> [step, mean measurement in [0, 1]] points.

    Raises:
        RunError: a part file is damaged.
    """
    found: dict[str, Curves] = defaultdict(dict)
    for path in sorted((stage.path / "rollouts").glob("*.parquet")):
        state = path.stat()
        step, means = _means(path, state.st_mtime_ns, state.st_size)
        for (kind, name), mean in means.items():
            found[kind].setdefault(name, []).append([float(step), mean])
    return dict(found)


@lru_cache(maxsize=4096)  # a page that is served is made again and again, and a part hardly ever changes
def _means(path: Path, changed_ns: int, size: int) -> tuple[int, Mapping[tuple[str, str], float]]:
    with named(path):
        table = pq.read_table(path, columns=["step", "items", "total"])
    scored = table.filter(pc.is_valid(table["total"]))
    step = int(table["step"][0].as_py()) if table.num_rows else 0
    counts = ((one["values"], one["counts"]) for one in scored["items"].value_counts().to_pylist())
    return step, _mean_values(counts, scored.num_rows)


def _mean_values(counts: Iterable[tuple[str, int]], rows: int) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for items, times in counts:
        for item in json.loads(items):
            sums[item["kind"], item["name"]] += times * float(item["value"])
    return {part: total / rows for part, total in sums.items()}

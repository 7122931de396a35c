"""Completions sampled for each informative group, with dynamic sampling; the baseline is the same without.

In: a run's GRPO before its first step (from_run.py). Both train as many steps of as many groups; without dynamic
sampling a degenerate group is paid for and leaves the update, with it another question is asked instead. Out:
completions over informative groups of all steps; `n` is the number of informative groups, `spread` the distance between
the quartiles of single steps. Not here: what the groups teach.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from measure import Result, scaled

from text2sql_rl.errors import RunError

_STEPS = 40
_DYNAMIC = {"rounds": 3, "half_life": 50}


def measure() -> Result:
    """The price of an informative group, in completions.

    Raises:
        RunError: there is no run to start from, or no group was informative.
    """
    from from_run import started  # torch and trl, which the other benchmarks do without

    steps = scaled(_STEPS, least=3)
    with started() as start:
        plain, dynamic = (start.train(steps=steps, save_every=steps, dynamic=how) for how in (None, _DYNAMIC))
    prices = [row["sampled/completions"] / row["sampled/informative_groups"] for row in dynamic
              if row.get("sampled/informative_groups")]  # fmt: skip
    low, _, high = statistics.quantiles(prices, n=4, method="inclusive") if len(prices) > 1 else (0.0, 0.0, 0.0)
    price, groups = _price(dynamic)
    name = "grpo.completions_per_informative_group"
    return Result(name, round(price, 3), "completions", round(_price(plain)[0], 3), groups, round(high - low, 3))


def _price(rows: Sequence[Mapping[str, Any]]) -> tuple[float, int]:
    completions, groups = (
        sum(row.get(f"sampled/{name}") or 0.0 for row in rows) for name in ("completions", "informative_groups")
    )
    if not groups:
        raise RunError("no group was informative", fix="Measure a run whose band holds questions that teach.")
    return completions / groups, round(groups)

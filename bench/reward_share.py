"""How much of a GRPO step's wall time judging takes, over the steps of the demo's own run.

In: runs/demo, or the run in $TEXT2SQL_BENCH_RUN, with a GRPO stage. Out: the median share; the baseline is the goal,
under a tenth. Not here: running GRPO.
"""

from __future__ import annotations

import os
from pathlib import Path

from measure import Result, median

from text2sql_rl.errors import RunError
from text2sql_rl.report.training import reward_shares
from text2sql_rl.runs import RunFolder

_GOAL = 0.1


def measure() -> Result:
    """The share, in [0, 1].

    Raises:
        RunError: the run has measured no step times.
    """
    run = RunFolder(Path(os.environ.get("TEXT2SQL_BENCH_RUN", "runs/demo")))
    shares = reward_shares(run.source("grpo").metrics())
    if len(shares) < 2:
        raise RunError("has no step times", file=run.path / "stages" / "grpo" / "metrics.jsonl",
                       fix="Run `make demo` first, or name a run in TEXT2SQL_BENCH_RUN.")  # fmt: skip
    return median("grpo.reward_share_of_step", shares, "share", _GOAL)

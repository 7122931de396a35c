"""A run folder of which only GRPO has left something: 20 steps of 30 groups of 3 rollouts."""

from __future__ import annotations

from pathlib import Path

from tests.report.fake_run import HOSTILE, train_grpo
from tests.run_config import CONTENT
from text2sql_rl.runs import RunFolder


def log_run(folder: Path) -> RunFolder:
    run = RunFolder(folder / "demo", min_free_gb=0.0)
    run.create_or_open({**CONTENT, "name": "demo", "parent": None, "note": HOSTILE})
    train_grpo(run, lambda step: step / 20, lambda step: 0.8 + step / 200)
    return run

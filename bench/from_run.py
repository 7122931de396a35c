"""GRPO from where a run's own GRPO started, in a folder that is thrown away.

In: runs/demo, or the run in $TEXT2SQL_BENCH_RUN, trained as far as GRPO's start; changes to its settings. Out: the rows
that the training measured. Not here: what is made of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from text2sql_rl.config import RunConfig
from text2sql_rl.errors import RunError
from text2sql_rl.judge import Judge
from text2sql_rl.learn.checkpoints import load
from text2sql_rl.learn.equipment import loading, open_judge
from text2sql_rl.learn.reinforce import reinforce
from text2sql_rl.policy.hf import Policy
from text2sql_rl.prompts import Style
from text2sql_rl.runs import RunFolder, StageFolder


@dataclass(frozen=True)
class Start:
    """A run's GRPO before its first step."""

    run: RunFolder
    config: RunConfig
    before: str
    judge: Judge

    def policy(self) -> tuple[Policy, Style]:
        """The policy that GRPO starts from, anew."""
        return load(self.run.source(self.before).path / "checkpoint", loading(self.config))

    def train(self, **changes: Any) -> list[dict[str, Any]]:
        """Train with these changes to the settings of GRPO; gives what was measured."""
        settings = self.config.grpo.model_dump() | changes
        config = self.config.model_copy(update={"grpo": type(self.config.grpo).model_validate(settings)})
        with TemporaryDirectory() as folder:
            stage = StageFolder(Path(folder) / "grpo", 0.0)
            reinforce(config, self.run, stage, *self.policy(), self.judge, self.before)
            return stage.metrics()


@contextmanager
def started() -> Iterator[Start]:
    """The run's GRPO, on one thread as in a run's own stages.

    Raises:
        RunError: the run is not there, or not trained as far as GRPO's start.
    """
    run = RunFolder(Path(os.environ.get("TEXT2SQL_BENCH_RUN", "runs/demo")))
    config = RunConfig.model_validate(run.read()["config"])
    before = "warmup" if config.warmup else "sft"
    if not run.stage("difficulty_warm" if config.warmup else "difficulty").is_done():
        raise RunError("is not trained as far as GRPO", file=run.path,
                       fix="Run `make demo` first, or name a run in TEXT2SQL_BENCH_RUN.")  # fmt: skip
    torch.set_num_threads(1)
    with open_judge(config) as judge:
        yield Start(run, config, before, judge)

"""What a step of our GRPO takes, with judging and everything it writes, against TRL's own GRPOTrainer.

In: a run's GRPO before its first step (from_run.py). Both train the same policy on the same questions with the same
settings, in turn; TRL's rewards are a formula of the completion's length and it writes nothing. A step is from the
start of one training step to the start of the next: sampling, rewards, update, and what is logged. The learning rate is
so small that both keep sampling the same. Out: the ratio of the medians; the baseline is the goal, 5 % more. Not here:
dev accuracy and checkpoints, which fall between the measured steps of neither.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from measure import Result, scaled

from text2sql_rl.config import ScratchPolicy
from text2sql_rl.content import open_content

if TYPE_CHECKING:
    from from_run import Start

_GOAL = 1.05
_STEPS, _TURNS = 13, 4
_RATE = 1e-9


def measure() -> Result:
    """The ratio.

    Raises:
        RunError: there is no run to start from.
    """
    from from_run import started  # torch and trl, which the other benchmarks do without

    ours: list[float] = []
    theirs: list[float] = []
    ratios = []
    with started() as start:
        for _ in range(scaled(_TURNS)):
            theirs += (one := _timed(lambda: _stock(start)))
            ours += (other := _timed(lambda: start.train(**_changes())))
            ratios.append(statistics.median(other) / statistics.median(one))
    ratio = statistics.median(ours) / statistics.median(theirs)
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Result("grpo.step_time_over_stock_trl", round(ratio, 4), "ratio", _GOAL, len(ours), round(high - low, 4))


def _changes() -> dict[str, Any]:
    steps = scaled(_STEPS, least=4)
    return {"steps": steps, "save_every": steps, "learning_rate": _RATE, "dynamic": None}


def _timed(train: Callable[[], object]) -> list[float]:
    """Seconds of each step but the first, which warms up, and the last, which has no next."""
    starts: list[float] = []
    with _starts_noted(starts):
        train()
    return [after - before for before, after in pairwise(starts[1:])]


@contextmanager
def _starts_noted(starts: list[float]) -> Iterator[None]:
    from trl import GRPOTrainer

    plain = GRPOTrainer.training_step

    def training_step(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        starts.append(time.perf_counter())
        return plain(trainer, *args, **kwargs)

    GRPOTrainer.training_step = training_step
    try:
        yield
    finally:
        GRPOTrainer.training_step = plain


def _stock(start: Start) -> None:
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOTrainer

    from text2sql_rl.learn.grpo import arguments, tasks_needed
    from text2sql_rl.learn.material import asked
    from text2sql_rl.learn.optimizer import MuonAdamW
    from text2sql_rl.learn.reinforce import in_order

    config, (policy, style) = start.config, start.policy()
    settings = type(config.grpo).model_validate(config.grpo.model_dump() | _changes())
    config = config.model_copy(update={"grpo": settings})
    known = {question.id: (question, database) for question, database in asked(open_content(), "rl")}
    measured = start.run.source("difficulty_warm" if config.warmup else "difficulty").result()
    tasks = in_order(config, {name: known[name] for name in measured["kept_ids"]}, style)[: tasks_needed(settings)]
    rows = [task.row(number, policy.tokenizer) for number, task in enumerate(tasks)]
    with TemporaryDirectory() as folder:
        how = arguments(settings, config.sampling, folder, config.seed + 3)
        how.scale_rewards = "group"
        muon = isinstance(config.policy, ScratchPolicy)
        trainer = GRPOTrainer(
            policy.model,
            [_by_length],
            how,
            Dataset.from_list(rows),
            processing_class=policy.tokenizer,
            optimizers=(MuonAdamW(policy.model, _RATE) if muon else None, None),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


def _by_length(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    return [float(len(ids) % 3) for ids in completion_ids]

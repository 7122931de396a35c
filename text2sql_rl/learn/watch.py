"""What every training loop reports: its measurements, its dev accuracy, its best checkpoint, and when to stop.

In: a trainer's events. Out: rows in the stage's metrics.jsonl, `checkpoint/` holding the best policy on dev so far,
and the stop signal of early stopping. Held-out questions never come here. Not here: training itself.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from text2sql_rl.config import Sampling
from text2sql_rl.errors import PolicyError
from text2sql_rl.judge import Judge
from text2sql_rl.learn.checkpoints import save_model
from text2sql_rl.policy.hf import Policy
from text2sql_rl.prompts import Style
from text2sql_rl.records import Database, Question
from text2sql_rl.runs import StageFolder

_LATEST = 10  # steps


class DevCheck:
    """Greedy execution accuracy on the dev questions.

    Args:
        items: the dev questions with their databases.
        style: of the prompts.
        limits: of sampling.
        judge: the run's judge.
        seed: kept for the record; greedy decoding draws nothing.
    """

    def __init__(
        self, items: Sequence[tuple[Question, Database]], style: Style, limits: Sampling, judge: Judge, seed: int
    ) -> None:
        self._items, self._style, self._limits, self._judge, self._seed = items, style, limits, judge, seed
        self._prompts = [style.prompt(question, database) for question, database in items]

    def accuracy(self, policy: Policy) -> float:
        """Share of scored dev questions whose greedy answer is equivalent to gold, in [0, 1]."""
        was_training = policy.model.training
        policy.model.eval()
        with torch.random.fork_rng():
            sampled = policy.sample(
                self._prompts, self._style, self._limits, samples=1, seed=self._seed, temperature=0.0
            )
        policy.model.train(was_training)
        answers = [(*item, group[0]) for item, group in zip(self._items, sampled, strict=True)]
        rollouts = self._judge.judge(answers)
        scored = [rollout for rollout in rollouts if rollout.reward.total is not None]
        return sum(rollout.equivalent for rollout in scored) / max(1, len(scored))


class Watch(TrainerCallback):
    """Writes measurements, checks dev, keeps the best policy, stops when dev has stopped rising.

    Args:
        stage: where to write.
        policy: being trained.
        style: saved with the best policy.
        dev: the check; None measures nothing and keeps the last policy.
        held_in: the same of questions that the policy has seen; it decides nothing.
        every: steps between checks.
        patience: checks without a new best before stopping; None never stops early.
        total: steps in all, for progress.
        tell_others: gets accuracies as soon as they are measured, beside the metrics: other curves.
    """

    def __init__(
        self,
        stage: StageFolder,
        policy: Policy,
        style: Style,
        *,
        dev: DevCheck | None,
        every: int,
        patience: int | None,
        total: int,
        held_in: DevCheck | None = None,
        tell_others: Callable[[dict[str, float]], None] | None = None,
    ) -> None:
        self._stage, self._policy, self._style, self._dev = stage, policy, style, dev
        self._held_in, self._tell_others = held_in, tell_others
        self._sampled: deque[tuple[float, float]] = deque(maxlen=_LATEST)
        self._every, self._patience, self._total = every, patience, total
        self.best, self.best_step, self._last = -1.0, 0, ""

    def resume(self, step: int) -> None:
        """Take up the best so far from the metrics up to `step`, and drop what was measured after it."""
        self._stage.rewind_metrics(step)
        for row in self._stage.metrics():
            if row.get("dev_accuracy", -1.0) > self.best:
                self.best, self.best_step = row["dev_accuracy"], row["step"]

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any
    ) -> None:
        """Write one row; a loss that is no number ends the run."""
        numbers = {key: value for key, value in (logs or {}).items() if isinstance(value, int | float)}
        broken = next((key for key in ("loss", "grad_norm") if not math.isfinite(numbers.get(key, 0.0))), None)
        if broken:
            raise PolicyError(
                f"{broken} became {numbers[broken]} at step {state.global_step}",
                file=self._stage.path,
                fix="Lower the learning rate.",
            )
        if "train_runtime" not in numbers:
            self._stage.append_metrics({"step": state.global_step, **numbers})
            name = "reward" if "reward" in numbers else "loss"
            self._last = f"{name} {numbers[name]:.3f}{self._price(numbers)}" if name in numbers else self._last
            self._tell(state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Check dev where it is due."""
        step = state.global_step
        if step % self._every and step < self._total:
            return
        if self._held_in is not None:
            self._measured(step, "held_in_accuracy", self._held_in.accuracy(self._policy))
        if self._dev is None:
            return
        accuracy = self._dev.accuracy(self._policy)
        self._measured(step, "dev_accuracy", accuracy)
        if accuracy > self.best:
            self.best, self.best_step = accuracy, step
            save_model(self._policy.model, self._policy.tokenizer, self._style, self._stage.path / "checkpoint")
        elif self._patience is not None and step - self.best_step >= self._patience * self._every:
            control.should_training_stop = True
        self._tell(step)

    def _measured(self, step: int, name: str, accuracy: float) -> None:
        self._stage.append_metrics({"step": step, name: accuracy})
        if self._tell_others is not None:
            self._tell_others({name: accuracy})

    def _price(self, numbers: Mapping[str, float]) -> str:
        """What an informative group cost in the latest steps, in words; empty where no groups are sampled."""
        if "sampled/completions" not in numbers:
            return ""
        self._sampled.append((numbers["sampled/completions"], numbers["sampled/informative_groups"]))
        completions, groups = (sum(column) for column in zip(*self._sampled, strict=True))
        return f", {completions / groups:.0f} completions an informative group" if groups else ", no informative group"

    def _tell(self, step: int) -> None:
        dev = f", dev {self.best:.1%} best" if self.best >= 0 else ""
        self._stage.progress(step, self._total, f"{self._last}{dev}")

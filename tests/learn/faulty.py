"""A tiny GRPO training that something goes wrong in, in a process of its own that ends as the command line does.

In: a job of killed.py and the name of a fault. Out: exit code 0, 2 (with the one line of the error in `error.txt`) or
130; what training wrote stays. `JUDGED` faults train with the real judge and its sandbox.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.learn import killed
from text2sql_rl.errors import Text2SqlError
from text2sql_rl.judge import Judge
from text2sql_rl.learn.trainer import DeclaredGRPOTrainer
from text2sql_rl.records import Completion, Database, Question, Rollout
from text2sql_rl.sandbox import Limits
from text2sql_rl.sandbox.process import Process, Workers
from text2sql_rl.scoring import load_rule

FAULTY_STEP = 3
JUDGED = ("nothing, judged", "a worker that never answers", "a worker that dies", "workers that start no more")


def run(job: killed.Job, fault: str) -> None:
    """Train under the fault; ends the process where it does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(job.folder)
    (folder / "error.txt").unlink(missing_ok=True)
    try:
        with pytest.MonkeyPatch.context() as patch, _judge(fault) as judge:
            if fault in _FAULTS:
                _FAULTS[fault](patch)
            killed.run(job, judge)
    except Text2SqlError as error:
        (folder / "error.txt").write_text(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def _judge(fault: str) -> Iterator[Any]:
    if fault not in JUDGED:
        yield None
        return
    with Judge(load_rule("bound-v1"), Limits(timeout_s=1.0, grace_s=0.3)) as judge:
        yield Spoken(judge)


class Spoken:
    """The real judge, given SQL that runs in place of what an untrained policy says: a quarter of it is right."""

    def __init__(self, judge: Judge) -> None:
        self._judge, self.environment = judge, judge.environment

    def judge(self, answers: Sequence[tuple[Question, Database, Completion]]) -> tuple[Rollout, ...]:
        """Judge; no two statements are the same, so each one goes to a worker."""
        spoken = []
        for number, (question, database, said) in enumerate(answers):
            chance = zlib.crc32(said.raw.encode())
            sql = f"SELECT * FROM ({question.gold_sql}) WHERE {number} = {number} AND {chance} = {chance}"
            if chance % 4:
                sql = f"SELECT id + {number} + {chance} FROM {database.tables[0].name}"
            spoken.append((question, database, replace(said, text=sql)))
        return self._judge.judge(spoken)


# ---- the faults ------------------------------------------------------------------------------------------------


def _at_the_step(patch: pytest.MonkeyPatch, happen: Callable[[], None]) -> None:
    """Something happens when the faulty step begins."""
    plain = DeclaredGRPOTrainer.training_step

    def training_step(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        if trainer.state.global_step == FAULTY_STEP - 1:
            happen()
        return plain(trainer, *args, **kwargs)

    patch.setattr(DeclaredGRPOTrainer, "training_step", training_step)


def _worker(number: signal.Signals) -> Callable[[pytest.MonkeyPatch], None]:
    """The worker that gets the second statement of the faulty step gets a signal as well."""

    def install(patch: pytest.MonkeyPatch) -> None:
        left: list[int] = []
        plain = Process.send

        def send(process: Any, *args: Any) -> None:
            plain(process, *args)
            if left and not left.pop():
                os.kill(process.pid, number)

        _at_the_step(patch, lambda: left.extend((0, 1)))
        patch.setattr(Process, "send", send)

    return install


def _no_workers(patch: pytest.MonkeyPatch) -> None:
    def happen() -> None:
        patch.setattr(Workers, "spawn", lambda self: None)
        plain = Process.send

        def send(process: Any, *args: Any) -> None:
            plain(process, *args)
            os.kill(process.pid, signal.SIGKILL)

        patch.setattr(Process, "send", send)

    _at_the_step(patch, happen)


def _nan(patch: pytest.MonkeyPatch) -> None:
    plain = DeclaredGRPOTrainer._compute_loss

    def compute_loss(trainer: Any, *args: Any) -> Any:
        loss = plain(trainer, *args)
        return loss * float("nan") if trainer.state.global_step == FAULTY_STEP - 1 else loss

    patch.setattr(DeclaredGRPOTrainer, "_compute_loss", compute_loss)


def _full_at_the_log(patch: pytest.MonkeyPatch) -> None:
    plain = Path.replace

    def move(path: Path, target: Any) -> Path:
        if Path(target).name == f"step-{FAULTY_STEP:06d}.parquet":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return plain(path, target)

    patch.setattr(Path, "replace", move)


def _full_at_a_checkpoint(patch: pytest.MonkeyPatch) -> None:
    plain = torch.save

    def save(content: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        if "checkpoint-4" in str(file):
            Path(file).write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        plain(content, file, *args, **kwargs)

    patch.setattr(torch, "save", save)


_FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a worker that never answers": _worker(signal.SIGSTOP),
    "a worker that dies": _worker(signal.SIGKILL),
    "workers that start no more": _no_workers,
    "a loss that is no number": _nan,
    "a disk that is full at the log": _full_at_the_log,
    "a disk that is full at a checkpoint": _full_at_a_checkpoint,
    "Ctrl-C": lambda patch: _at_the_step(patch, lambda: signal.raise_signal(signal.SIGINT)),
}

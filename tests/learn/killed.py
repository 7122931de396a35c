"""One tiny GRPO training in a process of its own, that can end itself with SIGKILL; a program for torchrun as well.

In: a case, folders, and the step after which the process ends. Out: `result.json`, and of each rank its weights and its
reserve, in the run's folder where it came to its end, beside what training itself wrote. `python -m tests.learn.killed
JOB...` runs jobs one after the other in one process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tests.learn import tiny
from text2sql_rl.config import Lora
from text2sql_rl.content import open_content
from text2sql_rl.learn.asking import Dynamic, Task
from text2sql_rl.learn.grpo import is_first_rank, tasks_needed, train
from text2sql_rl.learn.reserve import Reserve
from text2sql_rl.learn.trainer import DeclaredGRPOTrainer, Sampled
from text2sql_rl.policy.hf import Policy
from text2sql_rl.rollout_log import Lineage, part_path, read_rollouts, write_groups
from text2sql_rl.runs import StageFolder


@dataclass(frozen=True)
class Job:
    """One training: settings of GRPO, and how it differs from the plain one. `kill_after` 0 lets it end."""

    root: str
    model: str
    folder: str
    settings: dict[str, Any]
    dynamic: bool = False
    lora: bool = False
    tasks: int = 0  # 0: as many as are needed; fewer are gone through again, in later epochs
    kill_after: int = 0


def run(job: Job, judge: Any = None) -> None:
    """Train, with a scripted judge if no other is given; ends the process where the job says so."""
    os.environ.update(TEXT2SQL_ROOT=job.root, TEXT2SQL_MIN_FREE_GB="0")
    torch.set_num_threads(1)
    settings, content, folder = tiny.grpo_settings(**job.settings), open_content(), Path(job.folder)
    policy, stage = Policy(Path(job.model)), StageFolder(folder, 0.0)
    style = tiny.style()
    if is_first_rank():
        stage.start()

    def log(block: Sampled) -> None:
        path, lineage = part_path(folder / "rollouts", block.step), Lineage(run="tiny", stage="grpo")
        write_groups(path, block.groups, lineage, step=block.step, updates=block.updates)

    dynamic = None
    if job.dynamic:
        by_id = {question.id: (question, database) for question, database in tiny.items(content, "rl")}
        reserve = Reserve(dict.fromkeys(by_id, (1, 4)), generations=settings.generations, half_life=2, seed=3)
        dynamic = Dynamic(reserve, lambda name, visit: Task(*by_id[name], style.prompt(*by_id[name], visit=visit)), 3)
    judge = judge or tiny.ScriptedJudge()
    with _killed_after(job.kill_after):
        result = train(
            policy, style, tiny.tasks(content, job.tasks or tasks_needed(settings)), settings, tiny.LIMITS, judge,
            stage, None, seed=7, lora=Lora(rank=2, alpha=4) if job.lora else None, dynamic=dynamic, log_block=log,
        )  # fmt: skip
    rank, reserved = os.environ.get("RANK", "0"), dynamic.reserve.state() if dynamic else None
    torch.save(tiny.weights(policy.model), folder / f"weights-{rank}.pt")
    (folder / f"reserve-{rank}.json").write_text(json.dumps(reserved))
    if is_first_rank():
        (folder / "result.json").write_text(json.dumps({"result": result, "reserve": reserved}))
        stage._lock.release()


class _killed_after:
    """Ends the process before the training step that follows `step`."""

    def __init__(self, step: int) -> None:
        self._step, self._plain = step, DeclaredGRPOTrainer.training_step

    def __enter__(self) -> None:
        plain, last = self._plain, self._step

        def training_step(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            if last and trainer.state.global_step == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return plain(trainer, *args, **kwargs)

        DeclaredGRPOTrainer.training_step = training_step

    def __exit__(self, *_: object) -> None:
        DeclaredGRPOTrainer.training_step = self._plain


def outcome(folder: Path) -> dict[str, Any]:
    """All that two trainings are compared by, except the weights."""
    rows = read_rollouts(folder / "rollouts")
    timed = ("_s", "time", "_runtime", "per_second")
    measured = [
        {key: value for key, value in row.items() if not key.endswith(timed)}
        for row in StageFolder(folder, 0.0).metrics()
    ]
    told = [(one.step, one.question_id, one.raw, one.total, one.advantage, one.in_loss, one.kl, one.clip_share,
             one.group_id, one.conditions_sha256) for one in rows]  # fmt: skip
    return {"rows": told, "metrics": measured, **json.loads((folder / "result.json").read_text())}


def same_weights(one: Path, other: Path, rank: int = 0, other_rank: int = 0) -> bool:
    """Bit for bit."""
    return tiny.same(*(torch.load(folder / f"weights-{at}.pt") for folder, at in ((one, rank), (other, other_rank))))


def as_argument(job: Job) -> str:
    """A job for the command line."""
    return json.dumps(asdict(job))


if __name__ == "__main__":
    for text in sys.argv[1:]:
        run(Job(**json.loads(text)))

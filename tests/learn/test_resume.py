"""Training that was ended with SIGKILL goes on bit for bit: in a block, in a later epoch, with all that has state.

Each training runs in a process of its own, forked from one that has imported everything; two ranks under torchrun.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

from tests.learn import tiny
from tests.learn.killed import Job, as_argument, outcome, run, same_weights
from text2sql_rl.group import AdvantageRule, over_step, step_spread
from text2sql_rl.rollout_log import read_groups

pytestmark = tiny.THIRD_PARTY
SETTINGS = {"steps": 6, "save_every": 2}
BLOCKS = {**SETTINGS, "steps_per_generation": 2}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "in the middle of a block": (BLOCKS, {}, 3),
    "between blocks, before a checkpoint": ({**SETTINGS, "save_every": 4}, {}, 3),
    "in a later epoch": (SETTINGS, {"tasks": 4}, 5),
    "with dynamic sampling": (BLOCKS, {"dynamic": True}, 5),
    "with micro-batches": ({**BLOCKS, "micro_batch": 2}, {}, 3),
    "with adapters and a reference policy": ({**BLOCKS, "beta": 0.1}, {"lora": True}, 3),
}


@pytest.fixture(scope="module")
def start() -> Callable[[Job], int]:
    """Run a job in a child of its own; gives its exit code, negative for a signal."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.learn.killed"])

    def started(job: Job) -> int:
        child = context.Process(target=run, args=(job,))
        child.start()
        child.join(120)
        assert child.exitcode is not None
        return child.exitcode

    return started


@pytest.mark.parametrize("name", CASES)
def test_a_killed_training_goes_on_bit_for_bit(
    root: Path, model_folder: Path, tmp_path: Path, start: Callable[[Job], int], name: str
) -> None:
    settings, how, kill_after = CASES[name]
    whole = Job(str(root), str(model_folder), str(tmp_path / "whole"), settings, **how)
    assert start(whole) == 0
    killed = replace(whole, folder=str(tmp_path / "killed"), kill_after=kill_after)
    assert start(killed) == -signal.SIGKILL
    assert not (tmp_path / "killed" / "result.json").exists()
    assert start(replace(killed, kill_after=0)) == 0
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert same_weights(tmp_path / "killed", tmp_path / "whole")
    assert_it_was_training(outcome(tmp_path / "whole"), how)


def assert_it_was_training(found: dict[str, Any], how: dict[str, Any]) -> None:
    steps = [row for row in found["metrics"] if "loss" in row]
    assert len(steps) == SETTINGS["steps"]
    assert any(row["grad_norm"] > 0 for row in steps)
    rounds = [row["dynamic/rounds"] for row in steps if "dynamic/rounds" in row]
    assert (max(rounds, default=0.0) > 1) is how.get("dynamic", False)


def torchrun(*jobs: Job) -> int:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tiny.REPOSITORY)}
    words = [*command, "-m", "tests.learn.killed", *map(as_argument, jobs)]
    return subprocess.run(words, env=environment, cwd=tiny.REPOSITORY, capture_output=True, timeout=600).returncode


def test_two_ranks_train_alike_and_go_on_after_a_kill(root: Path, model_folder: Path, tmp_path: Path) -> None:
    settings = {**BLOCKS, "beta": 0.1}
    whole = Job(str(root), str(model_folder), str(tmp_path / "whole"), settings, dynamic=True)
    killed = replace(whole, folder=str(tmp_path / "killed"), kill_after=3)
    batch = {**settings, "advantage": {"scale": "batch", "floor": 0.1}, "aggregation": "grpo", "micro_batch": 2}
    plain = replace(whole, folder=str(tmp_path / "plain"), dynamic=False, settings=batch)
    assert torchrun(plain, whole, killed) != 0
    assert (tmp_path / "whole" / "result.json").exists()
    assert not (tmp_path / "killed" / "result.json").exists()
    assert torchrun(replace(killed, kill_after=0)) == 0
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    for rank in (0, 1):
        assert same_weights(tmp_path / "killed", tmp_path / "whole", rank, rank)
    for name in ("plain", "whole"):
        assert same_weights(tmp_path / name, tmp_path / name, 0, 1)
        assert len({(tmp_path / name / f"reserve-{rank}.json").read_text() for rank in (0, 1)}) == 1
    for part in (tmp_path / "plain" / "rollouts").iterdir():  # both ranks' groups share one divisor
        groups, rule = read_groups(part), AdvantageRule("batch", floor=0.1)
        assert [group.advantages for group in over_step(groups, rule)] == [group.advantages for group in groups]
        assert step_spread(groups, rule) > 0.1
    asked = [row[1] for row in outcome(tmp_path / "plain")["rows"]]
    assert asked == [f"rl-{number % 4}" for number in range(6 * 2) for _ in range(4)]  # as one process asks

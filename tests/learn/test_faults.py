"""What goes wrong in a training ends it with one clear error, or is survived; the log is whole, and it goes on."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

from tests.learn import tiny
from tests.learn.faulty import JUDGED, run
from tests.learn.killed import Job, outcome, same_weights
from text2sql_rl.records import Outcome
from text2sql_rl.rollout_log import LogRow, read_rollouts

pytestmark = tiny.THIRD_PARTY
SETTINGS = {"steps": 6, "save_every": 2, "questions_per_step": 4}
A_STEP = 4 * 4
Start = Callable[[Job, str], int]

# Fault, exit code, the error, and the last step whose rollouts are in the log.
ENDS = [
    ("a loss that is no number", 2, "loss became nan at step 3. Lower the learning rate", 3),
    ("a disk that is full at the log", 2, "the rollouts cannot be written: No space left on device", 2),
    ("a disk that is full at a checkpoint", 2, "the disk is full. Free some space", 4),
    ("Ctrl-C", 130, "", 2),
]


@pytest.fixture(scope="module")
def start() -> Start:
    """Run a job under a fault in a child of its own; gives its exit code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.learn.faulty"])

    def started(job: Job, fault: str) -> int:
        child = context.Process(target=run, args=(job, fault))
        child.start()
        child.join(120)
        assert child.exitcode is not None
        return child.exitcode

    return started


@pytest.fixture(scope="module")
def whole(root: Path, model_folder: Path, start: Start, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A training that nothing happens to."""
    job = Job(str(root), str(model_folder), str(tmp_path_factory.mktemp("whole")), SETTINGS)
    assert start(job, "") == 0
    return job


def refuse_torn(folder: Path, steps: int) -> list[LogRow]:
    """The log's rows; every part is readable, holds its whole step, and nothing is there twice or half written."""
    parts = sorted(path.name for path in (folder / "rollouts").iterdir())
    assert parts == [f"step-{step:06d}.parquet" for step in range(1, steps + 1)]
    rows = read_rollouts(folder / "rollouts")
    assert Counter(row.step for row in rows) == dict.fromkeys(range(1, steps + 1), A_STEP)
    assert len({(row.group_id, row.group_index) for row in rows}) == len(rows)
    return rows


def goes_on_like(job: Job, whole: Job, start: Start, without: str = "") -> None:
    assert start(job, without) == 0
    ends: list[dict[str, Any]] = [outcome(Path(one.folder)) for one in (job, whole)]
    assert ends[0] == ends[1]
    assert same_weights(Path(job.folder), Path(whole.folder))
    refuse_torn(Path(job.folder), SETTINGS["steps"])


@pytest.mark.parametrize(("fault", "code", "error", "steps"), ENDS)
def test_it_ends_with_one_clear_error_and_goes_on_bit_for_bit(
    whole: Job, tmp_path: Path, start: Start, fault: str, code: int, error: str, steps: int
) -> None:
    job = replace(whole, folder=str(tmp_path))
    assert start(job, fault) == code
    told = tmp_path / "error.txt"
    assert (error in told.read_text()) if error else not told.exists()
    assert not (tmp_path / "result.json").exists()
    refuse_torn(tmp_path, steps)
    goes_on_like(job, whole, start)


def test_a_sandbox_that_fails_now_and_then_costs_one_candidate_at_most_and_for_good_ends_the_run(
    whole: Job, tmp_path: Path, start: Start
) -> None:
    nothing, hung, died, gone = JUDGED
    jobs = {fault: replace(whole, folder=str(tmp_path / fault.replace(" ", "-"))) for fault in JUDGED}
    assert start(jobs[nothing], nothing) == 0
    judged = refuse_torn(Path(jobs[nothing].folder), SETTINGS["steps"])
    assert {row.outcome for row in judged} == {Outcome.ROWS}
    assert 0 < sum(row.equivalent for row in judged) < len(judged)

    assert start(jobs[hung], hung) == 0  # ended at its deadline, which its own statement pays for
    rows = refuse_torn(Path(jobs[hung].folder), SETTINGS["steps"])
    assert [row.step for row in rows if row.outcome == Outcome.TIMEOUT] == [3]

    assert start(jobs[died], died) == 0  # its statement runs again, in another worker
    assert outcome(Path(jobs[died].folder)) == outcome(Path(jobs[nothing].folder))

    assert start(jobs[gone], gone) == 2
    error = (Path(jobs[gone].folder) / "error.txt").read_text()
    assert "the sandbox failed on" in error
    assert "Run `text2sql-rl doctor`" in error
    goes_on_like(jobs[gone], jobs[nothing], start, nothing)

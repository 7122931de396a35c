"""Workers that die, hang or lie; parents that die; databases that are not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.sandbox.conftest import build
from text2sql_rl.records import Instance, Outcome
from text2sql_rl.sandbox import Job, Limits, Sandbox, wire
from text2sql_rl.sandbox import batch as batch_module
from text2sql_rl.sandbox import process as process_module
from text2sql_rl.sandbox.process import Process

ROOT = Path(__file__).resolve().parents[2]
LONG = "SELECT count(*) FROM range(10000) a, range(20000) b WHERE (a.range * b.range) % 7 = 3"
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
COUNT = "SELECT count(*) FROM emp"
PROC = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


def worker(box: Sandbox) -> Process:
    process = box._workers.slots[0]
    assert process is not None
    return process


def strike(box: Sandbox, number: signal.Signals, times: int) -> threading.Thread:
    """Send a signal to the worker while it runs a job, as often as a new one takes its place."""

    def run() -> None:
        struck: set[int] = set()
        while len(struck) < times:
            process = box._workers.slots[0]
            if process is not None and process.jobs and process.phase == "run" and process.pid not in struck:
                time.sleep(0.1)
                os.kill(process.pid, number)
                struck.add(process.pid)
            time.sleep(0.02)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def gone(pid: int, within_s: float = 3.0) -> bool:
    """Whether a process ends, or is dead and only waits for its parent to read how."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] in "ZX":
            return True
        time.sleep(0.05)
    return False


# ---- workers -----------------------------------------------------------------------------------------------


def test_a_worker_killed_once_costs_no_job(instance: Instance) -> None:
    with Sandbox(Limits(timeout_s=20.0)) as box:
        box.run([Job(instance, COUNT)])
        thread = strike(box, signal.SIGKILL, times=1)
        executions = box.run([Job(instance, LONG), Job(instance, COUNT)])
        thread.join()
    assert [execution.outcome for execution in executions] == [Outcome.ROWS, Outcome.ROWS]


@pytest.mark.parametrize(("number", "outcome"), [(signal.SIGKILL, Outcome.MEMORY), (signal.SIGSEGV, Outcome.ERROR)])
def test_a_job_that_kills_twice_is_named_and_alone(
    instance: Instance, number: signal.Signals, outcome: Outcome
) -> None:
    with Sandbox(Limits(timeout_s=20.0)) as box:
        thread = strike(box, number, times=2)
        killer, *others = box.run([Job(instance, ENDLESS), Job(instance, COUNT), Job(instance, COUNT + " ")])
        thread.join()
    assert killer.outcome is outcome
    assert killer.reason == f"the worker died (signal {number}), twice"
    assert [other.rows for other in others] == [((4,),), ((4,),)]


def test_a_stopped_worker_is_killed(instance: Instance) -> None:
    with Sandbox(Limits(timeout_s=0.6, grace_s=0.3)) as box:
        box.run([Job(instance, COUNT)])
        thread = strike(box, signal.SIGSTOP, times=1)
        stopped, after = box.run([Job(instance, LONG), Job(instance, COUNT + " ")])
        thread.join()
    assert stopped.outcome is Outcome.TIMEOUT
    assert after.rows == ((4,),)


def test_an_idle_worker_that_died_is_replaced(instance: Instance) -> None:
    with Sandbox() as box:
        box.run([Job(instance, COUNT)])
        os.kill(worker(box).pid, signal.SIGKILL)
        assert box.run([Job(instance, COUNT)])[0].rows == ((4,),)


def test_an_old_worker_is_replaced_between_jobs(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "_LIFETIME", 3)
    pids = []
    with Sandbox() as box:
        for turn in range(3):
            found = box.run([Job(instance, f"{COUNT} WHERE id > {turn - bound}") for bound in (5, 6)])
            assert [execution.rows for execution in found] == [((4,),)] * 2
            pids.append(worker(box).pid)
    assert pids[0] == pids[1] != pids[2]
    assert gone(pids[0])


LIES = [
    wire.frame(b"E", b"garbage"),
    wire.frame(b"?", b""),
    wire.HEADER.pack(b"E", 2**31),
    wire.frame(b"H", b"[]"),
    wire.frame(b"E", wire.pack_parts([b"[" * 100_000])),
]


def test_a_worker_that_lies_hurts_only_its_job(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Process.read
    with Sandbox() as box:
        for lie in LIES:
            box.run([Job(instance, COUNT)])
            monkeypatch.setattr(Process, "read", lambda self, lie=lie: (self._in.extend(lie), read(self))[1])
            execution = box.run([Job(instance, COUNT)])[0]
            monkeypatch.undo()
            assert execution.outcome in (Outcome.ERROR, Outcome.FAULT)
            assert box.run([Job(instance, COUNT)])[0].rows == ((4,),)


def test_workers_that_do_not_start_are_the_verifiers_fault(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module.sys, "executable", "/nowhere/python")
    with Sandbox() as box:
        executions = box.run([Job(instance, COUNT), Job(instance, "")])
    assert [execution.outcome for execution in executions] == [Outcome.FAULT, Outcome.ERROR]
    monkeypatch.setattr(process_module.sys, "executable", "/bin/false")
    with Sandbox() as box:
        assert box.run([Job(instance, COUNT)])[0].reason == "no worker process starts"


def test_databases_that_do_not_open_are_the_verifiers_fault(tmp_path: Path, instance: Instance) -> None:
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"not a database" * 1000)
    missing = Instance(database="m", index=0, path=tmp_path / "missing.duckdb", sha256="")
    with Sandbox() as box:
        executions = box.run(
            [
                Job(Instance(database="b", index=0, path=broken, sha256=""), COUNT),
                Job(missing, COUNT),
                Job(missing, "SELECT 1"),
                Job(instance, COUNT),
            ]
        )
    assert [execution.outcome for execution in executions] == [Outcome.FAULT] * 3 + [Outcome.ROWS]
    assert "does not open" in executions[0].reason


def test_an_instance_built_anew_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    build(path, "CREATE TABLE t AS SELECT 1 AS a")
    with Sandbox() as box:
        old = box.run([Job(Instance(database="a", index=0, path=path, sha256="1"), "FROM t")])[0]
        path.unlink()
        build(path, "CREATE TABLE t AS SELECT 2 AS a")
        new = box.run([Job(Instance(database="a", index=0, path=path, sha256="2"), "FROM t")])[0]
    assert (old.rows, new.rows) == (((1,),), ((2,),))


# ---- parents -----------------------------------------------------------------------------------------------

PARENT = """
import sys, threading, time
from pathlib import Path
from text2sql_rl.records import Instance
from text2sql_rl.sandbox import Job, Limits, Sandbox
instance = Instance(database="a", index=0, path=Path(sys.argv[1]), sha256="")
box = Sandbox(Limits(timeout_s=60.0))
box.run([Job(instance, "SELECT 1")])
if sys.argv[2]:
    threading.Thread(target=box.run, args=([Job(instance, sys.argv[2])],), daemon=True).start()
    time.sleep(0.3)
print(box._workers.slots[0].pid, flush=True)
if sys.argv[3] == "wait":
    time.sleep(60)
"""


@PROC
@pytest.mark.parametrize(("sql", "how"), [("", "wait"), (ENDLESS, "wait"), (ENDLESS, "end")])
def test_workers_end_with_their_parent(instance: Instance, sql: str, how: str) -> None:
    command = [sys.executable, "-c", PARENT, str(instance.path), sql, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if how == "wait":
            parent.kill()
        parent.wait()
    assert gone(pid)


@PROC
def test_a_sandbox_that_is_forgotten_ends_its_workers(instance: Instance) -> None:
    box = Sandbox()
    box.run([Job(instance, COUNT)])
    pid = worker(box).pid
    del box
    assert gone(pid)


@PROC
def test_no_descriptors_and_no_processes_are_left(instance: Instance) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    for _ in range(2):
        with Sandbox(Limits(timeout_s=0.3, grace_s=0.2), workers=2) as box:
            box.run([Job(instance, COUNT), Job(instance, ENDLESS), Job(instance, "SELECT len(range(300000000))")])
            pids = [process.pid for process in box._workers.slots if process is not None]
        assert all(gone(pid) for pid in pids)
    assert count() == before


def test_a_forked_child_leaves_its_parents_workers_alone(instance: Instance) -> None:
    script = """
import os, sys
from pathlib import Path
from text2sql_rl.records import Instance
from text2sql_rl.sandbox import Job, Sandbox
job = Job(Instance(database="a", index=0, path=Path(sys.argv[1]), sha256=""), "SELECT count(*) FROM emp")
with Sandbox() as box:
    first = box.run([job])[0].rows
    child = os.fork()
    if child == 0:
        fine = box.run([job])[0].rows == first
        box.close()
        os._exit(0 if fine else 1)
    fine = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sys.exit(0 if fine and box.run([job])[0].rows == first == ((4,),) else 1)
"""
    assert subprocess.run([sys.executable, "-c", script, str(instance.path)], cwd=ROOT, timeout=30).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="SIGXCPU as on Linux")
def test_a_worker_without_a_parent_runs_out_of_processor_time() -> None:
    script = "from text2sql_rl.sandbox.confine import limit_cpu\nlimit_cpu(0.2)\nwhile True: pass"
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=20)
    assert ended.returncode == -signal.SIGXCPU


def test_an_interrupted_run_leaves_nothing_half_done(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox() as box:
        box.run([Job(instance, COUNT)])
        read, calls = Process.read, []

        def interrupted(self: Process) -> object:
            calls.append(1)
            raise KeyboardInterrupt

        monkeypatch.setattr(Process, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            box.run([Job(instance, "SELECT 7")])
        monkeypatch.setattr(Process, "read", read)
        assert calls
        assert box.run([Job(instance, "SELECT 8")])[0].rows == ((8,),)

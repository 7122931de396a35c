"""Worker processes as their parent sees them: started, fed, read, killed.

In: job numbers and frames. Out: frames and the state of the job at the head of the queue. Reads and writes never
block. The process starts in a session of its own, in `/`, with an empty environment but for what Python needs.

Not here: which job goes where, what a death means (batch.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from text2sql_rl.sandbox import wire
from text2sql_rl.sandbox.limits import Guards, Limits

START_S = 60.0
OPEN_S = 60.0
_REAP_S = 5.0
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": "/"}
_READ_BYTES = 1 << 20
_ROOT = Path(__file__).resolve().parents[2]


def _clock_of(pid: int) -> int:
    """Linux's number for the clock of a process's processor time (clock_getcpuclockid)."""
    return (~pid << 3) | 2


def _python_path() -> str:
    """This package's parent, and the user's own libraries where this interpreter uses them."""
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return os.pathsep.join([str(_ROOT), *own])


class Process:
    """A worker. `phase` says what it does: start, open, run; `done` counts the jobs it has finished."""

    def __init__(self, limits: Limits, guards: Guards) -> None:
        """Start the interpreter; `begin` gives it its limits and folders.

        Raises:
            OSError: no process can be started.
        """
        self._limits, self._guards = limits, guards
        self.folders: frozenset[Path] = frozenset()
        self.begun = False
        self.alone = False
        self.phase = "start"
        self.done = 0
        self.opened = False
        self.active: tuple[str, ...] = ()
        self.jobs: deque[int] = deque()
        self.deadline = float("inf")
        self._extended = False
        self._processor_s = self._last = 0.0
        self._in, self._out = bytearray(), bytearray()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "text2sql_rl.sandbox.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT | {"PYTHONPATH": _python_path()},
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.input, self.output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self.input, False)
        os.set_blocking(self.output, False)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def writing(self) -> bool:
        """Whether bytes wait to be written."""
        return bool(self._out)

    def begin(self, folders: Iterable[Path]) -> None:
        """Tell the worker its limits and the only folders it may read from."""
        self.folders, self.begun = frozenset(folders), True
        message = {
            "limits": asdict(self._limits),
            "guards": asdict(self._guards),
            "folders": sorted(map(str, self.folders)),
        }
        self._out += wire.frame(b"I", json.dumps(message).encode())
        self.deadline = time.monotonic() + START_S
        self.write()

    def send(self, number: int, path: Path, sha256: str, sql: str, beside: Sequence[tuple[str, str]] = ()) -> None:
        """Queue one job; `beside` are the paths and hashes of instances to open with its own."""
        job = {"n": number, "path": str(path), "sha": sha256, "sql": sql, "beside": beside}
        self.jobs.append(number)
        self._out += wire.frame(b"J", json.dumps(job).encode())
        if len(self.jobs) == 1 and self.phase != "start":
            self.restart_clock()
        self.write()

    def restart_clock(self) -> None:
        """The job at the head starts now."""
        self.phase, self._extended = "run", False
        self.deadline = float("inf")
        if self.jobs:
            now, limits = time.monotonic(), self._limits
            self.deadline, self._last = (
                now + limits.timeout_s + limits.grace_s,
                now + limits.patience_s + limits.grace_s,
            )
            self._processor_s = self._used()

    def starved(self) -> bool:
        """Put the deadline off for a job that the machine has hardly let run; false when it has, or patience ends."""
        limits = self._limits
        missing = limits.processor_s * (1 + limits.grace_s / limits.timeout_s) - (self._used() - self._processor_s)
        now = time.monotonic()
        if missing <= 0 or now > self._last:
            return False
        # Processor time is never faster than the clock.
        self.deadline = min(now + max(missing, 0.02), self._last)
        return True

    def _used(self) -> float:
        """Processor seconds of the worker; as if it had all there are where this system does not tell."""
        try:
            return time.clock_gettime(_clock_of(self.pid))
        except (OSError, OverflowError):
            return time.monotonic()

    def extend(self) -> bool:
        """Once a job, more time for an answer that has begun to arrive; false when there is none to give."""
        if self._extended or not self._in:
            return False
        self._extended, self.deadline = True, time.monotonic() + self._limits.grace_s
        return True

    def opening(self) -> None:
        """The worker opens an instance: the verifier's own time."""
        self.phase, self.opened, self.deadline = "open", True, time.monotonic() + OPEN_S

    def write(self) -> None:
        """Write what the pipe takes; a dead worker is noticed when it is read."""
        try:
            while self._out:
                del self._out[: os.write(self.input, self._out)]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._out.clear()

    def read(self) -> tuple[list[tuple[bytes, bytes]], bool]:
        """Complete frames that have arrived, and whether the worker has closed its output.

        Raises:
            WireError: the worker sends what no honest worker would.
        """
        ended = False
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.output, _READ_BYTES)
            ended = not data
            self._in += data
        return list(wire.take_frames(self._in, self._limits.max_bytes * 2 + (4 << 20))), ended

    def kill(self) -> int:
        """End the process; minus the signal that ended it, or its exit status."""
        self._process.kill()
        status = self.exit_status(_REAP_S)  # a process stuck in the kernel is left behind rather than waited for
        self.drop()
        return -signal.SIGKILL if status is None else status

    def exit_status(self, timeout_s: float) -> int | None:
        """How the process ended by itself, if it does within `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def drop(self) -> None:
        """Close this side's pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Workers:
    """The slots of one sandbox. `folders` are those the workers must be able to read."""

    def __init__(self, limits: Limits, guards: Guards, count: int) -> None:
        """Start `count` workers; a slot whose worker does not start is empty."""
        self.limits, self.guards = limits, guards
        self.folders: frozenset[Path] = frozenset()
        self.owner = os.getpid()
        self.slots: list[Process | None] = [None] * count
        self.slots[:] = [self.spawn() for _ in range(count)]

    def allow(self, folders: Iterable[Path]) -> None:
        """Let the workers read below these folders as well; one that was told others is replaced when it is idle."""
        new = {one for one in folders if not any(one.is_relative_to(known) for known in self.folders)}
        self.folders |= new

    def spawn(self) -> Process | None:
        """A new worker, or None where the system starts no process."""
        try:
            return Process(self.limits, self.guards)
        except OSError:
            return None

    def end(self) -> None:
        """End all workers, unless this is a forked child of the process that owns them."""
        if os.getpid() == self.owner:
            for process in self.slots:
                if process is not None:
                    process.kill()
            self.slots[:] = [None] * len(self.slots)

    def disown(self) -> None:
        """In a forked child: let go of the parent's workers without ending them, and own what comes."""
        for process in self.slots:
            if process is not None:
                process.drop()
        self.slots[:] = [None] * len(self.slots)
        self.owner = os.getpid()

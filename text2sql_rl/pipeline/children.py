"""One stage as a child process, and the memory of a tree of processes.

In: a command line and a log file. Out: a `Child` that can be polled, asked to stop and killed, with its seconds, its
processor seconds (with those of its own children, as far as it waited for them) and its peak memory. A child and all
that it starts form one process group, so that nothing outlives it. Not here: when to start which.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from text2sql_rl.runs import DiskGuard

_PARENT = "TEXT2SQL_PARENT_PID"
_PR_SET_PDEATHSIG = 1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Child:
    """A running stage.

    Args:
        name: the stage.
        command: the command line.
        log: the file that its output is added to.
        environment: its whole environment.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self.name, self.log = name, log
        self.peak_rss_mb = self.cpu_s = 0.0
        self.exit_code: int | None = None
        self._began = time.monotonic()
        self._ended = 0.0
        with DiskGuard(log):
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**environment, _PARENT: str(os.getpid())},
                    start_new_session=True,  # the terminal's Ctrl-C reaches it once, through us
                )

    @property
    def wall_s(self) -> float:
        """Seconds since it was started, or that it took."""
        return (self._ended or time.monotonic()) - self._began

    def poll(self) -> bool:
        """Whether it has ended; then `exit_code` (negative: killed by that signal) and its costs are set."""
        if self.exit_code is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._ended = time.monotonic()
                self.peak_rss_mb, self.cpu_s = usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
                self.exit_code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.kill()  # whatever it left behind
        return self.exit_code is not None

    def ask(self, number: signal.Signals) -> None:
        """Send a signal to the child alone: it ends its own helpers, in its own order."""
        if self.exit_code is None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End the child and all that it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def last_line(self) -> str:
        """The last line it wrote: its own one-line error where it failed."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def end_all(children: Sequence[Child], number: signal.Signals, grace_s: float) -> None:
    """Ask all to stop, wait for them, and kill those that have not ended after `grace_s` seconds."""
    for child in children:
        child.ask(number)
    deadline = time.monotonic() + grace_s
    while not all([child.poll() for child in children]):
        if time.monotonic() > deadline:
            for child in children:
                child.kill()
        time.sleep(0.05)


def follow_parent() -> None:
    """In a child: end when the parent is gone, however it went, so that no stage is left running unseen."""
    parent = os.environ.pop(_PARENT, "")
    if not parent:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        raise SystemExit(128 + signal.SIGTERM)


def tree_rss_mb(root: int) -> float:
    """Resident memory of a process and all its descendants now, in MiB; pages they share count for each.

    0.0 where the system has no /proc.
    """
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, fields = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
        except (OSError, ValueError):  # it has ended meanwhile
            continue
        parents[pid], pages[pid] = int(fields[1]), int(fields[21])
    inside = {root}
    while added := {pid for pid, parent in parents.items() if parent in inside} - inside:
        inside |= added
    return sum(pages.get(pid, 0) for pid in inside) * _PAGE_BYTES / 2**20

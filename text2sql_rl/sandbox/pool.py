"""The door of the sandbox: hands jobs to workers and gives back executions.

In: jobs. Out: executions in the same order. A candidate's fault is never an exception: every job gets an outcome.

Not here: what a worker's death means (batch.py), pipes (process.py), SQL.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from text2sql_rl.errors import SandboxError
from text2sql_rl.records import Execution
from text2sql_rl.sandbox.batch import Batch
from text2sql_rl.sandbox.limits import ALL_GUARDS, DEFAULT_LIMITS, Guards, Job, Limits
from text2sql_rl.sandbox.process import Workers

_GUARDS = ("rlimit address space", "rlimit file size", "no_new_privs", "no capabilities", "landlock", "seccomp")


class Sandbox:
    """Runs statements in worker processes. A context manager; `close` ends the workers.

    One `run` at a time: calls from several threads wait for each other.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, workers: int = 1, *, guards: Guards = ALL_GUARDS) -> None:
        """Start the workers.

        Args:
            limits: what one statement may use.
            workers: processes that run statements side by side; raise it with the processor cores.
            guards: leave it alone; tests take single layers away.

        Raises:
            SandboxError: `workers` is not positive.
        """
        if workers < 1:
            raise SandboxError(f"a sandbox needs at least one worker, not {workers}", fix="Set workers to 1 or more")
        self.limits = limits
        self._lock = threading.Lock()
        self._closed = False
        self._workers = Workers(limits, guards, workers)
        self._finalizer = weakref.finalize(self, self._workers.end)

    def __enter__(self) -> Sandbox:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the workers."""
        self.close()

    def close(self) -> None:
        """End the workers, once a run in progress is done. Idempotent; a closed sandbox runs nothing more."""
        with self._lock:
            self._closed = True
            self._finalizer()

    def allow(self, folders: Iterable[Path]) -> None:
        """Let the workers read databases anywhere below these folders, as far as they exist.

        A worker is told once what it may read: the folder of a database that lies nowhere in these costs a new one.
        """
        with self._lock:
            self._workers.allow(folder.resolve() for folder in folders if folder.is_dir())

    def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
        """Run every job and return its execution, in the same order.

        Identical jobs run once. Never raises for a candidate's fault.

        Raises:
            SandboxError: the sandbox is closed.
        """
        with self._lock:
            if self._closed:
                raise SandboxError("the sandbox is closed", fix="Open a new one")
            self._adopt()
            batch = Batch(self._workers, jobs)
            try:
                batch.run()
            except BaseException:
                self._workers.end()
                raise
            return batch.executions()

    def doctor(self) -> Mapping[str, bool]:
        """Which of the operating system's guards stand on this machine, by name."""
        with self._lock:
            self._adopt()
            Batch(self._workers, ()).start_one()
            active = next((process.active for process in self._workers.slots if process is not None), ())
        return {name: any(found.startswith(name) for found in active) for name in _GUARDS}

    def _adopt(self) -> None:
        """In a forked child the workers are the parent's: leave them alone and use own ones."""
        if os.getpid() != self._workers.owner:
            self._finalizer.detach()
            self._workers.disown()
            self._finalizer = weakref.finalize(self, self._workers.end)

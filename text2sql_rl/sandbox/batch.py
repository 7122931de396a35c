"""One call of `Sandbox.run`: jobs that wait, run and are done.

In: jobs and the slots of workers. Out: an execution for every job. The waiting is one loop over one selector with
the nearest deadline as its time limit, so this side never blocks longer than a job may run.

What a worker's death means: killed by this side at the deadline -> TIMEOUT for the job it was running. Died of
itself, or reported itself hurt (address space full, engine failure) -> that job runs once more, alone in a new
worker; what happens then is the job's outcome (ERROR or MEMORY). So no job suffers for what another one did. The
verifier's own failures (no worker starts, an instance does not open) are FAULT.

Not here: pipes and signals (process.py), SQL.
"""

from __future__ import annotations

import json
import selectors
import signal
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from text2sql_rl.records import Execution, Instance, Outcome
from text2sql_rl.sandbox import wire
from text2sql_rl.sandbox.limits import Job, Limits
from text2sql_rl.sandbox.process import Process, Workers

_WINDOW = 4
_FAILED_STARTS = 3
# So many made instances of a database are opened at once, whichever of them is asked for.
_TOGETHER = 24
# Parent and workers were seen to grow by 0.9 kB a statement, where checking and comparing alone do not grow. Whatever a
# worker keeps, its end gives back; a new one takes about a second of processor time, so many statements half a minute.
_LIFETIME = 20_000


class Batch:
    """One call of `run`: the jobs that wait, run and are done."""

    def __init__(self, workers: Workers, jobs: Sequence[Job]) -> None:
        """Sort out what needs no worker, and what is the same.

        Args:
            workers: the slots to run on.
            jobs: in the order in which their executions are wanted.
        """
        self._workers, self._limits = workers, workers.limits
        self._results: dict[int, Execution] = {}
        self._deaths: dict[int, int] = {}
        self._alone: deque[int] = deque()
        self._unopenable: set[Path] = set()
        self._failed_starts = 0
        numbers: dict[tuple[Path, str, str], int] = {}
        self._jobs: list[Job] = []
        self._order: list[int] = []
        for job in jobs:
            key = (job.instance.path, job.instance.sha256, job.sql)
            if key not in numbers:
                numbers[key] = len(self._jobs)
                self._jobs.append(job)
            self._order.append(numbers[key])
        self._paths = {path: path.resolve() for path in {job.instance.path for job in self._jobs}}
        self._beside = _side_by_side([job.instance for job in self._jobs], self._paths)
        waiting = []
        for number, job in enumerate(self._jobs):
            if (early := _without_running(job.sql, self._limits)) is not None:
                self._results[number] = early
            else:
                waiting.append(number)
        # Jobs of one instance stand together, so that a worker opens it once.
        waiting.sort(key=lambda number: str(self._jobs[number].instance.path))
        self._waiting = deque(waiting)
        self._share = max(1, min(_WINDOW, -(-len(waiting) // len(workers.slots))))
        workers.allow({path.parent for path in self._paths.values()})

    def executions(self) -> tuple[Execution, ...]:
        """One execution a job given, in their order; after `run`."""
        return tuple(self._results[number] for number in self._order)

    def run(self) -> None:
        """Run everything to its outcome."""
        while len(self._results) < len(self._jobs):
            for slot in range(len(self._workers.slots)):
                self._feed(slot)
            if self._failed_starts >= _FAILED_STARTS:
                self._give_up()
                return
            self._step()

    def start_one(self) -> None:
        """Wait until a worker is ready (or none can be)."""
        while self._failed_starts < _FAILED_STARTS:
            process = self._ready(0)
            if process is not None and process.phase != "start":
                return
            self._step()

    # ---- feeding -------------------------------------------------------------------------------------------

    def _ready(self, slot: int) -> Process | None:
        """The worker of this slot, started anew where it is missing, old, or may not read a folder it needs."""
        process = self._workers.slots[slot]
        idle = process is not None and process.begun and not process.jobs
        if process is not None and idle and (process.done >= _LIFETIME or process.folders < self._workers.folders):
            process.kill()
            process = None
        if process is None:
            process = self._workers.slots[slot] = self._workers.spawn()
            if process is None:
                self._failed_starts += 1
                return None
        if not process.begun:
            process.begin(self._workers.folders)
        return process

    def _feed(self, slot: int) -> None:
        held = self._workers.slots[slot]
        if held is not None and held.alone and held.jobs:
            return
        if self._alone and (held is None or not held.jobs):
            if held is not None and held.done:
                held.kill()
                self._workers.slots[slot] = None
            process = self._ready(slot)
            if process is not None:
                process.alone = True
                self._give(process, self._alone.popleft())
            return
        if self._alone or not self._waiting:
            return
        process = self._ready(slot)
        if process is None or not self._workers.folders <= process.folders:
            return
        process.alone = False
        # From both ends, so that two workers do not open the same instances.
        take = self._waiting.pop if slot % 2 else self._waiting.popleft
        while self._waiting and len(process.jobs) < self._share:
            self._give(process, take())

    def _give(self, process: Process, number: int) -> None:
        job = self._jobs[number]
        path = self._paths[job.instance.path]
        process.send(number, path, job.instance.sha256, job.sql, self._beside.get(job.instance.path, ()))

    # ---- waiting -------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Wait for the next event: frames, room to write, or a deadline."""
        live = [(slot, process) for slot, process in enumerate(self._workers.slots) if process is not None]
        live = [(slot, process) for slot, process in live if process.begun]
        with selectors.PollSelector() as selector:
            for slot, process in live:
                selector.register(process.output, selectors.EVENT_READ, slot)
                if process.writing:
                    selector.register(process.input, selectors.EVENT_WRITE, slot)
            wait = min((process.deadline for _, process in live), default=0.0) - time.monotonic()
            for key, event in selector.select(min(max(wait, 0.0), 60.0)):
                process = self._workers.slots[key.data]
                if process is not None and event & selectors.EVENT_WRITE:
                    process.write()
                elif process is not None:
                    self._read(key.data, process)
        for slot, process in live:
            if self._workers.slots[slot] is process and time.monotonic() > process.deadline:
                self._overdue(slot, process)

    def _read(self, slot: int, process: Process) -> None:
        try:
            frames, ended = process.read()
            for kind, payload in frames:
                if self._workers.slots[slot] is process:
                    self._frame(slot, process, kind, payload)
        except (wire.WireError, ValueError, ArithmeticError, LookupError, TypeError, RecursionError):
            if self._workers.slots[slot] is process:  # it speaks nonsense: something has taken it over
                process.kill()
                self._died(slot, process, "the worker was corrupted", Outcome.ERROR)
            return
        if ended and self._workers.slots[slot] is process:
            status = process.exit_status(1.0)
            status = process.kill() if status is None else status
            process.drop()
            memory = status == -signal.SIGKILL
            how = f"signal {-status}" if status < 0 else f"status {status}"
            self._died(slot, process, f"the worker died ({how})", Outcome.MEMORY if memory else Outcome.ERROR)

    def _frame(self, slot: int, process: Process, kind: bytes, payload: bytes) -> None:
        if kind == b"H" and process.phase == "start":
            process.active = tuple(map(str, json.loads(payload)))
            self._failed_starts = 0
            process.restart_clock()
        elif (
            kind == b"X" and process.phase == "start"
        ):  # on a system this was not written for: better without Landlock than not at all
            self._workers.guards = replace(self._workers.guards, landlock=False)
            self._failed_starts += 1
            self._replace(slot, process)
        elif kind == b"O" and process.phase == "run" and not process.opened:  # once a job: it stops the job's clock
            process.opening()
        elif kind == b"G" and process.phase == "open":
            process.restart_clock()
        elif kind == b"F":
            head = json.loads(payload)
            path = self._jobs[int(head["n"])].instance.path
            if path in self._unopenable or not self._retry(slot, process, int(head["n"])):
                self._unopenable.add(path)
                self._finish(process, int(head["n"]), _fault(f"the instance does not open: {head['reason']}"))
        elif kind == b"E":
            parts = wire.unpack_parts(payload)
            head = json.loads(parts[0])
            execution = _execution(head, parts[1:])
            if head["hurt"] and self._retry(slot, process, int(head["n"])):
                return
            self._finish(process, int(head["n"]), execution)
            if head["hurt"]:
                self._replace(slot, process)
        else:
            raise wire.WireError(f"a frame of kind {kind!r} while the worker should {process.phase}")

    def _finish(self, process: Process, number: int, execution: Execution) -> None:
        if not process.jobs or process.jobs[0] != number:
            raise wire.WireError("an answer to another job")
        process.jobs.popleft()
        process.done += 1
        process.opened = False
        process.restart_clock()
        self._results[number] = execution

    # ---- deaths --------------------------------------------------------------------------------------------

    def _overdue(self, slot: int, process: Process) -> None:
        """A deadline has passed: end the worker, and its job with it."""
        if process.phase == "run":
            self._read(slot, process)  # the answer may have come while this side was not looking
            if self._workers.slots[slot] is not process or time.monotonic() <= process.deadline or process.extend():
                return
            if process.starved():
                return
        process.kill()
        if process.phase == "run" and process.jobs:
            limits = self._limits
            reason = f"not done after {limits.timeout_s:g} s, and deaf for {limits.grace_s:g} s more: killed"
            self._results[process.jobs.popleft()] = _failure(Outcome.TIMEOUT, reason, limits.timeout_s)
        elif process.phase == "open" and process.jobs:
            self._results[process.jobs.popleft()] = _fault("the instance does not open in time")
        else:
            self._failed_starts += 1
        self._replace(slot, process)

    def _died(self, slot: int, process: Process, how: str, outcome: Outcome) -> None:
        """A worker ended by itself: its job runs once more, alone; the second time it is the job's doing."""
        if process.phase == "start":
            self._failed_starts += 1
        elif process.jobs:
            number = process.jobs.popleft()
            self._deaths[number] = self._deaths.get(number, 0) + 1
            if self._deaths[number] > 1:
                opening = process.phase == "open"
                self._results[number] = _fault(f"{how} opening") if opening else _failure(outcome, f"{how}, twice")
            else:
                self._alone.append(number)
        self._replace(slot, process)

    def _retry(self, slot: int, process: Process, number: int) -> bool:
        """Run a job again whose worker was hurt and had run other jobs before; false when it was the first."""
        if not process.done or number in self._deaths or not process.jobs or process.jobs[0] != number:
            return False
        self._deaths[number] = 1
        process.jobs.popleft()
        self._alone.append(number)
        self._replace(slot, process)
        return True

    def _replace(self, slot: int, process: Process) -> None:
        """Put the jobs of a worker that is gone back, in order, and free its slot."""
        self._waiting.extendleft(reversed(process.jobs))
        process.jobs.clear()
        process.kill()
        self._workers.slots[slot] = None

    def _give_up(self) -> None:
        """No worker starts: every job left is the verifier's fault."""
        for number in range(len(self._jobs)):
            self._results.setdefault(number, _fault("no worker process starts"))
        self._workers.end()


def _side_by_side(instances: Iterable[Instance], paths: Mapping[Path, Path]) -> dict[Path, Sequence[tuple[str, str]]]:
    """The paths and hashes to open with each made instance: of its database, in its folder. Real ones are alone."""
    groups: dict[tuple[str, Path], dict[Path, str]] = {}
    for one in instances:
        if one.index:
            groups.setdefault((one.database, one.path.parent), {})[one.path] = one.sha256
    beside: dict[Path, Sequence[tuple[str, str]]] = {}
    for group in groups.values():
        members = sorted(group)
        for at in range(0, len(members), _TOGETHER):
            part = members[at : at + _TOGETHER]
            stamps = [(str(paths[path]), group[path]) for path in part]
            beside.update((path, stamps) for path in part)
    return beside


def _without_running(sql: str, limits: Limits) -> Execution | None:
    """The outcome of a text that is no statement at all; None when a worker must look at it."""
    if len(sql) > limits.max_sql_chars:
        return _failure(Outcome.REFUSED, f"longer than {limits.max_sql_chars} characters")
    if not sql.strip():
        return _failure(Outcome.ERROR, "there is no statement")
    if "\0" in sql:
        return _failure(Outcome.ERROR, "a NUL character")
    try:
        sql.encode()
    except UnicodeEncodeError:
        return _failure(Outcome.ERROR, "not valid Unicode (a lone surrogate)")
    return None


def _execution(head: Mapping[str, Any], chunks: Sequence[bytes]) -> Execution:
    outcome = Outcome(head["outcome"])
    columns, types = tuple(map(str, head["columns"])), tuple(map(str, head["types"]))
    rows = tuple(row for chunk in chunks for row in wire.decode_rows(chunk))
    if len(rows) != head["rows"] or any(len(row) != len(columns) for row in rows[:1]) or outcome is Outcome.FAULT:
        raise wire.WireError("rows that do not fit their head")
    return Execution(
        outcome=outcome,
        columns=columns,
        types=types,
        rows=rows,
        reads_tables=bool(head["reads"]),
        reason=str(head["reason"]),
        elapsed_s=float(head["elapsed"]),
    )


def _failure(outcome: Outcome, reason: str, elapsed_s: float = 0.0) -> Execution:
    return Execution(outcome=outcome, reason=reason, elapsed_s=elapsed_s)


def _fault(reason: str) -> Execution:
    return _failure(Outcome.FAULT, reason)

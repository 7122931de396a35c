"""The process that runs statements: started as `python -m text2sql_rl.sandbox.worker`, killed at will.

In: frames on standard input: one `I` (limits, guards, folders), then any number of `J` (one job each). Out: frames
on standard output: `H` once ready (the guards that stand), `X` if it cannot work under them, `O` before and `G` after
opening an instance, `E` an execution, `F` an instance that does not open. Jobs are run one at a time, in order.
Between jobs the process keeps open databases and nothing else. It ends when its input ends, or its parent is gone.

Not here: which databases stay open (shelf.py), retries, kills, what a death means (batch.py).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.records import Outcome
from text2sql_rl.sandbox import engine, wire
from text2sql_rl.sandbox.confine import confine, limit_cpu
from text2sql_rl.sandbox.gate import Gate, Passage
from text2sql_rl.sandbox.limits import ONE_THREAD, Guards, Limits
from text2sql_rl.sandbox.shelf import Shelf

_PASSAGES = 512
_TICK_S = 0.01
_DEPTH = 20_000


@dataclass(slots=True)
class _Watch:
    """The deadline's clock: a thread that interrupts the running statement until it gives up, and watches the parent.

    An interrupt that arrives before the engine starts is lost, so it is repeated at every tick. The deadline is
    wall-clock time; a statement that the machine has let run for less than half of it goes on, to the last deadline.
    """

    interrupts: bool
    parent: int = field(default_factory=os.getppid)
    cursor: duckdb.DuckDBPyConnection | None = None
    deadline: float = float("inf")
    last: float = float("inf")
    processor: float = 0.0

    def begin(self, limits: Limits) -> None:
        now = time.monotonic()
        self.last, self.processor = now + limits.patience_s, time.process_time() + limits.processor_s
        self.deadline = now + limits.timeout_s

    def end(self) -> None:
        self.cursor, self.deadline = None, float("inf")

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def expired(self) -> bool:
        now = time.monotonic()
        return now > self.deadline and (time.process_time() > self.processor or now > self.last)

    def _run(self) -> None:
        while os.getppid() == self.parent:
            time.sleep(_TICK_S)
            cursor = self.cursor
            if self.interrupts and cursor is not None and self.expired():
                cursor.interrupt()
        os._exit(0)


class Worker:
    """Runs jobs one at a time."""

    def __init__(self, limits: Limits, guards: Guards, output: int) -> None:
        """Sets up the gate and the watch.

        Args:
            limits: of each job.
            guards: which layers stand.
            output: descriptor that frames are written to.
        """
        self._limits, self._guards, self._output = limits, guards, output
        self._gate = Gate(guards.second_look)
        self._watch = _Watch(guards.interrupt)
        self._shelf = Shelf(limits, guards.engine)
        self._passages: OrderedDict[tuple[Any, str], Passage] = OrderedDict()

    def start(self) -> None:
        """Start the watch; after the process is confined, since confinement holds for later threads only."""
        self._watch.start()

    def send(self, kind: bytes, payload: bytes) -> None:
        """Write one frame whole."""
        view = memoryview(wire.frame(kind, payload))
        while view:
            view = view[os.write(self._output, view) :]

    def run(self, job: dict[str, Any]) -> None:
        """Run one job and send what came of it."""
        number = job["n"]
        try:
            opened = self._instance(job["path"], job["sha"], job["beside"])
        except (duckdb.Error, MemoryError) as error:
            self.send(b"F", json.dumps({"n": number, "reason": str(error)[:500]}).encode())
            return
        start = time.perf_counter()
        passage, run = self._statement(opened, job["sql"])
        head = {
            "n": number,
            "outcome": run.outcome.value,
            "columns": run.columns,
            "types": run.types,
            "rows": run.rows,
            "reads": passage.reads_tables,
            "reason": run.reason,
            "hurt": run.hurt,
            "elapsed": time.perf_counter() - start,
        }
        self.send(b"E", wire.pack_parts([json.dumps(head).encode(), *run.chunks]))

    def _statement(self, opened: engine.Opened, sql: str) -> tuple[Passage, engine.Run]:
        limit_cpu(2 * (self._limits.timeout_s + self._limits.grace_s) + 5)
        self._watch.begin(self._limits)
        try:
            passage = self._passage(opened, sql)
        except (MemoryError, duckdb.Error) as error:  # parsing alone has filled the address space, or broken the parser
            outcome = Outcome.ERROR
            if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
                outcome = Outcome.MEMORY
            passage = Passage(outcome, f"while parsing: {error}"[:500])
            return passage, engine.Run(outcome, reason=passage.reason, hurt=True)
        if passage.outcome is not Outcome.ROWS:
            return passage, engine.Run(passage.outcome, reason=passage.reason)
        cursor = opened.cursor()
        self._watch.cursor = cursor
        try:
            return passage, engine.run_statement(cursor, sql, self._limits, self._watch.expired)
        finally:
            self._watch.end()
            cursor.close()

    def _passage(self, opened: engine.Opened, sql: str) -> Passage:
        if not self._guards.gate:
            return Passage(Outcome.ROWS)
        names = opened.names
        named = names.catalog if names.catalog in sql.lower() else ""
        key = ((named, names.schemas, names.tables, names.columns), sql)
        if key not in self._passages:
            self._passages[key] = self._gate.check(sql, names)
            if len(self._passages) > _PASSAGES:
                self._passages.popitem(last=False)
        return self._passages[key]

    def _instance(self, path: str, sha: str, beside: list[tuple[str, str]]) -> engine.Opened:
        if (held := self._shelf.held(path, sha)) is not None:
            return held
        self.send(b"O", b"")
        opened = self._shelf.open(path, sha, beside)
        self.send(b"G", b"")
        return opened


def main() -> None:
    """Serve the frames of standard input until it ends."""
    output = os.dup(sys.stdout.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.setrecursionlimit(_DEPTH)
    source = sys.stdin.fileno()
    buffer = bytearray()
    worker: Worker | None = None
    while data := os.read(source, 1 << 16):
        buffer += data
        for kind, payload in wire.take_frames(buffer, 1 << 26):
            message = json.loads(payload.decode("utf-8", "surrogatepass"))
            if kind == b"I":
                worker = _start(message, output)
            elif worker is not None:
                worker.run(message)


def _start(message: dict[str, Any], output: int) -> Worker:
    limits, guards = Limits(**message["limits"]), Guards(**message["guards"])
    worker = Worker(limits, guards, output)
    active = confine(limits, guards, [Path(folder) for folder in message["folders"]])
    try:
        with duckdb.connect(":memory:", config=ONE_THREAD) as probe:
            probe.execute("SELECT TIMESTAMPTZ '2000-01-01 00:00:00+00'").fetchall()  # the client loads time zones now
    except duckdb.IOException as error:  # the engine reads a file of this system that Landlock's list does not have
        worker.send(b"X", str(error).encode())
        sys.exit(1)
    worker.start()
    worker.send(b"H", json.dumps(active).encode())
    return worker


if __name__ == "__main__":
    main()

"""Honest candidates beside bombs: their verdicts, the bombs' ends, the memory all of it takes.

In: Spider dev questions (or the bundled ones) as honest candidates, and bombs: statements that would run for ever or
fill the memory, those of ../shared/cases included where they are at hand. Four sandboxes of one worker each take work
from one queue, every twentieth a bomb. Out: honest verdicts that are not what they are without bombs (goal 0), the
longest a bomb took over its deadline in wall seconds (goal 1), and the most memory the process tree held as a share of
what is configured for the workers (goal 1). Not here: leaks (verifier_rss.py).
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from measure import Result, scaled
from processes import held
from spider import dev_questions, spread
from verifier_time import candidates

from text2sql_rl.compare import compare
from text2sql_rl.gold import prepare_golds
from text2sql_rl.records import Execution, Gold, Instance, Match
from text2sql_rl.sandbox import Job, Limits, Sandbox

_HONEST = 1000
_EVERY = 20
_AT_ONCE = 4
_LIMITS = Limits()
_SHARED = Path(__file__).resolve().parents[2] / "shared" / "cases" / "verifier.jsonl"
_BOMBS = (
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE hash(a.range + b.range) = 0",
    "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY hash(range)) AS r FROM range(1000000000))",
    "SELECT len(range(300000000))",
    "SELECT length(repeat('a', 3000000000))",
    "SELECT damerau_levenshtein(repeat('ab', 20000), repeat('ba', 20000))",
    "SELECT len(list_transform(range(30000000), lambda x: x::VARCHAR || repeat('y', 100)))",
    "SELECT string_agg(range::VARCHAR, repeat('z', 1000)) FROM range(1000000000)",
    "SELECT range FROM range(1000000000)",
)


def measure() -> list[Result]:
    """The three numbers."""
    asked = spread(dev_questions(), scaled(_HONEST // 8 + 1))
    with Sandbox(_LIMITS) as sandbox:
        golds = prepare_golds([(one.database.instances[0], one.question.gold_sql) for one in asked], sandbox)
        honest = [
            (gold, Job(one.database.instances[0], sql))
            for one, gold in zip(asked, golds, strict=True)
            for sql in candidates(one.question, one.database)
        ][: scaled(_HONEST)]
        alone = [
            _verdict(gold, one) for (gold, _), one in zip(honest, sandbox.run([j for _, j in honest]), strict=True)
        ]
    load = _Load(honest, _bombs(honest[0][1].instance))
    load.run()
    changed = sum(before != after for before, after in zip(alone, load.verdicts, strict=True))
    over = max(load.bomb_s, default=0.0) - _LIMITS.timeout_s
    return [
        Result("hostile.honest_verdicts_changed", changed, "count", 0, len(honest), 0.0),
        Result("hostile.most_over_deadline_s", round(over, 3), "s", 1.0, len(load.bomb_s), 0.0),
        Result("hostile.peak_memory_share", round(load.peak_share, 3), "share", 1.0, len(load.bomb_s), 0.0),
    ]


def _verdict(gold: Gold, execution: Execution) -> Match:
    return compare(gold, execution).match


def _bombs(instance: Instance) -> list[Job]:
    shared = []
    if _SHARED.is_file():
        cases = [json.loads(line) for line in _SHARED.read_text(encoding="utf-8").splitlines()]
        shared = [case["pred_sql"] for case in cases if case["expected"] == "stopped"]
    return [Job(instance, sql) for sql in (*_BOMBS, *shared)]


class _Load:
    """Honest and hostile work from one queue, by as many threads as there are sandboxes."""

    def __init__(self, honest: Sequence[tuple[Gold, Job]], bombs: Sequence[Job]) -> None:
        self.verdicts: list[Match | None] = [None] * len(honest)
        self.bomb_s: list[float] = []
        self.peak_share = 0.0
        self._honest = honest
        self._queue: queue.SimpleQueue[tuple[int | None, Job]] = queue.SimpleQueue()
        for at, (_, job) in enumerate(honest):
            if at % _EVERY == 0:
                self._queue.put((None, bombs[at // _EVERY % len(bombs)]))
            self._queue.put((at, job))
        self._ended = threading.Event()

    def run(self) -> None:
        """Do all of it."""
        watch = threading.Thread(target=self._watch)
        watch.start()
        threads = [threading.Thread(target=self._work) for _ in range(_AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._ended.set()
        watch.join()

    def _work(self) -> None:
        with Sandbox(_LIMITS) as sandbox:
            while True:
                try:
                    at, job = self._queue.get_nowait()
                except queue.Empty:
                    return
                sandbox.run([Job(job.instance, "SELECT 1")])  # a worker that was killed starts anew on nobody's time
                began = time.perf_counter()
                execution = sandbox.run([job])[0]
                if at is None:
                    self.bomb_s.append(time.perf_counter() - began)
                else:
                    self.verdicts[at] = _verdict(self._honest[at][0], execution)

    def _watch(self) -> None:
        own = held().rss_kb
        configured_kb = _AT_ONCE * _LIMITS.address_space_bytes / 1024
        while not self._ended.wait(0.05):
            self.peak_share = max(self.peak_share, (held().rss_kb - own) / configured_kb)

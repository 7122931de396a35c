"""Whether the verifier leaks: memory, files, threads and processes over 100,000 executions in one process tree.

In: Spider dev questions (or the bundled ones): golds, mutants and statements that fail, each text new, compared with
its gold. Out: the slope of the resident memory of parent and workers in kB per 1,000 executions, by least squares over
the second half (caches fill in the first), and how many files, threads and processes there are more at the end than
after the first tenth. The second half is longer than two workers live (batch.py), so it holds a worker's growth and its
end; a try on a share of the executions is shorter and shows the growth alone. Not here: bombs (hostile.py).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import numpy
from measure import Result, scaled
from processes import held
from spider import dev_questions, spread
from verifier_time import candidates

from text2sql_rl.compare import compare
from text2sql_rl.gold import prepare_golds
from text2sql_rl.sandbox import Job, Sandbox

_EXECUTIONS = 100_000
_BATCH = 500
_QUESTIONS = 200


def measure() -> list[Result]:
    """Slope and leaks; one line a twentieth on stderr."""
    asked = spread(dev_questions(), scaled(_QUESTIONS))
    executions = scaled(_EXECUTIONS, least=20 * _BATCH)
    with Sandbox(workers=2) as sandbox:
        golds = prepare_golds([(one.database.instances[0], one.question.gold_sql) for one in asked], sandbox)
        pool = [
            (one.database.instances[0], gold, sql)
            for one, gold in zip(asked, golds, strict=True)
            for sql in candidates(one.question, one.database)
        ]
        turn = itertools.cycle(pool)
        counts, seen = [], []
        for start in range(0, executions, _BATCH):
            batch = [next(turn) for _ in range(_BATCH)]
            # A trailing comment makes every text a new one, for the caches too.
            jobs = [Job(instance, f"{sql} -- {start + at}") for at, (instance, _, sql) in enumerate(batch)]
            for (_, gold, sql), execution in zip(batch, sandbox.run(jobs), strict=True):
                compare(gold, execution, sql)
            counts.append(start + _BATCH)
            seen.append(held())
            if len(seen) % max(1, executions // _BATCH // 20) == 0:
                print(f"{counts[-1]} executions: {seen[-1]}", file=sys.stderr)
    late = len(seen) // 2
    slope = _slope(counts[late:], [one.rss_kb for one in seen[late:]])
    print(f"of it the parent: {_slope(counts[late:], [one.top_kb for one in seen[late:]]):.1f}", file=sys.stderr)
    early, last = seen[len(seen) // 10], seen[-1]
    leaked = last.files - early.files + last.threads - early.threads + last.processes - early.processes
    return [
        Result("verifier.rss_slope_kb_per_1000", round(slope, 3), "kB", 0, executions, 0.0),
        Result("verifier.leaked_handles", leaked, "count", 0, executions, 0.0),
    ]


def _slope(counts: Sequence[int], kilobytes: Sequence[int]) -> float:
    """kB per 1,000 executions, by least squares."""
    return float(numpy.polyfit([count / 1000 for count in counts], kilobytes, 1)[0])

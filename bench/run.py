"""`make bench`: measured numbers -> bench/results.json.

In: the names of benchmarks, or none for all. Out: a list of {name, value, unit, baseline, n, spread}; numbers that were
not measured this time stay as they were. With $TEXT2SQL_BENCH_SHARE below 1 each runs on that share of its work, to try
it, and nothing is written. Not here: tests; nothing fails because a machine was busy.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import dynamic_sampling
import hostile
import import_cost
import informative_groups
import mutants
import report_open
import reward_share
import rewrites
import seeds
import step_time
import verifier_rss
import verifier_time
from measure import Result, share

from text2sql_rl.errors import ConfigError, Text2SqlError
from text2sql_rl.runs import write_text

BENCHMARKS = (
    reward_share,
    step_time,
    informative_groups,
    seeds,
    dynamic_sampling,
    verifier_time,
    mutants,
    rewrites,
    verifier_rss,
    hostile,
    import_cost,
    report_open,
)
OUT = Path(__file__).with_name("results.json")


def main(names: list[str]) -> int:
    """Measure, print and write; 2 when a benchmark cannot be measured, after the others were."""
    known = {benchmark.__name__: benchmark for benchmark in BENCHMARKS}
    before = json.loads(OUT.read_text(encoding="utf-8")) if OUT.is_file() else []
    results = {entry["name"]: entry for entry in before}
    failed = False
    for name in names or known:
        try:
            if name not in known:
                raise ConfigError(f"there is no benchmark {name!r}", fix=f"Choose from {', '.join(known)}.")
            measured = known[name].measure()
        except Text2SqlError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
            continue
        for result in [measured] if isinstance(measured, Result) else measured:
            results[result.name] = asdict(result)
            print(
                f"{result.name:<42} {result.value:g} {result.unit} (baseline {result.baseline:g}, n {result.n}, "
                f"spread {result.spread:g})"
            )
    if share() == 1:
        write_text(OUT, json.dumps(list(results.values()), indent=1) + "\n")
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

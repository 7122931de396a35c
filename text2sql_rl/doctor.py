"""What this machine gives a run: content, versions, cores, memory, disk, and whether the sandbox really holds.

In: nothing. Out: findings, each good, weak or bad. The sandbox is not asked what it would do: hostile statements run in
it. Not here: repairing anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from text2sql_rl.config import content_root
from text2sql_rl.content import cache_folder, open_store
from text2sql_rl.errors import Text2SqlError
from text2sql_rl.records import Instance, Outcome
from text2sql_rl.runs.files import free_bytes
from text2sql_rl.runs.folder import read_min_free_gb
from text2sql_rl.runs.origin import versions
from text2sql_rl.sandbox import Job, Limits, Sandbox

_TRAINERS = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")
_ENDLESS = "SELECT sum(sqrt(i)) FROM range(1000000000000) t(i)"
_STOPPED = (Outcome.REFUSED, Outcome.ERROR)
_PROBES: tuple[tuple[str, str, tuple[Outcome, ...]], ...] = (
    ("answers", "SELECT 1", (Outcome.ROWS,)),
    ("reads no file", "SELECT * FROM read_text('/etc/passwd')", _STOPPED),
    ("writes no file", "COPY (SELECT 1) TO '/tmp/text2sql-rl-probe.csv'", _STOPPED),
    ("changes no setting", "SET enable_external_access = true", _STOPPED),
    ("changes no data", "CREATE TEMP TABLE probe AS SELECT 1", _STOPPED),
    ("loads no extension", "INSTALL httpfs", _STOPPED),
    ("tells no setting", "SELECT * FROM duckdb_settings()", _STOPPED),
    ("ends what is endless", _ENDLESS, (Outcome.TIMEOUT,)),
    ("caps rows", "SELECT * FROM range(1000000)", (Outcome.TOO_LARGE, Outcome.REFUSED)),
    ("answers after all that", "SELECT 1", (Outcome.ROWS,)),
)


class State(StrEnum):
    """How a finding stands: fine, fine with less, or in the way of a run."""

    GOOD = "good"
    WEAK = "weak"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at, what was found, and how it stands."""

    name: str
    found: str
    state: State = State.GOOD


def examine() -> Iterator[Finding]:
    """Look at everything a run needs, one finding at a time.

    Raises:
        ConfigError: there are no content folders.
    """
    root = content_root()
    store = open_store(root)
    names = store.names()
    found = f"{len(names)} databases in {root / 'databases'}"
    yield Finding(name="content", found=found, state=State.GOOD if names else State.BAD)
    yield from _packages()
    yield from _machine()
    if not names:
        return
    try:
        instance = store.get(names[0]).instances[0]
    except Text2SqlError as error:
        yield Finding(name="cache", found=" ".join(str(error).split()), state=State.BAD)
    else:
        yield Finding(name="cache", found=str(cache_folder()))
        yield from _sandbox(instance)


def _packages() -> Iterator[Finding]:
    found = versions()
    yield Finding(name="judging", found=", ".join(f"{name} {found[name]}" for name in ("python", "duckdb", "sqlglot")))
    missing = [name for name in _TRAINERS if name not in found]
    words = ", ".join(f"{name} {found[name]}" for name in _TRAINERS if name in found)
    if missing:
        words = f"without {', '.join(missing)}; training needs pip install 'text2sql-rl[train]'"
    yield Finding(name="training", found=words, state=State.WEAK if missing else State.GOOD)


def _machine() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding(name="cores", found=str(cores), state=State.GOOD if cores > 1 else State.WEAK)
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    yield Finding(name="memory", found=f"{memory_gb:.1f} GB", state=State.GOOD if memory_gb > 4 else State.WEAK)
    free_gb, least_gb = free_bytes(Path.cwd()) / 1e9, read_min_free_gb()
    enough = free_gb >= least_gb
    found = f"{free_gb:.1f} GB free here" + ("" if enough else f"; a stage asks for {least_gb:g}")
    yield Finding(name="disk", found=found, state=State.GOOD if enough else State.BAD)


def _sandbox(instance: Instance) -> Iterator[Finding]:
    with Sandbox(Limits(timeout_s=0.5)) as sandbox:
        for name, stands in sandbox.doctor().items():
            found = "stands" if stands else "not on this system; the other layers still do"
            yield Finding(name=f"sandbox: {name}", found=found, state=State.GOOD if stands else State.WEAK)
        for name, sql, wanted in _PROBES:
            execution = sandbox.run([Job(instance, sql)])[0]
            good = execution.outcome in wanted
            found = execution.outcome.value + (f": {execution.reason.splitlines()[0]}" if execution.reason else "")
            yield Finding(name=f"sandbox: {name}", found=found, state=State.GOOD if good else State.BAD)

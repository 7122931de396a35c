"""What a tree of processes holds: memory, files, threads, children; as /proc tells it.

In: the number of a process. Out: sums over it and all below it. Linux only. Not here: measuring anything else.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(frozen=True, slots=True)
class Held:
    """Sums over a tree of processes; `top_kb` is the resident memory of the uppermost alone."""

    rss_kb: int
    top_kb: int
    files: int
    threads: int
    processes: int


def tree(pid: int | None = None) -> list[int]:
    """A process and all below it."""
    found = [os.getpid() if pid is None else pid]
    for one in found:
        try:
            tasks = list(Path(f"/proc/{one}/task").iterdir())
            found += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            continue  # it ended meanwhile
    return found


def held(pid: int | None = None) -> Held:
    """What the tree holds now."""
    rss = top = files = threads = 0
    pids = tree(pid)
    for one in pids:
        folder = Path(f"/proc/{one}")
        try:
            own = int((folder / "statm").read_text().split()[1]) * _PAGE_KB
            rss, top = rss + own, own if one == pids[0] else top
            files += len(list((folder / "fd").iterdir()))
            threads += len(list((folder / "task").iterdir()))
        except OSError:
            continue
    return Held(rss, top, files, threads, len(pids))

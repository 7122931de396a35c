"""The instances a worker holds open: made ones of a database side by side in one engine.

In: paths, with those that will be asked for beside them. Out: open instances. Starting an engine takes twenty times as
long as opening one more file in it, and a doubted candidate is run on thirty small files. Not here: who stands beside
whom (batch.py), the locks on an engine (engine.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import duckdb

from text2sql_rl.sandbox.engine import Opened, open_instances
from text2sql_rl.sandbox.limits import Limits

# A step of training asks some tens of databases, each with other rows beside its own.
OPEN_INSTANCES = 96
_Stamp = tuple[str, str]


class Shelf:
    """Open instances by path and hash; the engines used least are closed when there are too many."""

    def __init__(self, limits: Limits, locked: bool) -> None:
        """Nothing is open yet.

        Args:
            limits: of each statement.
            locked: see `open_instances`.
        """
        self._limits, self._locked = limits, locked
        self._engines: OrderedDict[int, dict[_Stamp, Opened]] = OrderedDict()
        self._homes: dict[_Stamp, int] = {}
        self._started = 0

    def held(self, path: str, sha: str) -> Opened | None:
        """The instance, if it is open."""
        home = self._homes.get((path, sha))
        if home is None:
            return None
        self._engines.move_to_end(home)
        return self._engines[home][path, sha]

    def open(self, path: str, sha: str, beside: Sequence[_Stamp]) -> Opened:
        """Open an instance that is not held, in one engine with those of `beside` that are not held either.

        Raises:
            duckdb.Error: the file is missing or is not a database of this engine version.
        """
        others = [(name, stamp) for name, stamp in beside]
        wanted = [(path, sha), *(one for one in others if one != (path, sha) and one not in self._homes)]
        self._close({home for (name, _), home in self._homes.items() if name in {name for name, _ in wanted}})
        try:
            opened = self._start(wanted)
        except duckdb.Error:  # by another's fault, it may be
            wanted = wanted[:1]
            opened = self._start(wanted)
        self._started += 1
        self._engines[self._started] = opened
        self._homes.update(dict.fromkeys(opened, self._started))
        while len(self._homes) > OPEN_INSTANCES and len(self._engines) > 1:
            self._close({next(iter(self._engines))})
        return opened[path, sha]

    def _start(self, wanted: Sequence[_Stamp]) -> dict[_Stamp, Opened]:
        opened = open_instances([Path(path) for path, _ in wanted], self._limits, self._locked)
        return dict(zip(wanted, opened, strict=True))

    def _close(self, homes: set[int]) -> None:
        for home in homes:
            for stamp, opened in self._engines.pop(home).items():
                del self._homes[stamp]
                opened.connection.close()

"""A second look at a candidate that matches on all rows so far: on more rows, and on rows aimed at what it says.

In: databases, golds, and candidates that match them but say it otherwise (otherwise.py). Out: the verdict on the
reserve of the database (reserve.py), and then on a few small instances made for the pair (aimed.py), which live as long
as they are looked at.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.compare import compare, tells
from text2sql_rl.gold import Runs, prepare_golds
from text2sql_rl.instances import fair, reserve
from text2sql_rl.instances.aimed import aim
from text2sql_rl.instances.files import make_instance, opened, read_sources
from text2sql_rl.instances.otherwise import says_otherwise
from text2sql_rl.instances.rows import Source
from text2sql_rl.instances.scratch import Scratch
from text2sql_rl.records import Database, Gold, Instance, Outcome, Verdict
from text2sql_rl.sandbox import Job

# Slow on rows that nobody has, three times as many of them, is not wrong.
_SLOW = (Outcome.TIMEOUT.value, Outcome.MEMORY.value)
# So many candidates have their files on disk together.
_AT_ONCE = 32
_KEPT = 4096
_KEPT_DATABASES = 24
_Doubt = tuple[Instance, Gold, str]


@dataclass(slots=True)
class _Known:
    """A real instance that was read: its tables, and its reserve once somebody needed it."""

    open_one: contextlib.ExitStack
    connection: duckdb.DuckDBPyConnection
    sources: tuple[Source, ...]
    reserve: tuple[Instance, ...] | None = None


class Doubts:
    """Looks once more at candidates that match everywhere else. A verdict is kept: a policy repeats itself."""

    def __init__(self) -> None:
        # One folder for all files, since a worker is told once which folders it may read.
        self._scratch = Scratch()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._reserve = reserve.Reserve()
        self._seen: OrderedDict[tuple[str, str, str], Verdict | None] = OrderedDict()

    @property
    def folder(self) -> Path:
        """Where made files lie as long as they are looked at."""
        return self._scratch.path

    def close(self) -> None:
        """Remove the folder."""
        self._forget(keep=0)
        self._scratch.close()

    def told(self, matched: Sequence[tuple[Database, Gold, str]], sandbox: Runs) -> list[Verdict | None]:
        """What tells each candidate from its gold on further rows, or a verifier's fault; None where nothing does.

        Args:
            matched: databases, golds prepared on their real rows, and candidates that match there.
            sandbox: runs golds and candidates.

        Raises:
            DataError: the real file cannot be read.
        """
        keys = [_key((database.instances[0], gold, sql)) for database, gold, sql in matched]
        new = {
            key: (database.instances[0], gold, sql)
            for key, (database, gold, sql) in zip(keys, matched, strict=True)
            if key not in self._seen and says_otherwise(sql, gold.sql, database.tables)
        }
        found: dict[tuple[str, str, str], Verdict | None] = {}
        # By database: a worker keeps some tens of instances open.
        for part in _parts(sorted(new, key=lambda key: key[0])):
            found.update(zip(part, self._on_reserve([new[key] for key in part], sandbox), strict=True))
            self._forget(keep=_KEPT_DATABASES)
        left = [
            [new[key] for key in part] for part in _parts([key for key, verdict in found.items() if verdict is None])
        ]
        for part, verdicts in zip(left, self._on_aimed(left, sandbox), strict=True):
            found.update(zip(map(_key, part), verdicts, strict=True))
        told = [found[key] if key in found else self._seen.get(key) for key in keys]
        for key, verdict in found.items():
            if verdict is None or verdict.code != Outcome.FAULT.value:
                self._seen[key] = verdict
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return told

    def _on_reserve(self, doubted: Sequence[_Doubt], sandbox: Runs) -> list[Verdict | None]:
        made = []
        for real, _, _ in doubted:
            known = self._read(real)
            if known.reserve is None:
                known.reserve = reserve.make_reserve(known.connection, real, known.sources, self._scratch.path)
            made.append(known.reserve)
        pairs = [(one, doubt[1].sql) for doubt, instances in zip(doubted, made, strict=True) for one in instances]
        return self._compared(doubted, made, self._reserve.golds(pairs, sandbox), sandbox)

    def _on_aimed(self, parts: Sequence[Sequence[_Doubt]], sandbox: Runs) -> Iterator[list[Verdict | None]]:
        """The verdicts of each part; while the sandbox runs one, the rows of the next are made."""
        with ThreadPoolExecutor(1, thread_name_prefix="rows") as maker:
            ahead = [maker.submit(self._make, part) for part in parts[:1]]
            for at, part in enumerate(parts):
                folder, made = ahead.pop().result()
                ahead = [maker.submit(self._make, later) for later in parts[at + 1 : at + 2]]
                yield self._told_on(part, made, sandbox)
                shutil.rmtree(folder, ignore_errors=True)

    def _make(self, part: Sequence[_Doubt]) -> tuple[Path, list[tuple[Instance, ...]]]:
        """The instances of each, in a folder of their own: the part before may end while this one makes the same."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch.path))
        made = [self._made(real, gold.sql, sql, folder) for real, gold, sql in part]
        self._forget(keep=_KEPT_DATABASES)
        return folder, made

    def _told_on(
        self, doubted: Sequence[_Doubt], made: Sequence[Sequence[Instance]], sandbox: Runs
    ) -> list[Verdict | None]:
        pairs = [(one, doubt[1].sql) for doubt, instances in zip(doubted, made, strict=True) for one in instances]
        different = {(one.sha256, sql): (one, sql) for one, sql in pairs}
        golds = dict(zip(different, prepare_golds(list(different.values()), sandbox), strict=True))
        return self._compared(doubted, made, [golds[one.sha256, sql] for one, sql in pairs], sandbox)

    def _compared(
        self,
        doubted: Sequence[_Doubt],
        made: Sequence[Sequence[Instance]],
        golds: Sequence[Gold],
        sandbox: Runs,
    ) -> list[Verdict | None]:
        """The first telling verdict of each candidate on its instances; `golds` has one for each of these."""
        pairs = [(one, *doubt[1:]) for doubt, instances in zip(doubted, made, strict=True) for one in instances]
        executions = sandbox.run([Job(one, sql) for one, _, sql in pairs])
        fairly = [fair(gold, (other,))[0] for (_, gold, _), other in zip(pairs, golds, strict=True)]
        verdicts = iter([compare(gold, execution) for gold, execution in zip(fairly, executions, strict=True)])
        return [_first_telling([next(verdicts) for _ in instances]) for instances in made]

    def _made(self, real: Instance, gold_sql: str, sql: str, folder: Path) -> tuple[Instance, ...]:
        known = self._read(real)
        aimed = aim(known.sources, gold_sql, sql)
        stamp = aimed.stamp(real, gold_sql)
        made = [
            make_instance(
                known.connection,
                real,
                aimed.sources,
                recipe,
                aimed.borders,
                stamp,
                folder,
                aimed.meets,
            )
            for recipe in aimed.recipes
        ]
        return tuple(replace(one, index=at) for at, one in enumerate((one for one in made if one is not None), 1))

    def _read(self, real: Instance) -> _Known:
        if real.sha256 not in self._known:
            open_one = contextlib.ExitStack()
            connection = open_one.enter_context(opened(real))
            self._known[real.sha256] = _Known(open_one, connection, read_sources(connection, real))
        self._known.move_to_end(real.sha256)
        return self._known[real.sha256]

    def _forget(self, keep: int) -> None:
        """Let go of all databases but the `keep` last used; never while a part is looked at, which needs all of its."""
        while len(self._known) > keep:
            _, known = self._known.popitem(last=False)
            known.open_one.close()
            for one in known.reserve or ():
                one.path.unlink(missing_ok=True)


def _key(doubt: _Doubt) -> tuple[str, str, str]:
    real, gold, sql = doubt
    return real.sha256, gold.sql, sql


def _parts(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))


def _first_telling(verdicts: Sequence[Verdict]) -> Verdict | None:
    faults = (verdict for verdict in verdicts if verdict.code == Outcome.FAULT.value)
    telling = (verdict for verdict in verdicts if tells(verdict) and verdict.code not in _SLOW)
    return next(faults, None) or next(telling, None)

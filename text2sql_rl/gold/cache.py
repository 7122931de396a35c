"""Prepared golds on disk, shared by runs and processes: one SQLite file, read and written as a mapping.

In: golds by `gold_key`, which names all that a gold depends on, so an entry is never out of date. Out: the same golds;
their rows are exact (the sandbox's encoding), their seconds are those of the first run. Any number of processes may
use one folder; a write is whole or not there. A file that is damaged or cannot be written costs time, never a verdict:
it is read as empty, and golds are prepared anew.

Size: golds of more than `_MOST_BYTES` packed are not kept, and of more than `_MOST_GOLDS` the oldest go.
Not here: which golds may be kept (`gold.lasting`).
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from text2sql_rl.records import Execution, Gold, Outcome, SortKey
from text2sql_rl.sandbox.wire import Row, WireError, decode_rows, encode_rows

_MOST_BYTES = 1 << 18
_MOST_GOLDS = 50_000
_WAIT_S = 5.0
_TABLE = "CREATE TABLE IF NOT EXISTS gold (key TEXT PRIMARY KEY, content BLOB NOT NULL)"


class GoldCache(MutableMapping[str, Gold]):
    """The golds kept in one folder.

    Every call opens the file for itself, so an instance may be used by threads and after a fork.
    """

    def __init__(self, folder: Path) -> None:
        """Name the folder; it is created by the first write."""
        self.path = folder / "golds.sqlite"

    def __getitem__(self, key: str) -> Gold:
        found = self._read("SELECT content FROM gold WHERE key = ?", (key,))
        gold = _unpacked(found[0][0]) if found else None
        if gold is None:
            raise KeyError(key)
        return gold

    def __setitem__(self, key: str, gold: Gold) -> None:
        self.update({key: gold})

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._write("DELETE FROM gold WHERE key = ?", [(key,)])

    def __iter__(self) -> Iterator[str]:
        return iter([key for (key,) in self._read("SELECT key FROM gold ORDER BY rowid")])

    def __len__(self) -> int:
        found = self._read("SELECT count(*) FROM gold")
        return int(found[0][0]) if found else 0

    def update(self, golds: Any = (), /, **named: Gold) -> None:
        """Keep many golds in one transaction; those that are too large or cannot be written are left out."""
        pairs: Iterable[tuple[str, Gold]] = golds.items() if isinstance(golds, Mapping) else golds
        packed = [(key, content) for key, gold in (*pairs, *named.items()) if (content := _packed(gold)) is not None]
        if not packed:
            return
        self._write("INSERT OR REPLACE INTO gold VALUES (?, ?)", packed)

    def _read(self, sql: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        if not self.path.is_file():
            return []
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as file:
                return file.execute(sql, values).fetchall()
        except sqlite3.Error:
            return []

    def _write(self, sql: str, values: Sequence[tuple[Any, ...]]) -> None:
        """One transaction; the file is begun anew where it is damaged, and what cannot be written is dropped."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._opened()) as file, file:
                file.executemany(sql, values)
                file.execute("DELETE FROM gold WHERE rowid <= (SELECT max(rowid) FROM gold) - ?", (_MOST_GOLDS,))
        except (OSError, sqlite3.Error):
            return

    def _opened(self) -> sqlite3.Connection:
        for attempt in range(2):
            file = sqlite3.connect(self.path, timeout=_WAIT_S)
            try:
                # Without waiting for the disk: after a power cut the file may be damaged, and is then begun anew.
                file.execute("PRAGMA synchronous = OFF")
                file.execute(_TABLE)
                return file
            except sqlite3.OperationalError:  # locked, read-only or full: another time
                file.close()
                raise
            except sqlite3.DatabaseError:
                file.close()
                if attempt:
                    raise
                # Moved aside first: of two processes that find the damage, one moves it and the other's move fails.
                aside = self.path.with_name(f".{self.path.name}.{os.getpid()}.damaged")
                self.path.rename(aside)
                aside.unlink()
        raise sqlite3.DatabaseError("damaged again")


def _packed(gold: Gold) -> bytes | None:
    head = {
        "sql": gold.sql,
        "columns": gold.execution.columns,
        "types": gold.execution.types,
        "reads_tables": gold.execution.reads_tables,
        "elapsed_s": gold.execution.elapsed_s,
        "sort_keys": [[key.column, key.descending, key.nulls_first] for key in gold.sort_keys],
        "hidden": gold.hidden,
        "unverifiable": gold.unverifiable,
        "flags": gold.flags,
        "loose": sorted(gold.loose.items()),
        "counts": [len(gold.execution.rows), None if gold.legal_rows is None else len(gold.legal_rows)],
    }
    parts = [json.dumps(head), _text(gold.execution.rows), _text(gold.legal_rows or ())]
    content = zlib.compress(json.dumps(parts).encode(), level=3)
    return content if len(content) <= _MOST_BYTES else None


def _unpacked(content: bytes) -> Gold | None:
    """The gold as it was; None where the entry is not one of this version's."""
    try:
        first, second, third = json.loads(zlib.decompress(content))
        head = json.loads(first)
        count, legal = head["counts"]
        rows, legal_rows = _rows(second), _rows(third)
        if len(rows) != count or len(legal_rows) != (legal or 0):
            return None
        execution = Execution(
            outcome=Outcome.ROWS,
            columns=tuple(head["columns"]),
            types=tuple(head["types"]),
            rows=rows,
            reads_tables=head["reads_tables"],
            elapsed_s=head["elapsed_s"],
        )
        return Gold(
            sql=head["sql"],
            execution=execution,
            sort_keys=tuple(SortKey(column=c, descending=d, nulls_first=n) for c, d, n in head["sort_keys"]),
            hidden=head["hidden"],
            legal_rows=None if legal is None else legal_rows,
            unverifiable=head["unverifiable"],
            flags=tuple(head["flags"]),
            loose={at: what for at, what in head["loose"]},
        )
    except (zlib.error, WireError, ValueError, KeyError, TypeError):
        return None


def _text(rows: Iterable[Row]) -> str:
    # Surrogates cannot be in a database's text, but the encoding lets them pass; "surrogatepass" keeps them.
    return encode_rows(list(rows)).decode("utf-8", "surrogatepass")


def _rows(text: str) -> tuple[Row, ...]:
    return tuple(decode_rows(text.encode("utf-8", "surrogatepass")))

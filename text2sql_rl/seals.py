"""The seal beside a built DuckDB file: `NAME.json` says what the file itself cannot.

In and out: a `Seal`, written next to the file. It holds the file's SHA-256, so that a damaged or half-replaced file is
never taken for the one that was built; the SHA-256 of what it was built from, which is the same wherever and whenever
it is built; the tables in declared order, which DuckDB forgets; and keys that are declared although the rows break them
or DuckDB cannot enforce them. Not here: what is done with a file whose seal is missing or broken.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from text2sql_rl.errors import DataError
from text2sql_rl.records import ForeignKey


@dataclass(frozen=True, slots=True)
class Reject:
    """Something of a source that was left out: where it stands, e.g. "people.csv:17", and why."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What is known of one DuckDB file.

    `content` is the SHA-256 of its source ("" where the file is its own source), `source` the source's name, `keys` the
    primary key columns by table, `joins` the foreign keys by table that are declared but not enforced, `notes` what
    a reader of the database should know, `rejects` what of the source is missing.
    """

    sha256: str
    tables: tuple[str, ...]
    content: str = ""
    source: str = ""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joins: Mapping[str, tuple[ForeignKey, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()


def seal_path(path: Path) -> Path:
    """Where the seal of a DuckDB file stands."""
    return path.with_name(f"{path.name.removesuffix('.duckdb')}.json")


def read_seal(path: Path) -> Seal | None:
    """The seal of the file `path`, or None where there is none or the file is not as it was sealed.

    Raises:
        DataError: the file may not be read.
    """
    try:
        record = json.loads(seal_path(path).read_text(encoding="utf-8"))
        if record["sha256"] != file_sha256(path):
            return None
        return Seal(
            sha256=record["sha256"],
            tables=tuple(record["tables"]),
            content=record.get("content", ""),
            source=record.get("source", ""),
            keys={table: tuple(columns) for table, columns in record.get("keys", {}).items()},
            joins={
                table: tuple(
                    ForeignKey(columns=tuple(k["columns"]), table=k["table"], references=tuple(k["references"]))
                    for k in joins
                )
                for table, joins in record.get("joins", {}).items()
            },
            notes=tuple(record.get("notes", ())),
            rejects=tuple(Reject(**reject) for reject in record.get("rejects", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_seal(seal: Seal, target: Path) -> None:
    """Writes the seal to the file `target`, which is complete afterwards or as it was before.

    Raises:
        OSError: it cannot be written.
    """
    record: dict[str, object] = {"sha256": seal.sha256, "tables": list(seal.tables)}
    if seal.content:
        record |= {"content": seal.content, "source": seal.source}
    if seal.keys:
        record["keys"] = {table: list(columns) for table, columns in seal.keys.items()}
    if seal.joins:
        record["joins"] = {
            table: [{"columns": k.columns, "table": k.table, "references": k.references} for k in joins]
            for table, joins in seal.joins.items()
        }
    if seal.notes:
        record["notes"] = list(seal.notes)
    if seal.rejects:
        record["rejects"] = [asdict(reject) for reject in seal.rejects]
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises:
        DataError: the file may not be read.
        OSError: any other reason, e.g. there is no file.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except PermissionError as error:
        raise DataError("cannot be read (permission denied)", file=path) from error

"""What the search finds, and where it stands: finds as attack files, a finished gold as a journal entry.

In: finds of a gold. Out: files that load like those of rewards/attacks, and entries by which an interrupted search goes
on. Not here: searching.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from text2sql_rl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Find:
    """A candidate that is paid as right and is not, or that must not have run."""

    kind: str
    question: str
    database: str
    gold: str
    sql: str
    reward: float | None
    why: str

    @property
    def name(self) -> str:
        """A name of its own, for the case and its file."""
        digest = hashlib.sha256(f"{self.database}{self.gold}{self.sql}".encode()).hexdigest()[:10]
        return f"{self.kind}-{digest}"


@dataclass(frozen=True, slots=True)
class Searched:
    """One question: its finds, and how its candidates ended."""

    finds: tuple[Find, ...]
    counts: Mapping[str, int]


def read_journal(path: Path) -> Searched | None:
    """What a gold came to; None where it is not finished, or the entry is damaged."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Searched(tuple(Find(**find) for find in kept["finds"]), kept["counts"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_journal(path: Path, found: Searched) -> None:
    """Keep what a gold came to, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {"finds": [asdict(find) for find in found.finds], "counts": dict(found.counts)}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
    partial.replace(path)


def write_find(folder: Path, find: Find) -> None:
    """The find as an attack file that loads like those of rewards/attacks."""
    case = {
        "name": find.name,
        "why": f"Found by search: {find.why}.",
        "aims_at": "sandbox" if find.kind == "unsafe" else "correct",
        "at_most": "nothing" if find.kind == "unsafe" else "shaping",
        "database": find.database,
        "gold": find.gold,
        "text": find.sql,
    }
    text = yaml.safe_dump({"note": "Found by search.", "cases": [case]}, sort_keys=False, allow_unicode=True, width=110)
    path = folder / f"{find.name}.yaml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{find.name}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", file=path, field="--finds", fix="Name a folder"
        ) from error

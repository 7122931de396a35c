"""What a run was made from: package versions, the commit, and hashes of the content folders.

In: the content root. Out: plain dicts for run.json, and the words for what changed between two of them. Not here: the
hash that a database's instances carry (databases), or a rule's own (scoring).
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = (
    "text2sql-rl", "duckdb", "sqlglot", "pydantic", "numpy", "pyarrow", "torch", "transformers", "trl", "peft",
    "accelerate", "datasets",
)  # fmt: skip
# One entry an item that can change on its own, so that a new database does not part a run from its old ones.
_CHUNK_BYTES = 1 << 20
CONTENT = {"data": "data", "databases": "databases", "rules": "rewards/rules"}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on; those not installed are left out."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit(root: Path) -> dict[str, Any] | None:
    """The commit checked out at `root` and whether tracked files differ from it; None where there is no git."""
    try:
        head, status = (
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": head.stdout.strip(), "changed_files": len(status.stdout.splitlines())}


def content_hashes(root: Path) -> dict[str, dict[str, str]]:
    """SHA-256 of the content a run reads: one a data file, one a database, one a rule file."""
    return {kind: dict(sorted(_entries(root / place, kind))) for kind, place in CONTENT.items()}


def _entries(folder: Path, kind: str) -> Iterator[tuple[str, str]]:
    if kind == "databases":
        for database in sorted(folder.iterdir() if folder.is_dir() else ()):
            if database.is_dir():
                yield database.name, _sha256(database, _content_files(database))
        return
    for file in _content_files(folder):
        with file.open("rb") as content:
            yield file.relative_to(folder).as_posix(), hashlib.file_digest(content, "sha256").hexdigest()


def _content_files(folder: Path) -> list[Path]:
    # Prose beside the content explains it and changes no number.
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")


def _sha256(folder: Path, files: list[Path]) -> str:
    """One hash over the paths, sizes and bytes of a database's files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as content:
            while part := content.read(_CHUNK_BYTES):
                digest.update(part)
    return digest.hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> dict[str, tuple[Any, Any]]:
    """The leaves in which two nested dicts differ, by dotted path; a missing one shows as None."""
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        place = f"{path}.{key}" if path else key
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= differences(old, new, place)
        elif old != new:
            found[place] = (old, new)
    return found

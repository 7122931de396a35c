"""Instances kept between runs: a database with its other rows, built on first use.

In: a database, the questions that will be asked of it, a cache folder and a sandbox. Out: the same database with
counterfactual instances. A set is named by all it depends on (the real rows' hash, the golds, the seed, how many, the
engine); its list is written last, so a set is whole or not there, and any number of processes may ask at once.
A file that is missing or damaged is built anew. Not here: which rows (rows.py), judging.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import duckdb

from text2sql_rl.errors import RunError
from text2sql_rl.gold import GoldCache, Runs, prepare_golds
from text2sql_rl.instances import VERSION, build_instances
from text2sql_rl.records import Database, Instance, Question


def with_instances(
    database: Database, questions: Sequence[Question], cache: Path, sandbox: Runs, *, most: int = 6, seed: int = 0
) -> Database:
    """The database with up to `most` instances beside the real one.

    One set may serve all questions of a database (training: few files stay open) or a single question (the strictest).

    Args:
        database: with its real rows only, or with instances, which are replaced.
        questions: those that will be judged on it; other databases' are left out.
        cache: the cache folder; files go to its folder `instances`.
        sandbox: where golds and mutants run while a set is built.
        most: the cap on instances.
        seed: other rows for another seed.

    Raises:
        DataError: the real rows cannot be read, or an instance not written.
        RunError: the cache folder cannot be written.
    """
    real = database.instances[0]
    golds = sorted({question.gold_sql for question in questions if question.database == database.name})
    named = [VERSION, duckdb.__version__, real.sha256, golds, seed, most, asdict(sandbox.limits)]
    key = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache / "instances"
    kept = folder / f"{database.name}-{key}.json"
    found = _read(kept, database.name)
    if found is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # One builder a set; who waited finds it built. The lock file stays: removing it would race.
            with (folder / f".{kept.stem}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                found = _read(kept, database.name)
                if found is None:
                    prepared = prepare_golds([(real, sql) for sql in golds], sandbox, GoldCache(cache))
                    found = build_instances(real, prepared, sandbox, folder, most, seed)
                    _write(kept, found)
        except OSError as error:
            fix = "Free disk space, or name another cache folder in TEXT2SQL_CACHE"
            raise RunError(f"instances cannot be kept there ({error.strerror})", file=folder, fix=fix) from error
    return replace(database, instances=(real, *found))


def _read(kept: Path, name: str) -> tuple[Instance, ...] | None:
    """The instances of a list, or None where it is missing or one of its files is not as it was."""
    try:
        entries = json.loads(kept.read_text(encoding="utf-8"))
        found = []
        for at, entry in enumerate(entries, 1):
            path = kept.parent / entry["file"]
            if _digest(path) != entry["content"]:
                path.unlink()
                return None
            found.append(Instance(database=name, index=at, path=path, sha256=entry["sha256"]))
        return tuple(found)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(kept: Path, instances: Sequence[Instance]) -> None:
    entries = [{"file": one.path.name, "sha256": one.sha256, "content": _digest(one.path)} for one in instances]
    partial = kept.with_name(f".{kept.name}.partial")
    partial.write_text(json.dumps(entries, indent=1), encoding="utf-8")
    partial.replace(kept)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

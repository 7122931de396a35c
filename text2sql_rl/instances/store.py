"""Instances kept between runs: a database with its other rows, built on first use.

In: a database, the questions that will be asked of it and a cache folder. Out: the same database with counterfactual
instances: chosen for a few questions (`with_instances`), or shared by all of a database (`with_shared_instances`,
`shared_pairs`). A set is named by all it depends on (the real rows' hash, the golds, the seed, how many, the
engine); its list is written last, so a set is whole or not there, and any number of processes may ask at once.
A file that is missing or damaged is built anew. Not here: which rows (rows.py), judging.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import duckdb

from text2sql_rl.content import Content, cache_folder
from text2sql_rl.errors import RunError
from text2sql_rl.gold import GoldCache, Runs, prepare_golds
from text2sql_rl.instances import VERSION, build_instances, shared
from text2sql_rl.records import Database, Instance, Question


def with_instances(
    database: Database, questions: Sequence[Question], cache: Path, sandbox: Runs, *, most: int = 6, seed: int = 0
) -> Database:
    """The database with up to `most` instances beside the real one, chosen for these questions.

    Takes about a second a question; `with_shared_instances` is for many.

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
    golds = _golds(database, questions)

    def build(folder: Path) -> Sequence[Instance]:
        prepared = prepare_golds([(real, sql) for sql in golds], sandbox, GoldCache(cache))
        return build_instances(real, prepared, sandbox, folder, most, seed)

    named = [VERSION, duckdb.__version__, real.sha256, golds, seed, most, asdict(sandbox.limits)]
    return replace(database, instances=(real, *_kept(database, named, cache, build)))


def with_shared_instances(database: Database, questions: Iterable[Question], cache: Path, *, seed: int = 0) -> Database:
    """The database with at most two instances beside the real one, the same for all its questions.

    Runs no SQL; takes about a tenth of a second the first time.

    Args:
        database: with its real rows only, or with instances, which are replaced.
        questions: all that are ever judged on it: others give other rows. Other databases' are left out.
        cache: the cache folder; files go to its folder `instances`.
        seed: other rows for another seed.

    Raises:
        DataError: the real rows cannot be read.
        RunError: the cache folder cannot be written.
    """
    real = database.instances[0]
    golds = _golds(database, questions)
    named = ["shared", shared.VERSION, duckdb.__version__, real.sha256, golds, seed]
    build = partial(shared.build_shared, real, golds, seed=seed)
    return replace(database, instances=(real, *_kept(database, named, cache, build)))


def shared_pairs(content: Content, questions: Sequence[Question]) -> list[tuple[Question, Database]]:
    """Each question with its database and the instances that all questions of that database share.

    `Content.pairs` with instances: a candidate judged on such a pair is equivalent only where it matches on all. The
    rows follow from all question sets of the content root, so they are the same for whoever asks.

    Args:
        content: the question sets and databases.
        questions: any of its questions.

    Raises:
        DataError: a database cannot be read.
        RunError: the cache folder cannot be written.
    """
    wanted = {question.database for question in questions}
    asked: dict[str, list[Question]] = {name: [] for name in wanted}
    for role in content.questions.roles():
        for question in content.questions.role(role):
            if question.database in wanted:
                asked[question.database].append(question)
    cache = cache_folder()
    made = {name: with_shared_instances(content.store.get(name), asked[name], cache) for name in sorted(wanted)}
    return [(question, made[question.database]) for question in questions]


def instances_sha256(database: Database) -> str:
    """One hash for all rows a verdict rests on: the real instance's where it stands alone, else over all."""
    hashes = [instance.sha256 for instance in database.instances]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _golds(database: Database, questions: Iterable[Question]) -> list[str]:
    return sorted({question.gold_sql for question in questions if question.database == database.name})


def _kept(
    database: Database, named: Sequence[object], cache: Path, build: Callable[[Path], Sequence[Instance]]
) -> tuple[Instance, ...]:
    """The set that `named` names, built where it is not there or damaged."""
    key = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache / "instances"
    kept = folder / f"{database.name}-{key}.json"
    found = _read(kept, database.name)
    if found is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # One builder a set; who waited finds it built. The lock file stays: removing it would race.
        with (folder / f".{kept.stem}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = _read(kept, database.name)
            if found is None:
                found = tuple(build(folder))
                _write(kept, found)
    except OSError as error:
        fix = "Free disk space, or name another cache folder in TEXT2SQL_CACHE"
        raise RunError(f"instances cannot be kept there ({error.strerror})", file=folder, fix=fix) from error
    return found


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

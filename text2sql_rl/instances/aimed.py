"""Rows aimed at one candidate: around its own literals, empty and zero where it reads what the gold does not.

In: a database, a gold, and a candidate that matches it on all rows so far but says it otherwise (`says_otherwise`).
Out:
the verdict on a few small instances, fixed by the three, which live as long as they are looked at. Shared instances
stand around the borders of all golds. A candidate that leaves out this gold's condition or draws borders of its own
(`CASE WHEN id IN (11, 24)`, `COALESCE(town, 'Bath')`, `LIMIT 41`) can be right on all of them by luck; here luck ends.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import duckdb

from text2sql_rl.compare import compare, tells
from text2sql_rl.gold import Runs, prepare_golds
from text2sql_rl.instances import fair
from text2sql_rl.instances.files import make_instance, opened, read_sources
from text2sql_rl.instances.literals import border_values
from text2sql_rl.instances.rows import Recipe, Source, nullable
from text2sql_rl.records import Database, Gold, Instance, Outcome, Table, Verdict
from text2sql_rl.sandbox import Job
from text2sql_rl.sandbox.names import words

# Raise it when other rows would be made from the same inputs.
VERSION = 2
_FEW = Recipe("aimed few", mix=0.6, fresh=0.2, border=0.5, twin=0.3, null=0.3, rows=(4, 8))
RECIPES = (
    Recipe("aimed long", mix=0.5, fresh=0.2, border=0.6, null=0.05, rows=(100, 140), grown=1.15, lacks=0),
    Recipe("aimed empty", mix=0.5, border=0.4, tie=0.2, twin=0.2, null=0.4, rows=(30, 50), lacks=1),
    _FEW,
    replace(_FEW, name="aimed few again"),
)
# Files in memory where the system has such a place: a file on disk waits for the disk several times.
_SHARED_MEMORY = Path("/dev/shm")
# So many candidates have their files on disk together.
_AT_ONCE = 32
_KEPT = 4096
_KEPT_SOURCES = 64
_TOKEN = re.compile(
    r"(\$\w*\$).*?\1|[<>=!]+|'(?:[^']|'')*'|\d[\d.]*(?:e[+-]?\d+)?|[^\W\d]\w*(?:\s*\()?", re.IGNORECASE | re.DOTALL
)
# Words that change what a statement means; those that only lay it out are no functions where a bracket follows.
_TELLING = words(
    "all and any anti between case cross distinct except exists false filter full group having ilike in intersect is"
    " left like limit natural not null offset or outer over qualify right semi some true union using where"
)
_JOINING = words("and or")
_LAYOUT = words("as by else end from inner join on order select then values when with")


def says_otherwise(sql: str, gold_sql: str, tables: Sequence[Table]) -> bool:
    """Whether one statement holds a literal, a name of the schema, a function or a telling word that the other lacks.

    Names that either makes up (aliases) do not count. Costs some microseconds.
    """
    apart = _tokens(sql) ^ _tokens(gold_sql)
    if apart <= _JOINING:
        return False  # the same conditions, said twice
    if any(token[0] in "'$0123456789<>=!" or token[-1] == "(" or token in _TELLING for token in apart):
        return True
    return bool(apart & _names(tuple(tables)))


@lru_cache(maxsize=4096)
def _tokens(sql: str) -> frozenset[str]:
    """Literals, words, and functions with their bracket; in small letters."""
    found = set()
    for match in _TOKEN.finditer(sql):
        literal = match[0][0] in "'$"
        word, bracket, _ = (match[0], "", "") if literal else match[0].lower().partition("(")
        word = word.rstrip()
        found.add(f"{word}(" if bracket and word not in _TELLING | _LAYOUT else word)
    return frozenset(found)


@lru_cache(maxsize=64)
def _names(tables: tuple[Table, ...]) -> frozenset[str]:
    return frozenset(
        word.lower()
        for table in tables
        for name in (table.name, *(column.name for column in table.columns))
        for word in re.findall(r"\w+", name)
    )


class Aim:
    """Looks once more at candidates that match everywhere else. A verdict is kept: a policy repeats itself."""

    def __init__(self) -> None:
        # One folder for all files, since a worker is told once which folders it may read.
        home = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        self._folder = Path(tempfile.mkdtemp(prefix="text2sql-rl-", dir=home))
        self._gone = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._sources: OrderedDict[str, tuple[Source, ...]] = OrderedDict()
        self._seen: OrderedDict[tuple[str, str, str], Verdict | None] = OrderedDict()

    def close(self) -> None:
        """Remove the folder."""
        self._gone()

    def told(self, matched: Sequence[tuple[Database, Gold, str]], sandbox: Runs) -> list[Verdict | None]:
        """What tells each candidate from its gold on rows aimed at it, or a verifier's fault; None where nothing does.

        Args:
            matched: databases, golds prepared on their real rows, and candidates that match there.
            sandbox: runs golds and candidates.

        Raises:
            DataError: the real file cannot be read.
        """
        keys = [(database.instances[0].sha256, gold.sql, sql) for database, gold, sql in matched]
        new = {
            key: (database.instances[0], gold, sql)
            for key, (database, gold, sql) in zip(keys, matched, strict=True)
            if key not in self._seen and says_otherwise(sql, gold.sql, database.tables)
        }
        doubted = list(new.values())
        parts = (doubted[at : at + _AT_ONCE] for at in range(0, len(doubted), _AT_ONCE))
        found = dict(zip(new, (verdict for part in parts for verdict in self._look(part, sandbox)), strict=True))
        told = [found[key] if key in found else self._seen.get(key) for key in keys]
        for key, verdict in found.items():
            if verdict is None or verdict.code != Outcome.FAULT.value:
                self._seen[key] = verdict
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return told

    def _look(self, doubted: Sequence[tuple[Instance, Gold, str]], sandbox: Runs) -> list[Verdict | None]:
        made = [self._made(real, gold.sql, sql) for real, gold, sql in doubted]
        pairs = [(one, *doubt[1:]) for doubt, instances in zip(doubted, made, strict=True) for one in instances]
        others = prepare_golds([(one, gold.sql) for one, gold, _ in pairs], sandbox)
        executions = sandbox.run([Job(one, sql) for one, _, sql in pairs])
        for one, *_ in pairs:
            one.path.unlink(missing_ok=True)
        golds = [fair(gold, (other,))[0] for (_, gold, _), other in zip(pairs, others, strict=True)]
        verdicts = iter([compare(gold, execution) for gold, execution in zip(golds, executions, strict=True)])
        return [_first_telling([next(verdicts) for _ in instances]) for instances in made]

    def _made(self, real: Instance, gold_sql: str, sql: str) -> tuple[Instance, ...]:
        with opened(real) as connection:
            if real.sha256 not in self._sources:
                self._sources[real.sha256] = read_sources(connection, real)
                while len(self._sources) > _KEPT_SOURCES:
                    self._sources.popitem(last=False)
            own, named = _tokens(sql) - _tokens(gold_sql), _tokens(sql) | _tokens(gold_sql)
            sources = _read_by(named, self._sources[real.sha256])
            # As a condition, 0 is false.
            borders = border_values((gold_sql, sql))
            borders |= {name: (*borders.get(name, ()), 0) for name in _numbers(sources) & own}
            nulls = _emptied(sources, named)
            stamp = json.dumps(["aimed", VERSION, duckdb.__version__, real.sha256, gold_sql, sql])
            made = [
                make_instance(connection, real, sources, replace(recipe, nulls=nulls), borders, stamp, self._folder)
                for recipe in RECIPES
            ]
        return tuple(one for one in made if one is not None)


def _first_telling(verdicts: Sequence[Verdict]) -> Verdict | None:
    faults = (verdict for verdict in verdicts if verdict.code == Outcome.FAULT.value)
    return next(faults, None) or next((verdict for verdict in verdicts if tells(verdict)), None)


def _read_by(named: Iterable[str], sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources with rows only where a statement of these words may read them, or where such a table refers to."""
    needed = {one.table.name for one in sources if set(re.findall(r"\w+", one.table.name.lower())) <= set(named)}
    while more := {key.table for one in sources if one.table.name in needed for key in one.table.foreign_keys} - needed:
        needed |= more
    return tuple(one if one.table.name in needed else replace(one, rows=()) for one in sources)


def _numbers(sources: Sequence[Source]) -> frozenset[str]:
    """Lower-cased names of the columns that hold numbers."""
    numeric = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL.*|FLOAT|DOUBLE")
    return frozenset(
        column.name.lower()
        for source in sources
        for column in source.table.columns
        if numeric.fullmatch(column.type.upper())
    )


def _emptied(sources: Sequence[Source], named: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Every (table, column) that either statement names, may hold NULL and belongs to no key of its own."""
    return frozenset(one for one in nullable(sources) if set(re.findall(r"\w+", one[1].lower())) <= set(named))

"""A second look at a candidate that matches on all rows so far: on more rows, and on rows aimed at what it says.

In: a database, a gold, and a candidate that matches it but says it otherwise (otherwise.py). Out: the verdict on the
reserve of the database (reserve.py), and then on a few small instances made for the pair. Shared instances stand around
the borders of all golds. A candidate that leaves out this gold's condition or draws borders of its own (`CASE WHEN id
IN (11, 24)`, `COALESCE(town, 'Bath')`, `> 9` for `> 10`) can be right on all of them by luck; here luck ends.

Aimed rows depend on gold and candidate by what these compare, count and read (`_Aimed`), so candidates that differ in
other things share them. They live as long as they are looked at.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from text2sql_rl.compare import compare, tells
from text2sql_rl.gold import Runs, prepare_golds
from text2sql_rl.instances import fair, reserve
from text2sql_rl.instances.compared import Place, column_meets, group_sizes, ordering_columns
from text2sql_rl.instances.files import make_instance, opened, read_sources
from text2sql_rl.instances.literals import border_values
from text2sql_rl.instances.otherwise import says_otherwise, tokens
from text2sql_rl.instances.recipes import Recipe
from text2sql_rl.instances.rows import Source, nullable
from text2sql_rl.instances.scratch import Scratch
from text2sql_rl.records import Database, Gold, Instance, Outcome, Verdict
from text2sql_rl.sandbox import Job
from text2sql_rl.sandbox.names import words

# Raise it when other rows would be made from the same inputs.
VERSION = 5
_FEW = Recipe("aimed few", mix=0.6, fresh=0.2, border=0.5, twin=0.3, null=0.3, met=0.6, rows=(4, 8))
# Few values, so that groups are of nearly one size and a NULL or a row more decides which comes first.
_NARROW = Recipe("aimed narrow", mix=0.6, border=0.15, null=0.35, met=0.6, narrow=3, rows=(5, 18))
RECIPES = (
    Recipe("aimed long", mix=0.5, fresh=0.2, border=0.6, null=0.05, met=0.5, rows=(100, 140), grown=1.15, lacks=0),
    Recipe("aimed empty", mix=0.5, border=0.4, tie=0.2, twin=0.2, null=0.4, met=0.5, rows=(30, 50), lacks=1),
    _FEW,
)
# Where one row or number answers, an instance is one try only.
MORE_RECIPES = (
    replace(_FEW, name="aimed few again", null=0.6),
    _NARROW,
    # More parents than children: groups that a join of another kind fills.
    replace(_NARROW, name="aimed lonely", null=0.6, rows=(16, 26), leaves=(6, 12)),
    replace(_NARROW, name="aimed lonelier", rows=(16, 26), leaves=(3, 7)),
    replace(_NARROW, name="aimed lonelier again", rows=(16, 26), leaves=(3, 7)),
)
# Where one row answers and the two draw their borders otherwise, that row has to stand between them.
_EDGE = Recipe("aimed edge", mix=0.4, fresh=0.2, border=0.8, null=0.1, met=0.5, rows=(1, 2))
_EDGES = tuple(replace(_EDGE, name=f"aimed edge {turn}", turn=turn) for turn in range(12))
_ONE_ROW = words("limit max( min( arg_max( arg_min( first( last(")
# So often NULL is only what one of the two reads and the other does not, where there is such a column.
_OFTEN = 0.6
# Many different rows that meet the gold's conditions: more than a limit of the candidate's own lets through.
_FULL = Recipe("aimed full", mix=0.3, fresh=0.5, border=0.8, null=0.05, met=0.5, rows=(150, 200), leaves=(120, 160))
_BLOCKS = Recipe("aimed blocks", mix=0.5, border=0.3, null=0.1, met=0.5, rows=(12, 16))
_BLOCK_ROWS = 160
# Slow on rows that nobody has, three times as many of them, is not wrong.
_SLOW = (Outcome.TIMEOUT.value, Outcome.MEMORY.value)
_ANSWERING = words("avg( count( group having limit max( min( over( sum( except intersect distinct")
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


@dataclass(frozen=True, slots=True)
class _Aimed:
    """All that aimed rows depend on beside the real ones."""

    sources: tuple[Source, ...]
    borders: dict[str, tuple[Any, ...]]
    meets: dict[Place, tuple[Place, ...]]
    recipes: tuple[Recipe, ...]

    def stamp(self, real: Instance, gold_sql: str) -> str:
        read = [one.table.name for one in self.sources if one.rows]
        parts = [sorted(self.borders.items()), sorted(self.meets.items())]
        parts += [[one.name, sorted(one.nulls), sorted(one.wide), one.blocks] for one in self.recipes]
        return json.dumps(["aimed", VERSION, duckdb.__version__, real.sha256, gold_sql, read, repr(parts)])


class Aim:
    """Looks once more at candidates that match everywhere else. A verdict is kept: a policy repeats itself."""

    def __init__(self) -> None:
        # One folder for all files, since a worker is told once which folders it may read.
        self._scratch = Scratch()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._reserve = reserve.Reserve()
        self._seen: OrderedDict[tuple[str, str, str], Verdict | None] = OrderedDict()

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
        keys = [(database.instances[0].sha256, gold.sql, sql) for database, gold, sql in matched]
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
        for part in _parts([key for key, verdict in found.items() if verdict is None]):
            found.update(zip(part, self._on_aimed([new[key] for key in part], sandbox), strict=True))
            self._forget(keep=_KEPT_DATABASES)
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

    def _on_aimed(self, doubted: Sequence[_Doubt], sandbox: Runs) -> list[Verdict | None]:
        made = [self._made(real, gold.sql, sql) for real, gold, sql in doubted]
        pairs = [(one, doubt[1].sql) for doubt, instances in zip(doubted, made, strict=True) for one in instances]
        different = {(one.sha256, sql): (one, sql) for one, sql in pairs}
        golds = dict(zip(different, prepare_golds(list(different.values()), sandbox), strict=True))
        verdicts = self._compared(doubted, made, [golds[one.sha256, sql] for one, sql in pairs], sandbox)
        for one, _ in pairs:
            one.path.unlink(missing_ok=True)
        return verdicts

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

    def _made(self, real: Instance, gold_sql: str, sql: str) -> tuple[Instance, ...]:
        known = self._read(real)
        aimed = _aimed(known.sources, gold_sql, sql)
        stamp = aimed.stamp(real, gold_sql)
        made = [
            make_instance(
                known.connection,
                real,
                aimed.sources,
                recipe,
                aimed.borders,
                stamp,
                self._scratch.path,
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


def _aimed(sources: Sequence[Source], gold_sql: str, sql: str) -> _Aimed:
    named, apart = tokens(sql) | tokens(gold_sql), tokens(sql) ^ tokens(gold_sql)
    own = tokens(sql) & apart
    needed = _read_by(named, sources)
    # As a condition, 0 is false.
    borders = border_values((gold_sql, sql), finer=True)
    borders |= {name: (*borders.get(name, ()), 0) for name in _numbers(needed) & own}
    recipes: tuple[Recipe, ...] = (*RECIPES, *MORE_RECIPES) if named & _ANSWERING else RECIPES
    if "limit" in tokens(sql) and ("limit" in own or any(token.isdecimal() for token in own)):
        recipes = (*recipes, _FULL)
    columns = {column.name.lower() for one in needed for column in one.table.columns}
    if named & _ONE_ROW and any(token[0] in "'$0123456789" or token in columns for token in apart):
        recipes = (*recipes, *_EDGES)
    compared_otherwise = any(token[0] in "0123456789<>=!" for token in apart)
    if compared_otherwise and (sizes := group_sizes((gold_sql, sql))):
        times = max(1, min(4, _BLOCK_ROWS // sum(sizes)))
        rows = times * sum(sizes)
        blocks = replace(_BLOCKS, blocks=sizes, rows=(rows, rows))
        recipes = (*recipes, blocks, replace(blocks, name="aimed blocks again"))
    nulls, wide = _emptied(needed, named), ordering_columns((gold_sql, sql))
    nulls_apart = _emptied(needed, apart) or nulls
    recipes = tuple(replace(one, nulls=nulls_apart if one.null >= _OFTEN else nulls, wide=wide) for one in recipes)
    meets = column_meets((gold_sql, sql), [one.table for one in needed])
    return _Aimed(needed, borders, meets, recipes)


def _parts(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))


def _first_telling(verdicts: Sequence[Verdict]) -> Verdict | None:
    faults = (verdict for verdict in verdicts if verdict.code == Outcome.FAULT.value)
    telling = (verdict for verdict in verdicts if tells(verdict) and verdict.code not in _SLOW)
    return next(faults, None) or next(telling, None)


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

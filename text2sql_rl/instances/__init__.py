"""Counterfactual instances: other rows of the same schema, on which a lucky candidate is found out.

In: a real instance, the golds asked of it, a sandbox and a folder. Out: the smallest set of instances found that
tells the golds from their mutants (mutants.py), at least `_FEWEST` of them where they can be built. Fixed by the
real rows, the golds and the seed. Not here: judging candidates.

An instance is used for a gold only where the gold can answer on it: see `fair`. shared.py makes the few instances that
all questions of a database share, without running SQL; store.py keeps both kinds between runs; survivors.py reports
which mutants are still accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from text2sql_rl.compare import compare, tells
from text2sql_rl.gold import Runs, prepare_golds
from text2sql_rl.instances.files import make_instance, opened, read_sources
from text2sql_rl.instances.literals import border_values
from text2sql_rl.instances.mutants import mutants
from text2sql_rl.instances.recipes import MORE_RECIPES, RECIPES, Recipe
from text2sql_rl.instances.rows import Source
from text2sql_rl.records import Gold, Instance, Match
from text2sql_rl.sandbox import Job

__all__ = ["build_instances", "fair", "mutants"]

# Raise it when other rows would be made from the same inputs.
VERSION = 11
# Candidates go wrong in more ways than mutants do, so a few instances are always kept.
_FEWEST = 3
_AGGREGATES = re.compile(
    r"\b(sum|avg|mean|min|max|median|mode|stddev\w*|var\w*|first|last|any_value|arg_\w+|string_agg|list)\s*\(",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A built instance, and which mutants (gold, mutant) it tells from their golds."""

    instance: Instance
    recipe: str
    told: frozenset[tuple[int, int]]
    answers: int


def fair(gold: Gold, others: Sequence[Gold]) -> tuple[Gold, ...]:
    """The gold on other instances, unverifiable where it gives nothing although it does on the real rows.

    On such rows even right candidates differ: `max(x)` gives NULL where `ORDER BY x DESC LIMIT 1` gives no row.
    """
    if _answers(gold):
        reason = "the gold has no answer on these rows"
        return tuple(other if _answers(other) else replace(other, unverifiable=reason) for other in others)
    return tuple(others)


def _answers(gold: Gold) -> bool:
    rows = gold.execution.rows
    if rows and not _AGGREGATES.search(gold.sql):
        return True  # a NULL that was read is an answer
    return any(cell is not None for row in rows for cell in row)


def build_instances(
    real: Instance,
    golds: Sequence[Gold],
    sandbox: Runs,
    folder: Path,
    most: int = 6,
    seed: int = 0,
    second_draw: bool = True,
    candidates: Sequence[str] = (),
) -> tuple[Instance, ...]:
    """Build up to `most` instances beside the real one, numbered from 1.

    Args:
        real: instance 0.
        golds: golds prepared on it; those that are unverifiable there are left out.
        sandbox: where golds and mutants run.
        folder: where the files go; files of an earlier call with the same inputs are used again, and those of
            instances that are not chosen are removed.
        most: the cap.
        seed: other rows for another seed.
        second_draw: make every kind of rows once more where mutants are left; tells more, takes over twice as long.
        candidates: statements that will be judged: rows stand around their literals too, in columns whose real rows
            hold more than one value.

    Raises:
        DataError: the real file cannot be read, or the folder not written.
    """
    judging = [gold for gold in golds if not gold.unverifiable and "constant" not in gold.flags]
    if not judging or most < 1:
        return ()
    with opened(real) as connection:
        sources = read_sources(connection, real)
        tables = [source.table for source in sources]
        alive = _survivors(real, judging, [mutants(gold.sql, tables) for gold in judging], sandbox)
        asked = sorted(gold.sql for gold in judging)
        varied = _varied(sources)
        borders = border_values(asked, finer=True)
        for name, values in border_values(candidates, finer=True).items():
            if name in varied:
                borders[name] = tuple({repr(value): value for value in (*borders.get(name, ()), *values)}.values())
        stamp = json.dumps([VERSION, duckdb.__version__, real.sha256, asked, sorted(candidates), seed])

        def tried(recipes: Sequence[Recipe]) -> list[_Tried]:
            written = {
                recipe.name: instance
                for recipe in recipes
                if (instance := make_instance(connection, real, sources, recipe, borders, stamp, folder))
            }
            return _told(written, judging, alive, sandbox)

        found = tried(RECIPES)
        if _left(alive, found):
            found += tried(MORE_RECIPES)
        # NULLs only where nothing else tells a mutant from its gold: they are the least gentle rows.
        if left := _left(alive, found):
            found += tried(_nulls(sources, left))
        # Other draws of the same kinds: some mutants need a rare meeting of rows, NULLs in small groups most of all.
        if second_draw and (left := _left(alive, found)):
            once_more = (*RECIPES, *MORE_RECIPES, *_nulls(sources, left))
            found += tried([replace(recipe, name=f"{recipe.name} again") for recipe in once_more])
        if second_draw and (left := _left(alive, found)):
            found += tried([replace(recipe, name=f"{recipe.name} once more") for recipe in _nulls(sources, left)])
    chosen = _cover(found, most)
    for one in found:
        if one not in chosen:
            one.instance.path.unlink(missing_ok=True)
    return tuple(replace(one.instance, index=at) for at, one in enumerate(chosen, 1))


def _varied(sources: Sequence[Source]) -> set[str]:
    """Lower-cased names of the columns that hold more than one value."""
    return {
        column.name.lower()
        for source in sources
        for at, column in enumerate(source.table.columns)
        if len({repr(row[at]) for row in source.rows}) > 1
    }


def _left(alive: dict[tuple[int, int], str], tried: Sequence[_Tried]) -> list[str]:
    told = {pair for one in tried for pair in one.told}
    return [sql for pair, sql in alive.items() if pair not in told]


def _nulls(sources: Sequence[Source], left: Sequence[str]) -> tuple[Recipe, ...]:
    """NULLs in nullable columns that mutants still alive speak of: in all of them, in many or few rows; in one each."""
    words = {word.lower() for sql in left for word in re.findall(r"\w+", sql)}
    columns = [
        (source.table.name, column.name)
        for source in sources
        for at, column in enumerate(source.table.columns)
        if column.nullable and not any(at in group for group in source.unique) and column.name.lower() in words
    ]
    if not columns:
        return ()
    every = frozenset(columns)
    single = ((f"null {'.'.join(one)}", frozenset([one])) for one in columns[:8])
    return (
        Recipe("many nulls", mix=0.7, border=0.3, nulls=every, rows=(40, 70)),
        Recipe("tied nulls", mix=0.3, border=0.2, tie=0.5, nulls=every, rows=(20, 35)),
        *(Recipe(name, mix=0.5, border=0.4, nulls=some, rows=(12, 24)) for name, some in [("nulls", every), *single]),
    )


def _survivors(
    real: Instance, golds: Sequence[Gold], changed: Sequence[Sequence[str]], sandbox: Runs
) -> dict[tuple[int, int], str]:
    """Mutants that match their gold on the real rows: the ones other rows must tell apart."""
    pairs = [(at, number, sql) for at, found in enumerate(changed) for number, sql in enumerate(found)]
    ran = sandbox.run([Job(real, sql) for _, _, sql in pairs])
    return {
        (at, number): sql
        for (at, number, sql), execution in zip(pairs, ran, strict=True)
        if compare(golds[at], execution).match == Match.MATCH
    }


def _told(
    written: dict[str, Instance], golds: Sequence[Gold], alive: dict[tuple[int, int], str], sandbox: Runs
) -> list[_Tried]:
    """Run golds and surviving mutants on the instances of some recipes, in one batch for all of them."""
    instances = list(written.values())
    prepared = iter(prepare_golds([(instance, gold.sql) for instance in instances for gold in golds], sandbox))
    others = [[fair(gold, (next(prepared),))[0] for gold in golds] for _ in instances]
    jobs = [
        (at, pair, Job(instance, sql))
        for at, instance in enumerate(instances)
        for pair, sql in alive.items()
        if not others[at][pair[0]].unverifiable
    ]
    told: list[set[tuple[int, int]]] = [set() for _ in instances]
    for (at, pair, _), execution in zip(jobs, sandbox.run([job for _, _, job in jobs]), strict=True):
        verdict = compare(others[at][pair[0]], execution)
        if tells(verdict):
            told[at].add(pair)
    answers = [sum(not other.unverifiable and _answers(other) for other in row) for row in others]
    return [_Tried(*one) for one in zip(instances, written, map(frozenset, told), answers, strict=True)]


def _cover(tried: Sequence[_Tried], most: int) -> list[_Tried]:
    """Greedy cover: the instance that tells most of what is left, the gentler one first on equal terms."""
    chosen: list[_Tried] = []
    left = {pair for one in tried for pair in one.told}
    while left and len(chosen) < most:
        best = max(tried, key=lambda one: len(one.told & left))
        chosen.append(best)
        left -= best.told
    useful = [one for one in tried if one not in chosen and one.answers]
    spare = sorted(useful, key=lambda one: (one.recipe != "borders", -one.answers, -len(one.told)))
    return chosen + spare[: max(0, min(most, _FEWEST) - len(chosen))]

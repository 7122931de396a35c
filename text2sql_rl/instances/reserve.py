"""Instances that only doubted candidates meet: the real rows, whole, but more or fewer of them.

In: a real instance. Out: a few instances that depend on nothing else, so that one set serves all questions of a
database, and golds prepared on them once. Whole rows keep what hangs together in them (names that two tables share
without a key, a city and its country), so that golds answer here which hardly any made rows can answer; tables three
times as long end a LIMIT that happens to fit, DISTINCT and UNION for nothing, and INTERSECT ALL; parts of the rows
let another row win. Not here: rows around literals (shared.py, aimed.py).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from text2sql_rl.gold import Runs, prepare_golds
from text2sql_rl.instances.files import make_instance
from text2sql_rl.instances.recipes import Recipe
from text2sql_rl.instances.rows import Source, nullable
from text2sql_rl.records import Gold, Instance, Outcome

# Raise it when other rows would be made from the same inputs.
VERSION = 1
_THRICE = Recipe("thrice", rows=(8, 16), grown=3.0, longest=1500, whole=True)
_FEWER = Recipe("fewer", mix=0.1, fresh=0.1, null=0.25, rows=(3, 6), grown=0.35, whole=True)
_FEW = Recipe("few", mix=0.3, null=0.3, rows=(2, 6), grown=0.12)
_SHUFFLED = Recipe("shuffled", mix=0.6, fresh=0.1, null=0.3, rows=(4, 10), grown=0.5)
RECIPES = (
    _THRICE,
    replace(_THRICE, name="thrice, otherwise", mix=0.15, fresh=0.35, null=0.1),
    Recipe("some", fresh=0.05, null=0.1, rows=(3, 8), grown=0.7, whole=True),
    _FEWER,
    _FEW,
    _SHUFFLED,
    # Where one row or number answers, an instance is one try only.
    replace(_FEWER, name="fewer again"),
    replace(_FEW, name="few again"),
    replace(_FEW, name="few once more"),
    replace(_SHUFFLED, name="shuffled again"),
)
_KEPT_GOLDS = 4096
_KEPT_CELLS = 4000


class Reserve:
    """Keeps golds on the reserves of databases; the files are the caller's."""

    def __init__(self) -> None:
        self._golds: OrderedDict[tuple[str, str], Gold] = OrderedDict()

    def golds(self, pairs: Sequence[tuple[Instance, str]], sandbox: Runs) -> list[Gold]:
        """One gold a pair, in order.

        Args:
            pairs: instances and gold SQL.
            sandbox: where they run.
        """
        keys = [(instance.sha256, sql) for instance, sql in pairs]
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in self._golds}
        fresh = dict(zip(missing, prepare_golds(list(missing.values()), sandbox), strict=True))
        golds = [fresh[key] if key in fresh else self._golds[key] for key in keys]
        for key, gold in fresh.items():
            small = len(gold.execution.rows) * len(gold.execution.columns) <= _KEPT_CELLS
            if small and gold.execution.outcome is not Outcome.FAULT:  # the verifier's fault may pass
                self._golds[key] = gold
        while len(self._golds) > _KEPT_GOLDS:
            self._golds.popitem(last=False)
        return golds


def make_reserve(
    connection: duckdb.DuckDBPyConnection, real: Instance, sources: Sequence[Source], folder: Path
) -> tuple[Instance, ...]:
    """Make the instances, numbered from 1; fewer where the schema's promises cannot be kept.

    Args:
        connection: sees the real rows, see `files.opened`.
        real: instance 0.
        sources: its tables.
        folder: where the files go.
    """
    stamp = json.dumps(["reserve", VERSION, duckdb.__version__, real.sha256])
    nulls = nullable(sources)
    made = [
        make_instance(connection, real, sources, replace(recipe, nulls=nulls), {}, stamp, folder) for recipe in RECIPES
    ]
    return tuple(replace(one, index=at) for at, one in enumerate((one for one in made if one is not None), 1))

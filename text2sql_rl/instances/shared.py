"""A few instances that all questions of a database share: made without running any SQL, so cheap enough for training.

In: a real instance and the golds asked of it. Out: at most two instances. A set chosen for one question (__init__.py)
tells more mutants apart, and takes about a second a question; this one takes about a tenth of a second a database.
Its tables are long, so that there is room for rows around the literals of all golds. One is longer than the real one;
in the other rows tie, repeat each other and lack values where they may. A category that one has the other may lack.
Not here: keeping them between runs (store.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import duckdb

from text2sql_rl.instances.files import make_instance, opened, read_sources
from text2sql_rl.instances.literals import border_values
from text2sql_rl.instances.recipes import Recipe
from text2sql_rl.instances.rows import nullable
from text2sql_rl.records import Instance

# Raise it when other rows would be made from the same inputs.
VERSION = 6
RECIPES = (
    Recipe("long", mix=0.5, fresh=0.2, border=0.5, null=0.0, rows=(100, 140), grown=1.15, lacks=0),
    Recipe("tied", mix=0.5, fresh=0.2, border=0.4, tie=0.2, twin=0.2, null=0.2, rows=(50, 70), lacks=1),
)


def build_shared(real: Instance, golds: Iterable[str], folder: Path, seed: int = 0) -> tuple[Instance, ...]:
    """Make the instances, numbered from 1; fewer where the schema's promises cannot be kept.

    Args:
        real: instance 0.
        golds: the SQL asked of it; only its literals matter.
        folder: where the files go.
        seed: other rows for another seed.

    Raises:
        DataError: the real file cannot be read.
    """
    asked = sorted(set(golds))
    stamp = json.dumps(["shared", VERSION, duckdb.__version__, real.sha256, asked, seed])
    borders = border_values(asked)
    with opened(real) as connection:
        sources = read_sources(connection, real)
        nulls = nullable(sources)
        made = [
            make_instance(connection, real, sources, replace(recipe, nulls=nulls), borders, stamp, folder)
            for recipe in RECIPES
        ]
    whole = [one for one in made if one is not None]
    return tuple(
        Instance(database=one.database, index=at, path=one.path, sha256=one.sha256) for at, one in enumerate(whole, 1)
    )

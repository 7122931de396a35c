"""Databases and sandboxes that the sandbox's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from text2sql_rl.records import Execution, Instance
from text2sql_rl.sandbox import Job, Limits, Sandbox
from text2sql_rl.sandbox.limits import Guards

SETUP = """
    CREATE TABLE emp(id INTEGER PRIMARY KEY, name VARCHAR, dept VARCHAR, salary INTEGER);
    INSERT INTO emp VALUES (1, 'Dora', 'ops', 30), (2, 'Abel', 'ops', 50), (3, 'Cleo', 'dev', 40), (4, NULL, 'dev', 20);
    CREATE TABLE ev(id INTEGER, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, m DECIMAL(10, 2), js JSON, tags VARCHAR[],
                    place STRUCT(x INTEGER, y INTEGER));
    INSERT INTO ev VALUES (1, '2024-01-05', '2024-01-05 01:02:03', '2024-01-05 10:00:00+00', 1.50, '{"a": 1}',
                           ['p', 'q'], {'x': 1, 'y': 2});
    CREATE TABLE "größe"("Maß" INTEGER, "order" INTEGER, version INTEGER, "left" VARCHAR);
    INSERT INTO "größe" VALUES (1, 2, 3, 'x');
    CREATE VIEW ops AS SELECT * FROM emp WHERE dept = 'ops';
    CREATE TABLE many AS SELECT range AS i FROM range(20001);
"""

DEFAULT = Limits(timeout_s=3.0)
Ask = Callable[..., Execution]


def build(path: Path, setup: str = SETUP) -> Instance:
    """A database file as an instance."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(setup)
    return Instance(database=path.stem, index=0, path=path, sha256="")


@pytest.fixture(scope="session")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Instance:
    return build(tmp_path_factory.mktemp("databases") / "company.duckdb")


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Limits(timeout_s=5.0)) as box:
        yield box


@pytest.fixture(scope="session")
def ask(sandbox: Sandbox, instance: Instance) -> Ask:
    """Run one statement in the shared sandbox."""
    return lambda sql: sandbox.run([Job(instance, sql)])[0]


@pytest.fixture(scope="module")
def guarded(instance: Instance) -> Iterator[Ask]:
    """Run one statement in a sandbox with other guards or limits; sandboxes are kept for the module."""
    boxes: dict[tuple[Guards, Limits], Sandbox] = {}

    def run(sql: str, guards: Guards, limits: Limits = DEFAULT) -> Execution:
        if (guards, limits) not in boxes:
            boxes[guards, limits] = Sandbox(limits, guards=guards)
        return boxes[guards, limits].run([Job(instance, sql)])[0]

    yield run
    for box in boxes.values():
        box.close()

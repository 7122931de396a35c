"""Each guard with all others off: what it stops alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.conftest import Ask, build
from text2sql_rl.records import Instance, Outcome
from text2sql_rl.sandbox import Job, Limits, Sandbox
from text2sql_rl.sandbox.limits import Guards

NONE = {
    "gate": False,
    "second_look": False,
    "engine": False,
    "interrupt": False,
    "rlimits": False,
    "landlock": False,
    "seccomp": False,
}
QUICK = Limits(timeout_s=0.6, grace_s=0.4)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel guards are Linux's")


def only(*names: str) -> Guards:
    return Guards(**{**NONE, **dict.fromkeys(names, True)})


def standing(name: str) -> None:
    with Sandbox() as box:
        if not box.doctor()[name]:
            pytest.skip(f"{name} does not exist on this machine")


# ---- no guard: the attacks are real ------------------------------------------------------------------------


def test_with_no_guard_files_are_read_and_written(guarded: Ask, tmp_path: Path) -> None:
    secret, leak = tmp_path / "secret.txt", tmp_path / "leak.csv"
    secret.write_text("secret")
    assert guarded(f"SELECT content FROM read_text('{secret}')", only()).rows == (("secret",),)
    guarded(f"COPY (SELECT 1) TO '{leak}'", only())
    assert leak.exists()


def test_with_no_guard_the_deadline_still_kills(guarded: Ask) -> None:
    execution = guarded("SELECT count(*) FROM range(100000000) a, range(100000000) b", only(), QUICK)
    assert execution.outcome is Outcome.TIMEOUT
    assert "killed" in execution.reason


def test_the_environment_is_stripped(guarded: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "hunter2")
    (row,) = guarded("SELECT content FROM read_text('/proc/self/environ')", only()).rows
    assert "PYTHONHASHSEED" in row[0]
    assert "hunter2" not in row[0]


# ---- the engine alone --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT content FROM read_text('{file}')",
        "SELECT size FROM read_blob('{own}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM (SUMMARIZE '{file}')",
        "SELECT * FROM query('SELECT content FROM read_text(''{file}'')')",
        "SELECT content FROM read_text('/proc/self/environ')",
        "SELECT * FROM read_duckdb('{own}', table_name = 'emp')",
        "ATTACH '{own}' AS own (READ_ONLY)",
        "ATTACH ':memory:' AS m",
        "COPY (SELECT 1) TO '{leak}'",
        "COPY (SELECT 1) TO '{own}.tmp/leak.csv'",
        "COPY (SELECT 1) TO '/dev/stdout'",
        "EXPORT DATABASE '{leak}'",
        "CREATE PERSISTENT SECRET s (TYPE http)",
        "INSTALL httpfs",
        "LOAD '{file}'",
        "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
        "DELETE FROM emp",
        "CREATE TABLE x AS SELECT 1",
        "SET enable_external_access = true",
        "SET memory_limit = '64GB'",
        "SET threads = 8",
        "SET disabled_filesystems = ''",
        "SET temp_directory = '/tmp'",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "SELECT * FROM enable_logging()",
    ],
)
def test_the_engine_alone(engine_only: Sandbox, instance: Instance, tmp_path: Path, sql: str) -> None:
    (tmp_path / "file.csv").write_text("a\n1\n")
    leak = tmp_path / "leak"
    text = sql.format(file=tmp_path / "file.csv", own=instance.path, leak=leak)
    before = instance.path.read_bytes()
    assert engine_only.run([Job(instance, text)])[0].outcome is Outcome.ERROR
    assert not leak.exists()
    assert instance.path.read_bytes() == before


@pytest.fixture(scope="module")
def engine_only() -> Iterator[Sandbox]:
    with Sandbox(Limits(timeout_s=5.0), guards=only("engine")) as box:
        yield box


def test_the_engines_own_clock_and_memory(guarded: Ask) -> None:
    endless = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    assert guarded(endless, only("engine"), Limits(timeout_s=0.2, grace_s=3.0)).reason == "not done after 0.2 s"
    sort = "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY hash(range)) AS r FROM range(100000000))"
    assert guarded(sort, only("engine"), Limits(timeout_s=8.0, memory_mb=64)).outcome is Outcome.MEMORY


def test_the_time_zone_is_one_for_all(guarded: Ask) -> None:
    assert guarded("SELECT current_setting('TimeZone')", only("engine")).rows == (("UTC",),)
    execution = guarded("SELECT tz::VARCHAR, date_trunc('day', tz)::VARCHAR FROM ev", Guards())
    assert execution.rows == (("2024-01-05 10:00:00+00", "2024-01-05 00:00:00+00"),)


# ---- a fresh cursor alone: nothing is left for the next statement ------------------------------------------


def test_nothing_stays_for_the_next_statement(engine_only: Sandbox, instance: Instance) -> None:
    probe = "SELECT name, count(*) FROM emp WHERE dept = 'ops' GROUP BY name ORDER BY name"
    (before,) = engine_only.run([Job(instance, probe)])
    hostile = [
        "CREATE TEMP TABLE emp AS SELECT 'x' AS name, 'ops' AS dept",
        "CREATE TEMP VIEW emp AS SELECT 'x' AS name, 'ops' AS dept",
        "CREATE TEMP MACRO count(x) AS 7",
        "SET schema = 'information_schema'",
        "USE temp",
        "SET VARIABLE v = 1",
        "PREPARE p AS SELECT 1",
        "BEGIN TRANSACTION",
        "BEGIN TRANSACTION; SELECT * FROM nowhere",
        "PRAGMA add_parquet_key('k', '0123456789112345')",
        "CHECKPOINT",
        "SELECT * FROM truncate_duckdb_logs()",
    ]
    for sql in hostile:
        engine_only.run([Job(instance, sql)])
        (after,) = engine_only.run([Job(instance, probe + " ")])
        assert after.rows == before.rows == (("Abel", 1), ("Dora", 1)), sql


# ---- the operating system alone ----------------------------------------------------------------------------


@linux
def test_landlock_alone(guarded: Ask, tmp_path: Path) -> None:
    standing("landlock")
    secret, leak = tmp_path / "secret.txt", tmp_path / "leak.csv"
    secret.write_text("secret")
    for path in (secret, Path("/etc/hostname"), Path("/proc/self/environ")):
        assert guarded(f"SELECT content FROM read_text('{path}')", only("landlock")).outcome is Outcome.ERROR
    assert guarded(f"COPY (SELECT 1) TO '{leak}'", only("landlock")).outcome is Outcome.ERROR
    assert not leak.exists()
    assert guarded("FROM emp", only("landlock")).outcome is Outcome.ROWS


@linux
def test_landlock_lets_a_later_folder_in(tmp_path: Path) -> None:
    standing("landlock")
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    first, second = build(one / "a.duckdb"), build(two / "b.duckdb")
    with Sandbox() as box:
        assert box.run([Job(first, "FROM emp")])[0].outcome is Outcome.ROWS
        both = box.run([Job(second, "FROM emp"), Job(first, "FROM emp")])
    assert [execution.outcome for execution in both] == [Outcome.ROWS, Outcome.ROWS]


@linux
def test_seccomp_alone(guarded: Ask, tmp_path: Path) -> None:
    standing("seccomp")
    leak = tmp_path / "leak.csv"
    assert guarded(f"COPY (SELECT 1) TO '{leak}'", only("seccomp")).outcome is Outcome.ERROR
    assert not leak.exists()
    assert guarded("FROM emp", only("seccomp")).outcome is Outcome.ROWS


@linux
def test_rlimits_alone(guarded: Ask, tmp_path: Path) -> None:
    leak = tmp_path / "leak.csv"
    assert guarded(f"COPY (SELECT range FROM range(1000)) TO '{leak}'", only("rlimits")).outcome is Outcome.ERROR
    assert not leak.exists() or leak.stat().st_size == 0
    for bomb in ("SELECT len(range(300000000))", "SELECT length(repeat('a', 3000000000))"):
        assert guarded(bomb, only("rlimits")).outcome is Outcome.MEMORY


def test_the_interrupt_alone(guarded: Ask) -> None:
    limits = Limits(timeout_s=0.5, grace_s=3.0)
    for sql in (
        "SELECT count(*) FROM range(100000000) a, range(100000000) b",
        "SELECT sleep_ms(60000)",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    ):
        execution = guarded(sql, only("interrupt"), limits)
        assert execution.outcome is Outcome.TIMEOUT
        assert "killed" not in execution.reason

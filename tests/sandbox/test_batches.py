"""Many jobs: order, sameness, company."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sandbox.conftest import build
from text2sql_rl.records import Execution, Instance, Outcome
from text2sql_rl.sandbox import Job, Limits, Sandbox
from text2sql_rl.sandbox import shelf as shelf_module
from text2sql_rl.sandbox.engine import open_instances
from text2sql_rl.sandbox.limits import DEFAULT_LIMITS
from text2sql_rl.sandbox.process import Process

HONEST = [
    "SELECT name FROM emp ORDER BY id",
    "SELECT dept, sum(salary), count(*) FROM emp GROUP BY dept",
    "SELECT * FROM ev",
    "PIVOT emp ON dept USING sum(salary) GROUP BY name",
    "SELECT i FROM many WHERE i % 5000 = 0",
    "SELECT name FROM nobody",
]
HOSTILE = {
    "CREATE TEMP TABLE emp AS SELECT 'x' AS name": Outcome.REFUSED,
    "SET threads = 8": Outcome.REFUSED,
    "SELECT * FROM read_text('/etc/hostname')": Outcome.REFUSED,
    "SELECT 1; DROP TABLE emp": Outcome.REFUSED,
    "SELECT len(range(300000000))": Outcome.MEMORY,
    "SELECT i::VARCHAR || repeat('x', 10000) FROM many": Outcome.TOO_LARGE,
    "SELECT 1/": Outcome.ERROR,
    "": Outcome.ERROR,
    "\ud800": Outcome.ERROR,
    "SELECT 'x'::INTEGER FROM emp": Outcome.ERROR,
}


def bare(execution: Execution) -> Execution:
    return replace(execution, elapsed_s=0.0)


@pytest.fixture(scope="module")
def alone(instance: Instance) -> dict[str, Execution]:
    """What each honest statement gives in a worker that has run nothing else."""
    answers = {}
    for sql in HONEST:
        with Sandbox(Limits(timeout_s=5.0)) as box:
            answers[sql] = bare(box.run([Job(instance, sql)])[0])
    return answers


def check(order: list[str], executions: tuple[Execution, ...], alone: dict[str, Execution]) -> None:
    for sql, execution in zip(order, executions, strict=True):
        if sql in alone:
            assert bare(execution) == alone[sql]
        else:
            assert execution.outcome is HOSTILE[sql]


@settings(max_examples=12, deadline=None)
@given(order=st.lists(st.sampled_from([*HONEST, *HOSTILE]), min_size=2, max_size=8))
def test_an_answer_does_not_depend_on_the_company(
    sandbox: Sandbox, instance: Instance, alone: dict[str, Execution], order: list[str]
) -> None:
    check(order, sandbox.run([Job(instance, sql) for sql in order]), alone)


def test_all_of_it_on_two_workers(instance: Instance, alone: dict[str, Execution]) -> None:
    order = [*HONEST, *HOSTILE, *HONEST]
    with Sandbox(Limits(timeout_s=5.0), workers=2) as box:
        check(order, box.run([Job(instance, sql) for sql in order]), alone)


def test_identical_jobs_run_once(
    sandbox: Sandbox, instance: Instance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = build(tmp_path / "other.duckdb", "CREATE TABLE emp AS SELECT 'Eve' AS name")
    sent: list[str] = []
    send = Process.send
    monkeypatch.setattr(Process, "send", lambda self, *args: (sent.append(args[3]), send(self, *args))[1])
    jobs = [Job(instance, "SELECT name FROM emp WHERE id = 1"), Job(other, "SELECT name FROM emp")]
    executions = sandbox.run(jobs * 3)
    assert len(sent) == 2
    assert [execution.rows for execution in executions] == [(("Dora",),), (("Eve",),)] * 3


def test_no_jobs_no_executions(sandbox: Sandbox) -> None:
    assert sandbox.run([]) == ()


def test_more_instances_than_a_worker_keeps_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf_module, "OPEN_INSTANCES", 2)
    paths = [str(build(tmp_path / f"d{n}.duckdb", f"CREATE TABLE t AS SELECT {n} AS n").path) for n in range(3)]
    shelf = shelf_module.Shelf(DEFAULT_LIMITS, locked=True)
    for n in (0, 1, 0, 2, 1, 0, 1):
        opened = shelf.held(paths[n], "") or shelf.open(paths[n], "", ())
        assert opened.cursor().execute("FROM t").fetchall() == [(n,)]
    assert [shelf.held(path, "") is not None for path in paths] == [True, True, False]


def made(folder: Path, count: int) -> list[Instance]:
    """Instances of one database that hold their own number."""
    names = [(n, folder / f"shop-{n}.duckdb") for n in range(1, count + 1)]
    made = [(n, build(path, f"CREATE TABLE t AS SELECT {n} AS n")) for n, path in names]
    return [replace(one, database="shop", index=n, sha256=str(n)) for n, one in made]


def test_made_instances_share_an_engine_and_nothing_else(tmp_path: Path) -> None:
    instances = made(tmp_path, 30)
    with Sandbox(workers=2) as box:
        rows = [one.rows for one in box.run([Job(one, "SELECT n FROM t") for one in instances * 2])]
        assert rows == [((one.index,),) for one in instances * 2]
        other = instances[1].path.stem
        for sql in (f'SELECT n FROM "{other}".main.t', f'SELECT n FROM "{other}".t', "SELECT * FROM duckdb_tables()"):
            assert box.run([Job(instances[0], sql)])[0].outcome in (Outcome.ERROR, Outcome.REFUSED)
        assert box.run([Job(instances[0], "SELECT n FROM main.t")])[0].rows == ((1,),)


def test_made_instances_together_are_as_locked_as_one(tmp_path: Path) -> None:
    paths = [one.path for one in made(tmp_path, 2)]
    for opened in open_instances(paths, DEFAULT_LIMITS):
        for sql in (
            "CREATE TABLE more(n INTEGER)",
            "INSERT INTO t VALUES (1)",
            "SET enable_external_access = true",
            f"ATTACH '{paths[0]}' AS again",
            "ATTACH ':memory:' AS own",
            "SELECT * FROM read_text('/etc/hostname')",
            "SET lock_configuration = false",
        ):
            with pytest.raises(duckdb.Error):
                opened.cursor().execute(sql)


def test_a_broken_file_spoils_only_its_own_jobs(tmp_path: Path) -> None:
    instances = made(tmp_path, 4)
    instances[2].path.write_bytes(b"no database")
    with Sandbox(Limits(timeout_s=5.0)) as box:
        executions = box.run([Job(one, "SELECT n FROM t") for one in instances])
    outcomes = [one.outcome for one in executions]
    assert outcomes == [Outcome.ROWS, Outcome.ROWS, Outcome.FAULT, Outcome.ROWS]


def test_other_rows_under_the_same_name_are_opened_anew(tmp_path: Path) -> None:
    first, second = made(tmp_path, 2)
    with Sandbox() as box:
        box.run([Job(first, "SELECT n FROM t"), Job(second, "SELECT n FROM t")])
        first.path.unlink()
        again = replace(first, sha256="other", path=build(first.path, "CREATE TABLE t AS SELECT 7 AS n").path)
        rows = [one.rows for one in box.run([Job(again, "SELECT n FROM t"), Job(second, "SELECT n FROM t")])]
    assert rows == [((7,),), ((2,),)]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_the_engine_has_one_thread_and_the_watch_another(sandbox: Sandbox, instance: Instance) -> None:
    sandbox.run([Job(instance, "SELECT sum(i) FROM many")])
    process = sandbox._workers.slots[0]
    assert process is not None
    assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 2


def test_a_long_batch_of_long_statements_does_not_jam_the_pipes(sandbox: Sandbox, instance: Instance) -> None:
    jobs = [Job(instance, f"SELECT {n}, i, repeat('x', 30) FROM many LIMIT 3000 -- {'y' * 15000}") for n in range(40)]
    executions = sandbox.run(jobs)
    assert [len(execution.rows) for execution in executions] == [3000] * 40
    assert [execution.rows[0][0] for execution in executions] == list(range(40))


def test_threads_wait_for_each_other(sandbox: Sandbox, instance: Instance) -> None:
    seen: list[tuple[int, object]] = []

    def run(number: int) -> None:
        seen.append((number, sandbox.run([Job(instance, f"SELECT {number}")])[0].rows[0][0]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [(number, number) for number in range(6)]


def test_the_sandbox_needs_none_of_the_heavy_libraries(instance: Instance) -> None:
    script = """
import sys
from pathlib import Path
from text2sql_rl.records import Instance
from text2sql_rl.sandbox import Job, Sandbox
with Sandbox() as box:
    box.run([Job(Instance(database="a", index=0, path=Path(sys.argv[1]), sha256=""), "SELECT 1")])
heavy = {"torch", "transformers", "scipy", "pandas", "duckdb", "sqlglot"} & set(sys.modules)
sys.exit(1 if heavy else 0)
"""
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", script, str(instance.path)], cwd=root, timeout=30).returncode == 0


def test_the_doctor_names_the_guards(sandbox: Sandbox) -> None:
    found = sandbox.doctor()
    assert found["rlimit file size"] is (sys.platform != "win32")
    assert set(found) == {
        "rlimit address space",
        "rlimit file size",
        "no_new_privs",
        "no capabilities",
        "landlock",
        "seccomp",
    }

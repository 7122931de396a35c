"""What a statement may use: time, memory, rows, bytes; and what it gives."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from tests.sandbox.conftest import Ask
from text2sql_rl.errors import SandboxError
from text2sql_rl.records import Instance, Outcome
from text2sql_rl.sandbox import Job, Limits, Sandbox
from text2sql_rl.sandbox.limits import Guards

BOMBS = {
    "product": "SELECT count(*) FROM emp a, range(100000000) b, range(100000000) c WHERE a.id + b.range <> c.range",
    "recursion": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "sort": "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY hash(range)) AS r FROM range(1000000000))",
    "list": "SELECT len(range(300000000))",
    "text": "SELECT length(repeat('a', 3000000000))",
    "pad": "SELECT length(lpad('a', 2000000000, 'x'))",
    "distance": "SELECT damerau_levenshtein(repeat('ab', 20000), repeat('ba', 20000))",
    "lambda": "SELECT len(list_transform(range(30000000), lambda x: x::VARCHAR || repeat('y', 100)))",
    "aggregate": "SELECT string_agg(range::VARCHAR, repeat('z', 1000)) FROM range(1000000000)",
    "nesting": "SELECT " + "(" * 9000 + "1" + ")" * 9000,
}


@pytest.fixture(scope="module")
def tight() -> Iterator[Sandbox]:
    with Sandbox(Limits(timeout_s=0.5, grace_s=0.3)) as box:
        yield box


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_time_under_a_name(tight: Sandbox, instance: Instance, name: str) -> None:
    start = time.monotonic()
    execution, after = tight.run([Job(instance, BOMBS[name]), Job(instance, "SELECT count(*) FROM emp")])
    assert execution.outcome in (Outcome.TIMEOUT, Outcome.MEMORY, Outcome.ERROR)
    assert after.rows == ((4,),)
    assert time.monotonic() - start < 8.0


def test_planning_is_bounded_by_the_length_of_the_text(tight: Sandbox, instance: Instance) -> None:
    terms = " AND ".join(f"(id <> {n} OR name LIKE '{n}')" for n in range(500))
    sql = f"SELECT 1 FROM emp WHERE {terms}"
    assert len(sql) < tight.limits.max_sql_chars
    start = time.monotonic()
    assert tight.run([Job(instance, sql)])[0].outcome in (Outcome.ROWS, Outcome.TIMEOUT)
    assert time.monotonic() - start < 5.0


def test_a_deaf_worker_is_killed_at_the_end_of_the_grace(guarded: Ask) -> None:
    start = time.monotonic()
    execution = guarded(BOMBS["recursion"], Guards(interrupt=False, engine=False), Limits(timeout_s=0.4, grace_s=0.3))
    assert execution.outcome is Outcome.TIMEOUT
    assert "killed" in execution.reason
    assert time.monotonic() - start < 4.0


def test_rows_are_capped_and_never_cut(instance: Instance) -> None:
    with Sandbox(Limits(max_rows=600)) as box:
        whole, over = box.run([Job(instance, f"SELECT i FROM many ORDER BY i LIMIT {rows}") for rows in (600, 601)])
    assert len(whole.rows) == 600
    assert (over.outcome, over.rows, over.columns) == (Outcome.TOO_LARGE, (), ("i",))


def test_endless_rows_end_at_once(ask: Ask) -> None:
    start = time.monotonic()
    assert ask("SELECT range FROM range(1000000000)").outcome is Outcome.TOO_LARGE
    assert time.monotonic() - start < 3.0


def test_bytes_are_capped(instance: Instance) -> None:
    with Sandbox(Limits(max_bytes=100_000)) as box:
        whole, cell, rows, lists = box.run(
            [
                Job(instance, "SELECT repeat('a', 90000)"),
                Job(instance, "SELECT repeat('a', 100001)"),
                Job(instance, "SELECT repeat('a', 100), i FROM many"),
                Job(instance, "SELECT range(5000) FROM many"),
            ]
        )
    assert whole.outcome is Outcome.ROWS
    assert [execution.outcome for execution in (cell, rows, lists)] == [Outcome.TOO_LARGE] * 3


def test_values_come_as_the_engine_gives_them(ask: Ask) -> None:
    execution = ask("SELECT d, ts, tz, m, js, tags, place, NULL AS nothing, ts - d, 'nan'::DOUBLE, 2::HUGEINT FROM ev")
    (row,) = execution.rows
    assert row[:9] == (
        date(2024, 1, 5),
        datetime(2024, 1, 5, 1, 2, 3),
        datetime(2024, 1, 5, 10, tzinfo=UTC),
        Decimal("1.50"),
        '{"a": 1}',
        ["p", "q"],
        {"x": 1, "y": 2},
        None,
        timedelta(hours=1, minutes=2, seconds=3),
    )
    assert math.isnan(row[9])
    assert row[10] == 2
    assert execution.types[:7] == (
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE",
        "DECIMAL(10,2)",
        "JSON",
        "VARCHAR[]",
        "STRUCT(x INTEGER, y INTEGER)",
    )
    assert execution.columns[7] == "nothing"
    assert execution.elapsed_s > 0


def test_an_empty_result_has_its_columns(ask: Ask) -> None:
    execution = ask("SELECT id, name FROM emp WHERE false")
    assert (execution.outcome, execution.columns, execution.rows) == (Outcome.ROWS, ("id", "name"), ())


def test_a_wide_range_of_values_survives(ask: Ask) -> None:
    execution = ask(
        "SELECT '290000-01-01'::TIMESTAMP, 'infinity'::DATE, MAP {[1]: 2}, '\\xAB'::BLOB, 12345678901::BIGNUM"
    )
    assert execution.outcome is Outcome.ROWS, execution.reason


def test_a_closed_sandbox_says_so(instance: Instance) -> None:
    box = Sandbox()
    box.close()
    box.close()
    with pytest.raises(SandboxError, match="closed"):
        box.run([Job(instance, "SELECT 1")])


def test_a_sandbox_without_workers_is_refused() -> None:
    with pytest.raises(SandboxError, match="at least one worker"):
        Sandbox(workers=0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads another process's processor time as Linux gives it")
def test_a_busy_machine_is_not_the_statements_fault(instance: Instance) -> None:
    """A worker that is kept from running past its deadline has not used its time up; one that runs has."""
    with Sandbox(Limits(timeout_s=0.8, grace_s=0.3)) as box:
        box.run([Job(instance, "SELECT 1")])
        pid = next(process.pid for process in box._workers.slots if process is not None)
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(2.0, os.kill, (pid, signal.SIGCONT)).start()
        start = time.monotonic()
        assert box.run([Job(instance, "SELECT count(*) FROM emp")])[0].rows == ((4,),)
        assert time.monotonic() - start > 1.5
        assert box._workers.slots[0] is not None
        assert box._workers.slots[0].pid == pid
        assert box.run([Job(instance, BOMBS["recursion"])])[0].outcome is Outcome.TIMEOUT


def test_patience_ends(instance: Instance) -> None:
    with Sandbox(Limits(timeout_s=0.2, grace_s=0.2)) as box:
        box.run([Job(instance, "SELECT 1")])
        pid = next(process.pid for process in box._workers.slots if process is not None)
        os.kill(pid, signal.SIGSTOP)
        start = time.monotonic()
        assert box.run([Job(instance, "SELECT count(*) FROM emp")])[0].outcome is Outcome.TIMEOUT
        assert time.monotonic() - start < 5.0
        assert box.run([Job(instance, "SELECT count(*) FROM emp")])[0].rows == ((4,),)

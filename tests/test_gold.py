"""Preparing golds: which order is asked for, which ties are cut, what cannot judge, and that it never raises."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pytest

from text2sql_rl.compare import compare
from text2sql_rl.gold import gold_key, prepare_golds
from text2sql_rl.gold.plan import plan
from text2sql_rl.records import Execution, Gold, Instance, Match, Outcome
from text2sql_rl.sandbox import Job, Limits, Sandbox

SETUP = """
CREATE TABLE emp(id INTEGER PRIMARY KEY, name VARCHAR, dept VARCHAR, salary INTEGER);
INSERT INTO emp VALUES (1,'Dora','ops',30),(2,'Abel','ops',50),
    (3,'Cleo','dev',40),(4,'Bram','dev',40),(5,'Eve','qa',40);
CREATE VIEW paid AS SELECT name, salary FROM emp;
"""


@dataclass
class Desk:
    """A database and a sandbox to prepare golds with."""

    instance: Instance
    sandbox: Sandbox

    def gold(self, sql: str) -> Gold:
        return prepare_golds([(self.instance, sql)], self.sandbox)[0]

    def verdict(self, gold: Gold, sql: str) -> Match:
        return compare(gold, self.sandbox.run([Job(self.instance, sql)])[0]).match


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    path = tmp_path_factory.mktemp("gold") / "emp.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(SETUP)
    instance = Instance(database="emp", index=0, path=path, sha256=hashlib.sha256(SETUP.encode()).hexdigest())
    with Sandbox() as sandbox:
        yield Desk(instance, sandbox)


ORDERED = [
    ("SELECT name, salary FROM emp ORDER BY salary", [1], 0),
    ("SELECT name FROM emp ORDER BY salary DESC, id", [1, 2], 2),
    ("SELECT dept, sum(salary) AS total FROM emp GROUP BY dept ORDER BY total DESC", [1], 0),
    ("SELECT dept, sum(salary) AS total FROM emp GROUP BY dept ORDER BY 2", [1], 0),
    ("SELECT dept, sum(salary) AS total FROM emp GROUP BY dept ORDER BY total + 1", [2], 1),
    ("SELECT dept FROM emp GROUP BY dept ORDER BY count(*) DESC, dept", [1, 0], 1),
    ("SELECT upper(name) AS salary FROM emp ORDER BY salary", [0], 0),
    ("SELECT * FROM emp ORDER BY ALL", [0, 1, 2, 3], 0),
    ("FROM emp ORDER BY salary", [3], 0),
    ("SELECT DISTINCT dept FROM emp ORDER BY dept DESC", [0], 0),
    ("SELECT DISTINCT ON (dept) dept, name FROM emp ORDER BY dept, id", [0, 2], 1),
    ("SELECT name FROM emp UNION ALL SELECT dept FROM emp ORDER BY 1", [0], 0),
    ("WITH r AS (SELECT * FROM emp) SELECT name FROM r ORDER BY id", [1], 1),
    ("(SELECT name FROM emp ORDER BY id)", [1], 1),
    ("SELECT name FROM emp", [], 0),
    ("SELECT name, rank() OVER (ORDER BY salary) FROM emp", [], 0),
    ("SELECT string_agg(name, ',' ORDER BY name) FROM emp", [], 0),
    ("SELECT name FROM (SELECT * FROM emp ORDER BY salary)", [], 0),
    ("WITH r AS (SELECT * FROM emp ORDER BY salary) SELECT name FROM r", [], 0),
    ("SELECT name FROM emp WHERE name <> 'order by'", [], 0),
]


@pytest.mark.parametrize(("sql", "columns", "hidden"), ORDERED)
def test_top_level_order(desk: Desk, sql: str, columns: list[int], hidden: int) -> None:
    gold = desk.gold(sql)
    assert ([key.column for key in gold.sort_keys], gold.hidden) == (columns, hidden)
    assert gold.unverifiable == ""
    assert desk.verdict(gold, sql) == Match.MATCH


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT dept FROM emp ORDER BY salary",
        "SELECT name FROM emp UNION ALL SELECT dept FROM emp ORDER BY length(name)",
    ],
)
def test_keys_that_cannot_be_shown_ask_for_less(desk: Desk, sql: str) -> None:
    gold = desk.gold(sql)
    assert (gold.sort_keys, gold.flags) == ((), ("order_unchecked",))


def test_only_ties_may_change_places(desk: Desk) -> None:
    gold = desk.gold("SELECT name FROM emp ORDER BY salary")
    assert desk.verdict(gold, "SELECT name FROM emp ORDER BY salary, name DESC") == Match.MATCH
    assert desk.verdict(gold, "SELECT name FROM emp ORDER BY salary DESC") == Match.MISMATCH


def test_a_limit_inside_a_tie(desk: Desk) -> None:
    gold = desk.gold("SELECT name FROM emp ORDER BY salary DESC LIMIT 2")
    assert gold.flags == ("tie_cut",)
    assert gold.legal_rows is not None
    assert {row[0] for row in gold.legal_rows} == {"Abel", "Cleo", "Bram", "Eve"}
    for tie_break in ("id", "id DESC", "name"):
        assert desk.verdict(gold, f"SELECT name FROM emp ORDER BY salary DESC, {tie_break} LIMIT 2") == Match.MATCH
    assert desk.verdict(gold, "SELECT name FROM emp ORDER BY salary LIMIT 2") == Match.MISMATCH


def test_an_offset_inside_a_tie(desk: Desk) -> None:
    gold = desk.gold("SELECT name FROM emp ORDER BY salary DESC LIMIT 1 OFFSET 2")
    assert gold.flags == ("tie_cut",)
    assert desk.verdict(gold, "SELECT name FROM emp ORDER BY salary DESC, id DESC LIMIT 1 OFFSET 2") == Match.MATCH
    assert desk.verdict(gold, "SELECT name FROM emp WHERE name = 'Abel'") == Match.MISMATCH


def test_a_cut_tie_that_does_not_show_is_no_weakness(desk: Desk) -> None:
    gold = desk.gold("SELECT salary FROM emp ORDER BY salary DESC LIMIT 2")
    assert gold.flags == ()
    assert desk.verdict(gold, "SELECT DISTINCT salary FROM emp ORDER BY 1 DESC LIMIT 2") == Match.MATCH


def test_a_limit_without_order_accepts_any_rows_of_the_table(desk: Desk) -> None:
    gold = desk.gold("SELECT name FROM emp LIMIT 2")
    assert gold.flags == ("unordered_limit",)
    assert desk.verdict(gold, "SELECT name FROM emp WHERE id > 3") == Match.MATCH
    assert desk.verdict(gold, "SELECT dept FROM emp LIMIT 2") == Match.MISMATCH
    assert desk.gold("SELECT name FROM emp LIMIT 50").flags == ()


@pytest.mark.parametrize(
    ("sql", "loose"),
    [
        ("SELECT dept, string_agg(name, ',') FROM emp GROUP BY dept", {1: "unordered"}),
        ("SELECT dept, list(name) FROM emp GROUP BY dept", {1: "unordered"}),
        ("SELECT dept, first(name) FROM emp GROUP BY dept", {1: "arbitrary"}),
        ("SELECT dept, any_value(name), count(*) FROM emp GROUP BY dept", {1: "arbitrary"}),
        ("SELECT DISTINCT ON (dept) dept, name FROM emp ORDER BY dept, salary", {1: "arbitrary"}),
        ("SELECT dept, string_agg(name, ',' ORDER BY name) FROM emp GROUP BY dept", {}),
        ("SELECT sum(salary) FROM emp", {0: "total"}),
        ("SELECT dept, round(avg(salary), 1) FROM emp GROUP BY dept", {1: "rounded:1"}),
        ("SELECT INTERVAL 1 MONTH FROM emp", {0: "calendar"}),
        ("SELECT INTERVAL 24 HOUR FROM emp", {}),
    ],
)
def test_what_a_gold_leaves_open(desk: Desk, sql: str, loose: dict[int, str]) -> None:
    gold = desk.gold(sql)
    assert (dict(gold.loose), gold.unverifiable) == (loose, "")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT name FROM emp ORDER BY random() LIMIT 1", "random"),
        ("SELECT now()", "two runs"),
        ("SELECT name, row_number() OVER (ORDER BY salary) FROM emp", "stored"),
        ("SELECT name FROM emp WHERE id = (SELECT id FROM emp ORDER BY salary LIMIT 1 OFFSET 1)", "stored"),
        ("SELECT nope FROM emp", "error"),
        ("SELEC name", "error"),
        ("", "error"),
        ("DELETE FROM emp", "refused"),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r", "timeout"),
        ("SELECT range FROM range(30000)", "too_large"),
    ],
)
def test_golds_that_cannot_judge_say_why(desk: Desk, sql: str, reason: str) -> None:
    gold = desk.gold(sql)
    assert reason in gold.unverifiable
    assert desk.verdict(gold, "SELECT name FROM emp") == Match.UNVERIFIABLE


def test_todays_date_judges_with_a_flag(desk: Desk) -> None:
    gold = desk.gold("SELECT current_date - DATE '2020-01-01' FROM emp WHERE id = 1")
    assert (gold.unverifiable, gold.flags) == ("", ("clock",))


@pytest.mark.parametrize("sql", ["SELECT name FROM emp", "SELECT count(*) FROM emp", "SELECT max(name) FROM emp"])
def test_a_gold_that_todays_date_has_left_behind_judges_nobody(desk: Desk, sql: str) -> None:
    gold = desk.gold(f"{sql} WHERE salary > year(current_date)")
    assert "asks today's date, and finds nothing" in gold.unverifiable
    assert desk.verdict(gold, f"{sql} WHERE 1 = 0") == Match.UNVERIFIABLE


def test_empty_and_views(desk: Desk) -> None:
    assert desk.gold("SELECT name FROM emp WHERE salary > 99").flags == ("empty",)
    assert desk.gold("SELECT 1").flags == ("constant",)
    assert desk.gold("SELECT name FROM paid ORDER BY salary").unverifiable == ""


def test_batches_keep_their_order_and_the_cache_is_used(desk: Desk) -> None:
    pairs = [(desk.instance, sql) for sql in ("SELECT 1", "SELECT id FROM emp", "SELECT name FROM emp", "SELECT 1")]
    cache: dict[str, Gold] = {}
    golds = prepare_golds(pairs, desk.sandbox, cache)
    assert [bool(gold.unverifiable) for gold in golds] == [False, False, False, False]
    assert len(cache) == 3

    class Closed:
        limits = desk.sandbox.limits

        def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
            assert not jobs
            return ()

    assert prepare_golds(pairs, Closed(), cache) == golds


def test_the_key_names_all_a_gold_depends_on(desk: Desk) -> None:
    base = gold_key(desk.instance, "SELECT 1", Limits())
    assert base == gold_key(replace(desk.instance, path=Path("elsewhere")), "SELECT 1", Limits())
    assert base != gold_key(replace(desk.instance, sha256="other"), "SELECT 1", Limits())
    assert base != gold_key(desk.instance, "SELECT 2", Limits())
    assert base != gold_key(desk.instance, "SELECT 1", Limits(max_rows=7))


class Failing:
    """A sandbox whose every run fails with one outcome from its n-th job on."""

    def __init__(self, sandbox: Sandbox, after: int) -> None:
        self.limits, self._sandbox, self._left = sandbox.limits, sandbox, after

    def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
        done = list(self._sandbox.run(jobs))
        for at in range(len(done)):
            self._left -= 1
            if self._left < 0:
                done[at] = Execution(outcome=Outcome.FAULT, reason="the sandbox broke")
        return tuple(done)


@pytest.mark.parametrize("after", range(6))
def test_a_broken_sandbox_never_makes_a_wrong_gold(desk: Desk, after: int) -> None:
    sql = "SELECT name FROM emp ORDER BY salary DESC LIMIT 2"
    gold = prepare_golds([(desk.instance, sql)], Failing(desk.sandbox, after))[0]
    assert gold.unverifiable or desk.verdict(gold, sql) == Match.MATCH


class Moody:
    """A sandbox whose runs of one text end as told, in order, before they run as they are."""

    def __init__(self, sandbox: Sandbox, sql: str, ends: Sequence[Outcome | None]) -> None:
        self.limits, self._sandbox, self._sql, self._ends = sandbox.limits, sandbox, sql, list(ends)

    def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
        done = list(self._sandbox.run(jobs))
        for at, job in enumerate(jobs):
            if job.sql == self._sql and self._ends and (end := self._ends.pop(0)) is not None:
                done[at] = Execution(outcome=end, reason="not done after 2 s")
        return tuple(done)


@pytest.mark.parametrize("end", [Outcome.TIMEOUT, Outcome.FAULT, Outcome.MEMORY])
@pytest.mark.parametrize("before", [0, 1])
def test_a_run_that_the_moment_ended_is_tried_once_more(desk: Desk, end: Outcome, before: int) -> None:
    sql = "SELECT count(*) FROM emp"
    gold = prepare_golds([(desk.instance, sql)], Moody(desk.sandbox, sql, [None] * before + [end]))[0]
    assert (gold.unverifiable, gold.execution.rows) == ("", ((5,),))


@pytest.mark.parametrize(
    ("end", "before", "reason"),
    [
        (Outcome.TIMEOUT, 0, "the gold gives no rows (timeout): not done after 2 s"),
        (Outcome.TIMEOUT, 1, "the gold ran once, and then gave no rows (timeout): not done after 2 s"),
        (Outcome.FAULT, 0, "the gold gives no rows (fault): not done after 2 s"),
        (Outcome.FAULT, 1, "the sandbox failed on the gold: not done after 2 s"),
    ],
)
def test_a_gold_that_does_not_end_says_so_and_is_not_kept(desk: Desk, end: Outcome, before: int, reason: str) -> None:
    sql, cache = "SELECT count(*) FROM emp", dict[str, Gold]()
    moody = Moody(desk.sandbox, sql, [*[None] * before, end, end])
    gold = prepare_golds([(desk.instance, sql)], moody, cache)[0]
    assert (gold.unverifiable, gold.execution.outcome) == (reason, end)
    assert cache == {}
    assert prepare_golds([(desk.instance, sql)], desk.sandbox, cache)[0].unverifiable == ""
    assert len(cache) == 1


def test_a_check_that_ran_out_of_time_is_told_and_not_kept(desk: Desk) -> None:
    sql, cache = "SELECT name FROM emp", dict[str, Gold]()
    shaken = plan(sql, ("name",)).shaken_sql
    assert shaken
    moody = Moody(desk.sandbox, shaken, [Outcome.TIMEOUT] * 2)
    gold = prepare_golds([(desk.instance, sql)], moody, cache)[0]
    assert (gold.unverifiable, gold.flags, cache) == ("", ("unsettled",), {})
    gold = prepare_golds([(desk.instance, sql)], Moody(desk.sandbox, shaken, [Outcome.FAULT] * 2), cache)[0]
    assert gold.execution.outcome is Outcome.FAULT


def test_planning_never_raises() -> None:
    for sql in ("", "SELECT", "(((", "SELECT '", "DROP TABLE x", "SELECT 1; SELECT 2", "VALUES (1) ORDER BY 1"):
        plan(sql, ("a",))

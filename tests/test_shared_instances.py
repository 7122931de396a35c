"""Instances that all questions of a database share: the judge finds luck out, and who asks makes no difference."""

from __future__ import annotations

import hashlib
from pathlib import Path

import duckdb
import pytest

from text2sql_rl.content import open_content
from text2sql_rl.databases import read_schema
from text2sql_rl.errors import RunError
from text2sql_rl.instances.store import instances_sha256, shared_pairs, with_shared_instances
from text2sql_rl.judge import Judge
from text2sql_rl.records import Completion, Database, Finish, Instance, Question, Split
from text2sql_rl.scoring import load_rule

SETUP = """
CREATE TABLE emp(id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, dept VARCHAR NOT NULL, salary INTEGER NOT NULL);
INSERT INTO emp VALUES (1,'Dora','ops',30),(2,'Abel','ops',50),(3,'Cleo','dev',40),(4,'Bram','dev',20),(5,'Eva','hr',5);
CREATE TABLE trip(emp_id INTEGER REFERENCES emp(id), km INTEGER NOT NULL);
INSERT INTO trip VALUES (1, 10), (1, 20), (3, 5), (4, 70);
"""
GOLDS = (
    "SELECT max(salary) FROM emp WHERE dept = 'ops'",
    "SELECT name FROM emp WHERE dept = 'ops'",
    "SELECT count(*) FROM trip WHERE km > 5",
    "SELECT emp.name FROM emp JOIN trip ON emp.id = trip.emp_id GROUP BY emp.id, emp.name HAVING count(*) > 1",
)
# gold, lucky on the real rows, right on all
CANDIDATES = (
    ("SELECT max(salary) FROM emp", "SELECT salary FROM emp WHERE dept = 'ops' ORDER BY salary DESC LIMIT 1"),
    ("SELECT name FROM emp LIMIT 2", "SELECT e.name FROM emp e WHERE e.dept IN ('ops')"),
    ("SELECT count(*) FROM trip WHERE km > 6", "SELECT sum(CASE WHEN km > 5 THEN 1 ELSE 0 END) FROM trip"),
    ("SELECT name FROM emp WHERE id = 1", "SELECT name FROM emp WHERE id IN (SELECT emp_id FROM trip GROUP BY 1 "
     "HAVING count(*) >= 2)"),
)  # fmt: skip


def question(number: int) -> Question:
    return Question(id=f"q{number}", database="firm", text="", gold_sql=GOLDS[number], split=Split.TRAIN, role="rl")


QUESTIONS = [question(number) for number in range(len(GOLDS))]


@pytest.fixture(scope="module")
def firm(tmp_path_factory: pytest.TempPathFactory) -> Database:
    path = tmp_path_factory.mktemp("firm") / "firm.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(SETUP)
    real = Instance(database="firm", index=0, path=path, sha256=hashlib.sha256(SETUP.encode()).hexdigest())
    return Database(name="firm", tables=read_schema(path), instances=(real,))


def test_only_luck_is_found_out(firm: Database, tmp_path: Path) -> None:
    shared = with_shared_instances(firm, QUESTIONS, tmp_path)
    assert [one.index for one in shared.instances] == [0, 1, 2]

    def judged(database: Database, kind: int) -> list[bool]:
        items = []
        for asked, texts in zip(QUESTIONS, CANDIDATES, strict=True):
            text = texts[kind]
            one = Completion(question_id=asked.id, text=text, raw=text, finish=Finish.STOP, tokens=0)
            items.append((asked, database, one))
        rollouts = judge.judge(items)
        luck = [one.verdict is not None and "other_rows" in one.verdict.flags for one in rollouts]
        assert all(one.equivalent != lucky for one, lucky in zip(rollouts, luck, strict=True))
        return [one.equivalent for one in rollouts]

    with Judge(load_rule("bound-v1")) as judge:
        assert judged(firm, 0) == judged(firm, 1) == [True] * 4
        assert judged(shared, 0) == [False] * 4
        assert judged(shared, 1) == [True] * 4


def test_they_are_made_once_and_again_when_damaged(firm: Database, tmp_path: Path) -> None:
    first = with_shared_instances(firm, QUESTIONS, tmp_path)
    path = first.instances[1].path
    before, written = path.read_bytes(), path.stat().st_mtime_ns
    assert with_shared_instances(first, QUESTIONS[::-1], tmp_path) == first
    assert path.stat().st_mtime_ns == written
    path.write_bytes(before[:100])
    assert with_shared_instances(firm, QUESTIONS, tmp_path) == first
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT count(*) > 50 FROM emp").fetchall() == [(True,)]
    assert with_shared_instances(firm, QUESTIONS[:1], tmp_path).instances[1] != first.instances[1]
    assert with_shared_instances(firm, QUESTIONS, tmp_path, seed=1).instances[1] != first.instances[1]
    assert len({instances_sha256(database) for database in (firm, first)}) == 2
    assert instances_sha256(firm) == firm.instances[0].sha256


def test_a_folder_nobody_may_write_is_one_clear_error(firm: Database, tmp_path: Path) -> None:
    (tmp_path / "instances").write_text("a file")
    with pytest.raises(RunError, match="instances cannot be kept there"):
        with_shared_instances(firm, QUESTIONS, tmp_path)


def test_who_asks_makes_no_difference() -> None:
    content = open_content()
    dev = [one for one in content.questions.role("dev") if one.database == "aquarium"]
    pairs = shared_pairs(content, dev)
    assert [asked for asked, _ in pairs] == dev
    assert len({id(database) for _, database in pairs}) == 1
    assert shared_pairs(content, dev[:1])[0][1] == pairs[0][1]
    assert len(pairs[0][1].instances) == 3

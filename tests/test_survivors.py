"""Instances kept between runs, and the report on mutants that would still be paid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from text2sql_rl.cli import app
from text2sql_rl.databases import read_schema
from text2sql_rl.errors import RunError, SandboxError
from text2sql_rl.instances.mutants import OPERATORS, named_mutants
from text2sql_rl.instances.store import with_instances
from text2sql_rl.instances.survivors import NOTHING, Fate, MutantReport, find_survivors
from text2sql_rl.records import Database, Execution, Instance, Outcome, Question, Split
from text2sql_rl.sandbox import Job, Limits, Sandbox

SETUP = """
CREATE TABLE shop(id INTEGER PRIMARY KEY, town VARCHAR NOT NULL, staff INTEGER);
INSERT INTO shop SELECT i, ['Bern', 'Basel', 'Chur'][1 + i % 3], 2 + i * 3 FROM range(1, 9) t(i);
"""


@dataclass
class Counting:
    """A sandbox that counts the statements it ran, or breaks from the n-th on."""

    box: Sandbox
    jobs: int = 0
    breaks_after: int = 10**9

    @property
    def limits(self) -> Limits:
        return self.box.limits

    def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
        self.jobs += len(jobs)
        fault = Execution(outcome=Outcome.FAULT, reason="broken")
        return (fault,) * len(jobs) if self.jobs > self.breaks_after else self.box.run(jobs)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Database:
    path = tmp_path_factory.mktemp("survivors") / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(SETUP)
    real = Instance(database="shop", index=0, path=path, sha256=hashlib.sha256(SETUP.encode()).hexdigest())
    return Database(name="shop", tables=read_schema(path), instances=(real,))


def ask(name: str, gold_sql: str) -> Question:
    return Question(id=name, database="shop", text="?", gold_sql=gold_sql, split=Split.DEV, role="dev")


QUESTIONS = [ask("a", "SELECT town FROM shop WHERE staff > 9"), ask("b", "SELECT count(*) FROM shop WHERE staff > 4")]


def test_a_set_is_built_once_and_found_again(shop: Database, box: Sandbox, tmp_path: Path) -> None:
    counting = Counting(box)
    first = with_instances(shop, QUESTIONS, tmp_path, counting)
    assert first.instances[0] == shop.instances[0]
    assert [one.index for one in first.instances] == list(range(len(first.instances)))
    assert 2 <= len(first.instances) <= 7
    built = counting.jobs
    assert with_instances(first, QUESTIONS[::-1], tmp_path, counting) == first
    assert counting.jobs == built
    files = {file.name for file in (tmp_path / "instances").glob("*.duckdb")}
    assert files == {one.path.name for one in first.instances[1:]}
    other = with_instances(shop, QUESTIONS, tmp_path, counting, seed=1)
    fewer = with_instances(shop, QUESTIONS[:1], tmp_path, counting, most=1)
    assert len({one.sha256 for made in (first, other, fewer) for one in made.instances[1:]}) > len(first.instances)


def test_a_damaged_file_is_built_anew(shop: Database, box: Sandbox, tmp_path: Path) -> None:
    first = with_instances(shop, QUESTIONS[:1], tmp_path, box)
    hurt = first.instances[1].path
    before = duckdb.connect(str(hurt), read_only=True).execute("FROM shop").fetchall()
    hurt.write_bytes(hurt.read_bytes()[:5000])
    assert with_instances(shop, QUESTIONS[:1], tmp_path, box) == first
    assert duckdb.connect(str(hurt), read_only=True).execute("FROM shop").fetchall() == before
    (tmp_path / "instances" / "new").write_text("")
    with pytest.raises(RunError, match="TEXT2SQL_CACHE"):
        with_instances(shop, QUESTIONS[:1], tmp_path / "instances" / "new", box)


def test_every_mutant_bears_the_name_of_an_operator(shop: Database) -> None:
    found = named_mutants("SELECT town, count(*) FROM shop WHERE staff > 9 GROUP BY town", shop.tables)
    assert {mutant.operator for mutant in found} <= {operator.__name__.strip("_") for operator in OPERATORS}
    assert len({mutant.operator for mutant in found}) > 5


def test_the_report_tells_luck_from_equivalence(shop: Database, box: Sandbox, tmp_path: Path) -> None:
    counting, seen = Counting(box), list[int]()
    pairs = [(question, shop) for question in [*QUESTIONS, ask("c", "SELECT nope FROM shop")]]
    report = find_survivors(pairs, tmp_path, counting, done=seen.append)
    total = report.total()
    assert (seen, report.skipped) == ([1, 2, 3], ("c",))
    assert total.mutants == len(report.fates) == sum(one.mutants for one in report.by_operator())
    assert total.accepted_all <= total.accepted_single < total.non_equivalent < total.mutants
    # No real row has staff = 4, so `>= 4` is right there by luck.
    assert total.accepted_single > 0
    assert any("staff >= 4" in fate.sql for fate in report.fates if fate.told_by == "instances")
    assert not list((tmp_path / "mutants" / "rows").glob("*.duckdb"))
    ran = counting.jobs
    assert find_survivors(pairs[:2], tmp_path, counting).fates == report.fates
    assert counting.jobs == ran, "what is done is not done again"


def test_an_interrupted_report_keeps_what_is_done(shop: Database, box: Sandbox, tmp_path: Path) -> None:
    pairs = [(question, shop) for question in QUESTIONS]

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_survivors(pairs, tmp_path, box, done=stop)
    assert len(list((tmp_path / "mutants").glob("*.json"))) == 1
    with pytest.raises(SandboxError, match="broken"):
        find_survivors(pairs, tmp_path, Counting(box, breaks_after=5))
    assert len(list((tmp_path / "mutants").glob("*.json"))) == 1


def test_what_survives_is_shown_with_its_sql() -> None:
    fates = (
        Fate("q", "literal", "SELECT 1", "real"),
        Fate("q", "literal", "SELECT 2", NOTHING),
        Fate("q", "literal", "SELECT 3", "witnesses"),
        Fate("q", "join", "SELECT 4", "instances"),
    )
    report = MutantReport(fates, {"q": "SELECT 0"}, (), 4)
    total = report.total()
    assert (total.single, total.all, total.non_equivalent) == (2 / 3, 1 / 3, 3)
    assert [fate.sql for fate in report.survivors()] == ["SELECT 3", "SELECT 2"]
    text = "\n".join(report.lines())
    assert "mutant SELECT 3" in text
    assert "SELECT 2" not in text
    assert "1 wrong mutants accepted with up to 4 instances; 1 mutants that no rows told apart" in text
    assert report.as_json()["survivors"][0]["gold_sql"] == "SELECT 0"
    assert MutantReport((), {}, (), 4).total().all == 0.0


def test_the_command_prints_one_json_object(content: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TEXT2SQL_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "some.jsonl"
    question = {"id": "q", "database": "stable", "question": "?", "gold_sql": "SELECT id FROM horse WHERE id > 0"}
    file.write_text(json.dumps(question) + "\n" + json.dumps({**question, "id": "r"}) + "\n")
    done = CliRunner().invoke(app, ["mutants", str(file), "--limit", "1", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["questions"], found["skipped"]) == (1, [])
    assert found["total"]["mutants"] == sum(one["mutants"] for one in found["operators"]) > 0

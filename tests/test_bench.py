"""The bench harness: what it writes, and what it does when a benchmark cannot be measured."""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import REPOSITORY
from tests.report import fake_run
from text2sql_rl.records import Column, Database, Question, Split, Table
from text2sql_rl.runs import RunFolder

# The harness is a folder of scripts, so its modules are found where `python bench/run.py` finds them.


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(REPOSITORY / "bench"))
    module = importlib.import_module("run")
    monkeypatch.setattr(module, "OUT", tmp_path / "results.json")
    return module


@pytest.fixture
def run(tmp_path: Path, content: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    folder = RunFolder(tmp_path / "runs" / "demo", min_free_gb=0.0)
    folder.create_or_open({**fake_run.CONTENT, "name": "demo", "parent": None})
    monkeypatch.setenv("TEXT2SQL_BENCH_RUN", str(folder.path))
    return folder


def test_the_share_is_the_median_over_steps(bench: ModuleType, run: RunFolder) -> None:
    for step, judged in enumerate((0.1, 0.2, 0.3, 0.4, 1.0), 1):
        run.stage("grpo").append_metrics({"step": step, "reward": 0.0, "judge_s": judged, "step_time": 10.0})
    assert bench.main(["reward_share"]) == 0
    assert json.loads(bench.OUT.read_text()) == [
        {"name": "grpo.reward_share_of_step", "value": 0.03, "unit": "share", "baseline": 0.1, "n": 5, "spread": 0.02}
    ]


def test_what_cannot_be_measured_is_told_and_the_rest_stays(
    bench: ModuleType, run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.OUT.write_text('[{"name": "other", "value": 1}]')
    assert bench.main(["reward_share", "nothing"]) == 2
    errors = capsys.readouterr().err
    assert "has no step times. Run `make demo` first" in errors
    assert "there is no benchmark 'nothing'. Choose from reward_share, step_time, informative_groups, seeds," in errors
    assert json.loads(bench.OUT.read_text()) == [{"name": "other", "value": 1}]


def test_arms_are_held_against_each_other_seed_by_seed(
    bench: ModuleType,
    tmp_path: Path,
    content: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEXT2SQL_BENCH_DYNAMIC", str(tmp_path))
    for arm, paid, rights in (("filtered-dynamic", 30.0, (62, 64)), ("unfiltered-plain", 29.0, (60, 60))):
        for seed, right in enumerate(rights, 17):
            if (arm, seed) == ("unfiltered-plain", 18):
                assert bench.main(["dynamic_sampling"]) == 2
                assert "holds fewer than two seeds" in capsys.readouterr().err
            run = fake_run.make_run(tmp_path, f"{arm}-{seed}", {"warmup": 50, "grpo": right}, {}, seed=seed)
            costs = {"grpo": {"cpu_s": paid}, "difficulty_warm": {"cpu_s": 1.0 if arm == "unfiltered-plain" else 0.0}}
            run.update(lambda record, costs=costs: record.update(stages=costs))
    assert bench.main(["dynamic_sampling"]) == 0
    found = {one["name"].removeprefix("dynamic_sampling."): one for one in json.loads(bench.OUT.read_text())}
    gain, price, share = (found[name] for name in
                          ("heldout_gain", "completions_per_informative_group", "informative_share"))  # fmt: skip
    assert (gain["value"], gain["n"], gain["spread"]) == (3.0, 2, 2.0)
    assert found["heldout_gain_low"]["value"] <= 3.0 <= found["heldout_gain_high"]["value"]
    assert (share["value"], share["baseline"], share["n"]) == (1.0, 1.0, 2 * 20 * 30)
    assert (price["value"], price["baseline"]) == (3.0, 3.0)  # three completions a group, all informative
    assert found["processor_time"]["value"] == 1.0
    assert bench.dynamic_sampling.main() == 0
    assert "filtered-dynamic over unfiltered-plain: mean +3.0 points (+2.0, +4.0)" in capsys.readouterr().out


def test_candidates_are_eight_distinct_statements_with_the_gold_first(bench: ModuleType) -> None:
    columns = tuple(Column(name=name, type="INTEGER") for name in ("id", "age", "weight", "height", "price"))
    database = Database(name="d", tables=(Table(name="horse", columns=columns),), instances=())
    asked = Question(id="q", database="d", text="?", gold_sql="SELECT id FROM horse WHERE age > 3", split=Split.DEV,
                     role="dev")  # fmt: skip
    found = bench.verifier_time.candidates(asked, database)
    assert found[0] == asked.gold_sql
    assert len(found) == len(set(found)) == 8


def test_a_try_writes_nothing(bench: ModuleType, run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXT2SQL_BENCH_SHARE", "0.5")
    for step in (1, 2, 3):
        run.stage("grpo").append_metrics({"step": step, "reward": 0.0, "judge_s": 0.1, "step_time": 10.0})
    assert bench.main(["reward_share"]) == 0
    assert not bench.OUT.exists()
    measure = importlib.import_module("measure")
    assert (measure.scaled(100), measure.scaled(2), measure.scaled(100, least=70)) == (50, 2, 70)


SHOP = Database(
    name="d",
    tables=(
        Table(name="shop", columns=(Column(name="id", type="INTEGER", nullable=False, primary_key=True),
                                    Column(name="town", type="VARCHAR"), Column(name="staff", type="INTEGER"))),
    ),
    instances=(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "gold", "rewritten"),
    [
        ("aliases_renamed", "SELECT a.id FROM shop AS a JOIN shop AS b ON a.id = b.id",
         "SELECT rewritten_0.id FROM shop AS rewritten_0 JOIN shop AS rewritten_1 ON rewritten_0.id = rewritten_1.id"),
        ("predicates_turned", "SELECT id FROM shop WHERE id > 1 AND staff < 3",
         "SELECT id FROM shop WHERE staff < 3 AND id > 1"),
        ("comparisons_turned", "SELECT id FROM shop WHERE staff >= 3", "SELECT id FROM shop WHERE 3 <= staff"),
        ("join_commuted", "SELECT a.id FROM shop AS a JOIN item AS b ON a.id = b.id",
         "SELECT a.id FROM item AS b JOIN shop AS a ON a.id = b.id"),
        ("join_commuted", "SELECT a.id FROM shop AS a LEFT JOIN item AS b ON a.id = b.id", None),
        ("join_commuted", "SELECT * FROM shop AS a JOIN item AS b ON a.id = b.id", None),
        ("between_split", "SELECT id FROM shop WHERE staff BETWEEN 1 AND 3",
         "SELECT id FROM shop WHERE (staff >= 1 AND staff <= 3)"),
        ("between_joined", "SELECT id FROM shop WHERE staff >= 1 AND staff <= 3",
         "SELECT id FROM shop WHERE staff BETWEEN 1 AND 3"),
        ("in_as_or", "SELECT id FROM shop WHERE NOT town IN ('a', 'b')",
         "SELECT id FROM shop WHERE NOT (town = 'a' OR town = 'b')"),
        ("or_as_in", "SELECT id FROM shop WHERE town = 'a' OR town = 'b'",
         "SELECT id FROM shop WHERE town IN ('a', 'b')"),
        ("counted_otherwise", "SELECT COUNT(*) FROM shop", 'SELECT COUNT("id") FROM shop'),
        ("counted_otherwise", "SELECT COUNT(*) FROM shop JOIN item USING (id)",
         "SELECT COUNT(1) FROM shop JOIN item USING (id)"),
        ("negated_twice", "SELECT id FROM shop WHERE staff > 1", "SELECT id FROM shop WHERE NOT (NOT (staff > 1))"),
        ("wrapped_in_a_cte", "SELECT id FROM shop ORDER BY id", None),
        ("distinct_as_group", "SELECT DISTINCT town FROM shop", "SELECT town FROM shop GROUP BY town"),
        ("in_as_exists", "SELECT id FROM shop WHERE NOT id IN (SELECT id FROM item)", None),
    ],
)  # fmt: skip
def test_a_rewrite_says_the_same_in_other_words(bench: ModuleType, name: str, gold: str, rewritten: str | None) -> None:
    assert dict(bench.rewrites.rewritten(gold, SHOP)).get(name) == rewritten


def test_a_sqlite_file_becomes_a_database(bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "spider" / "database" / "pets"
    folder.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(folder / "pets.sqlite")) as file, file:
        file.execute("CREATE TABLE pet (id INTEGER PRIMARY KEY, weight REAL, name TEXT, mixed)")
        file.executemany("INSERT INTO pet VALUES (?, ?, ?, ?)", [(1, 2, "a", 1), (2, 2.5, None, "x")])
    line = {"id": "q", "db_id": "pets", "question": "?", "gold_sql": 'SELECT "a"', "duckdb_sql": "SELECT name FROM pet",
            "hardness": "easy"}  # fmt: skip
    (tmp_path / "spider" / "dev_duckdb_verified.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setenv("TEXT2SQL_SPIDER", str(tmp_path / "spider"))
    monkeypatch.setenv("TEXT2SQL_CACHE", str(tmp_path / "cache"))
    spider = importlib.import_module("spider")
    (asked,) = spider.dev_questions()
    columns = asked.database.tables[0].columns
    assert [(one.name, one.type, one.nullable) for one in columns] == [
        ("id", "BIGINT", False), ("weight", "DOUBLE", True), ("name", "VARCHAR", True), ("mixed", "VARCHAR", True),
    ]  # fmt: skip
    assert spider.dev_questions() == [asked] == spider.spread([asked, asked], 5)
    assert asked.sqlite == folder / "pets.sqlite"


def test_a_page_is_opened_in_a_browser(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(map(shutil.which, bench.report_open._PROGRAMS)):
        pytest.skip("no chromium on this machine")
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'")
    monkeypatch.setenv("TEXT2SQL_BENCH_SHARE", "0.004")
    wall, spent = bench.report_open.measure()
    assert (wall.name, wall.baseline, wall.n) == ("report.open_20000_rollouts", 3.0, 2)
    assert 0 < spent.value < wall.value + 3

"""Canaries: no sound rule pays them, a bad rule and a judge that ignores duplicates do, and that is noticed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from text2sql_rl import judge as judging
from text2sql_rl.canaries import Canary, CanaryWatch, make_canaries, watch_over
from text2sql_rl.config import Canaries
from text2sql_rl.content import open_store
from text2sql_rl.errors import SandboxError
from text2sql_rl.judge import Judge
from text2sql_rl.records import Database, Gold, Match, Verdict
from text2sql_rl.runs import RunFolder, StageFolder
from text2sql_rl.scoring import Rule, load_rule, rule_names

BOUND = load_rule("bound-v1")


@pytest.fixture(scope="module")
def database() -> Database:
    return open_store().get("aquarium")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(BOUND) as opened:
        yield opened


def watch(judge: Judge, canaries: tuple[Canary, ...], file: Path, rate: float = 0.1, stop: bool = False) -> CanaryWatch:
    return CanaryWatch(canaries, judge, rate=rate, stop=stop, file=file)


def test_a_database_gives_all_four_kinds(database: Database, cache: Path) -> None:
    canaries = {one.kind: one for one in make_canaries([database], BOUND, cache)}
    assert {kind: one.most for kind, one in canaries.items()} == {
        "constant": 0.0, "duplicates": 0.05, "empty": 0.0, "write": 0.0,
    }  # fmt: skip
    assert all(len(one.baits) > 1 for one in canaries.values())
    assert len(canaries["empty"].database.instances) > 1


@pytest.mark.parametrize("name", [name for name in rule_names() if not name.startswith("executes-only")])
def test_no_sound_rule_pays_one_and_each_pays_the_golds(
    name: str, database: Database, cache: Path, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = load_rule(name)
    monkeypatch.setattr(judge, "rule", rule)
    canaries = make_canaries([database], rule, cache)
    guard = watch(judge, canaries, tmp_path / "alarms.jsonl", stop=True)
    guard.ask_all()
    assert guard.result()["canaries"] == {"asked": sum(len(one.baits) for one in canaries), "paid": 0}
    honest = tuple(Canary(one.kind, one.question, one.database, (one.question.gold_sql,), 0.5) for one in canaries)
    paid = watch(judge, honest, tmp_path / "honest.jsonl")
    paid.ask_all()
    assert paid.result()["canaries"] == {"asked": 4, "paid": 4}


@pytest.fixture
def farmed(monkeypatch: pytest.MonkeyPatch, judge: Judge) -> Rule:
    rule = load_rule("executes-only-v2")
    monkeypatch.setattr(judge, "rule", rule)
    return rule


def test_a_rule_that_pays_for_executing_raises_alarms(
    farmed: Rule, database: Database, cache: Path, judge: Judge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = watch(judge, make_canaries([database], farmed, cache), tmp_path / "alarms.jsonl")
    with caplog.at_level(logging.WARNING):
        guard.ask_all()
    alarms = [json.loads(line) for line in (tmp_path / "alarms.jsonl").read_text().splitlines()]
    assert {one["kind"] for one in alarms} == {"constant", "duplicates", "empty"}
    assert all((one["paid"], one["most"], one["step"]) == (1.0, 0.0, 0) for one in alarms)
    assert len(caplog.records) == len(alarms) == guard.paid
    assert caplog.messages[0].startswith(
        "alarm at step 0: a known-wrong answer of kind constant earned 1 where at most 0"
    )
    assert guard.result()["summary"] == f"ALARM: {len(alarms)} of {guard.asked} canaries were paid"


def test_an_alarm_ends_the_run_where_the_config_says_so(
    farmed: Rule, database: Database, cache: Path, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEXT2SQL_CACHE", str(cache))
    monkeypatch.setenv("TEXT2SQL_MIN_FREE_GB", "0")
    stage = RunFolder(tmp_path / "run").stage("grpo")
    stage.path.mkdir(parents=True)
    with pytest.raises(SandboxError, match=r"alarms\.jsonl: a known-wrong answer of kind constant earned 1"):
        watch_over([SimpleNamespace(database=database)], judge, Canaries(rate=0.1, stop=True), stage)
    assert (stage.path / "alarms.jsonl").read_text()


def test_a_judge_that_forgets_duplicates_is_noticed(
    database: Database, cache: Path, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_sets(gold: Gold, execution: object, sql: str = "") -> Verdict:
        same = set(gold.execution.rows) == set(getattr(execution, "rows", ()))
        return Verdict(match=Match.MATCH if same and gold.execution.rows else Match.MISMATCH, code="set", words="")

    monkeypatch.setattr(judging, "compare", as_sets)
    guard = watch(judge, make_canaries([database], BOUND, cache), tmp_path / "alarms.jsonl")
    guard.ask_all()
    kinds = {json.loads(line)["kind"] for line in (tmp_path / "alarms.jsonl").read_text().splitlines()}
    assert "duplicates" in kinds


def test_the_rate_decides_how_many_and_all_take_turns(
    database: Database, cache: Path, judge: Judge, tmp_path: Path
) -> None:
    canaries = make_canaries([database], BOUND, cache)
    baits = sum(len(one.baits) for one in canaries)
    guard = watch(judge, canaries, tmp_path / "alarms.jsonl", rate=0.25)
    counts = []
    for step in range(1, 11):
        guard.after(step, 5)
        counts.append(guard.asked)
    assert counts == [5 * step // 4 for step in range(1, 11)]
    assert baits == 12
    assert not (tmp_path / "alarms.jsonl").exists()


def test_without_canaries_nothing_is_judged_and_nothing_said(judge: Judge, tmp_path: Path) -> None:
    guard = watch_over([], judge, None, StageFolder(tmp_path, 0.0))
    guard.after(1, 1000)
    assert (guard.asked, guard.result()) == (0, {})

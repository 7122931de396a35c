"""The bench harness: what it writes, and what it does when a benchmark cannot be measured."""

from __future__ import annotations

import importlib
import json
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
    assert "there is no benchmark 'nothing'. Choose from reward_share, verifier_time, mutants, rewrites," in errors
    assert json.loads(bench.OUT.read_text()) == [{"name": "other", "value": 1}]


def test_candidates_are_eight_distinct_statements_with_the_gold_first(bench: ModuleType) -> None:
    columns = tuple(Column(name=name, type="INTEGER") for name in ("id", "age", "weight", "height", "price"))
    database = Database(name="d", tables=(Table(name="horse", columns=columns),), instances=())
    asked = Question(id="q", database="d", text="?", gold_sql="SELECT id FROM horse WHERE age > 3", split=Split.DEV,
                     role="dev")  # fmt: skip
    found = bench.verifier_time.candidates(asked, database)
    assert found[0] == asked.gold_sql
    assert len(found) == len(set(found)) == 8

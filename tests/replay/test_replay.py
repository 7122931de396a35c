"""replay: a log gives its own rewards, and every change to it, or to its rule, is told."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.replay.logged import make_log
from text2sql_rl.errors import RunError
from text2sql_rl.replay import open_source, replay
from text2sql_rl.rollout_log import LogRow, read_rollouts, write_rollouts
from text2sql_rl.scoring import rules_folder

SCALED = {"scale": "population", "floor": 0.25}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    grpo = {"steps": 1, "questions_per_step": 1, "generations": 4, "learning_rate": 0.1, "save_every": 1}
    return make_log(tmp_path_factory.mktemp("log"), grpo={**grpo, "advantage": SCALED})


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "tiny"))


def tamper(run: Path, change: Callable[[LogRow], dict[str, Any]], index: int = 0) -> None:
    path = run / "stages" / "grpo" / "rollouts" / "step-000001.parquet"
    rows = read_rollouts(path)
    rows[index] = replace(rows[index], **change(rows[index]))
    write_rollouts(path, rows)


def test_a_log_gives_its_rewards_and_advantages(run: Path) -> None:
    found = replay(open_source(run))
    assert found.passed
    assert found.rollouts == found.recomputed == found.advantages == {"grpo": 16, "evaluate_grpo": 8}
    assert found.lines()[-1] == "every logged reward is what the log gives"


@pytest.mark.parametrize("place", ["stages/grpo", "stages/grpo/rollouts", "stages/grpo/rollouts/step-000001.parquet"])
def test_a_part_of_a_run_is_read_with_the_runs_definition(run: Path, place: str) -> None:
    found = replay(open_source(run / place))
    assert found.passed
    assert found.advantages == found.rollouts
    assert set(found.rollouts) == {"grpo"}


def test_part_files_alone_are_replayed_without_advantages(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "stages" / "grpo" / "rollouts", tmp_path / "parts")
    found = replay(open_source(tmp_path / "parts"))
    assert found.passed
    assert found.recomputed == {"grpo": 16}
    assert not found.advantages
    assert "advantages were not compared where no run.json declares their definition" in found.lines()


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (lambda row: {"total": row.total - 0.5}, {"reward"}),
        (lambda row: {"advantage": row.advantage + 1e-6}, {"advantage"}),
        (lambda row: {"cause": "near"}, {"cause"}),
        (lambda row: {"equivalent": False}, {"equivalent"}),
        (lambda row: {"candidate": "SELECT 1"}, {"candidate"}),
        (lambda row: {"clean": False}, {"candidate", "reward", "component format", "advantage", "group mean",
                                        "group spread"}),
        (lambda row: {"items": row.items.replace('"points": 0.9', '"points": 0.8')}, {"component correct"}),
        (lambda row: {"rule_sha256": "0" * 64}, {"rule"}),
        (lambda row: {"group_spread": 0.0}, {"group spread"}),
        (lambda row: {"group_kind": "all_wrong"}, {"group kind"}),
    ],
)  # fmt: skip
def test_every_change_to_the_log_is_told(
    run: Path, change: Callable[[LogRow], dict[str, Any]], fields: set[str]
) -> None:
    # The lineage and the statistics of a group are read off its first row, which tells them for all.
    tamper(run, change, index=1 if "rule" in fields else 0)
    found = replay(open_source(run))
    if "rule" in fields:
        assert "rule" in {one.field for one in found.differences}
    else:
        assert {one.field for one in found.differences} == fields
    assert not found.passed
    assert {(one.stage, one.step) for one in found.differences} == {("grpo", 1)}
    assert found.as_json()["differences"][0]["question_id"] == "fish"


def test_another_definition_of_the_advantage_is_told(run: Path) -> None:
    file = run / "run.json"
    file.write_text(file.read_text().replace('"scale": "population"', '"scale": "sample"'))
    assert {one.field for one in replay(open_source(run)).differences} == {"advantage", "group spread"}


def test_a_rule_that_is_no_longer_the_logged_one_is_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "databases").mkdir(parents=True)
    (root / "data").mkdir()
    shutil.copytree(rules_folder(), root / "rewards" / "rules")
    monkeypatch.setenv("TEXT2SQL_ROOT", str(root))
    path = root / "rewards" / "rules" / "bound-v1.yaml"
    content = path.read_text()
    assert replay(open_source(run)).passed
    for text, says in (
        (content + "# changed\n", "is no longer that file ("),
        ("no: rule\n", "is no longer that file: restore it"),
        (None, "and no file has it: put the rule back into"),
    ):
        path.unlink() if text is None else path.write_text(text)
        found = replay(open_source(run))
        assert not found.passed
        assert not found.recomputed
        (words,) = found.lost.values()
        assert says in words
        assert words.startswith("rule bound-v1 was logged with sha256 fe8a0bae1e71")
    # The hash finds it under any name.
    (root / "rewards" / "rules" / "kept-v1.yaml").write_text(content)
    assert replay(open_source(run)).passed


def test_a_rule_outside_the_folder_is_found_by_the_path_in_the_config(tmp_path: Path) -> None:
    mine = tmp_path / "mine-v1.yaml"
    mine.write_text((rules_folder() / "dense-v1.yaml").read_text().replace("over_long: 0.05", "over_long: 0.04"))
    run = make_log(tmp_path, str(mine))
    assert replay(open_source(run)).passed
    mine.write_text(mine.read_text().replace("over_long: 0.04", "over_long: 0.03"))
    assert "is no longer that file" in "".join(replay(open_source(run)).lost.values())


def test_what_holds_no_log_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        open_source(tmp_path / "absent")
    with pytest.raises(RunError, match="holds no logged rollouts"):
        open_source(tmp_path)
    (tmp_path / "part.parquet").write_bytes(b"torn")
    with pytest.raises(RunError, match="cannot be read"):
        replay(open_source(tmp_path))

"""The command: exit codes, JSON, files, and errors of one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import REPOSITORY
from text2sql_rl.cli import app
from text2sql_rl.errors import ConfigError


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["redteam", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def test_a_sound_rule_is_code_0_and_words(tmp_path: Path) -> None:
    code, text = run("binary-v1", "--families", "state-abuse", "--out", str(tmp_path / "deep" / "redteam.json"))
    assert code == 0
    assert "No attack got through: 0 of" in text
    written = json.loads((tmp_path / "deep" / "redteam.json").read_text())
    assert written["failed_levels"] == []
    assert {one["family"] for one in written["payouts"]} == {"state-abuse"}


def test_a_bad_rule_is_code_1_and_json() -> None:
    code, text = run("executes-only-v1", "--families", "state-abuse", "--json")
    assert code == 1
    content = json.loads(text)
    assert content["reward"] == "executes-only-v1"
    assert "payouts" in content["failed_levels"]


def test_the_search_adds_what_it_found(tmp_path: Path) -> None:
    first = (REPOSITORY / "data" / "dev" / "dev.jsonl").read_text(encoding="utf-8").splitlines()[0]
    (tmp_path / "one.jsonl").write_text(first)
    words = [
        "--families",
        "state-abuse",
        "--fuzz",
        "20",
        "--data",
        str(tmp_path / "one.jsonl"),
        "--finds",
        str(tmp_path),
    ]
    code, text = run("executes-only-v1", *words, "--json")
    assert code == 1
    found = json.loads(text)["search"]
    assert found["counts"]["candidates"] == 20
    assert {path.stem for path in tmp_path.glob("*.yaml")} == {one["name"] for one in found["finds"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-rule"], "no rule named"),
        (["bound-v1", "--families", "engine"], "no family named 'engine'"),
        (["--reward", "nowhere.py:f"], "there is no such file"),
        (["--reward", "json:loads", "--fuzz", "10"], "the search needs a rule"),
    ],
)
def test_wrong_input_is_one_clear_error(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        run(*words)
    assert caught.value.fix

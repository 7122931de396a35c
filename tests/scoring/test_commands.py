"""The commands on rules and logs: exit codes, JSON, and the warning of a deliberately bad rule."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.replay.logged import make_log
from text2sql_rl.cli import app
from text2sql_rl.scoring import rule_names, rules_folder
from text2sql_rl.scoring.rules import warn_once

WARNING = "warning: rule executes-only-v2 is deliberately bad: it breaks dominance, order, constants"
JUDGE = ("judge", "--database", "aquarium", "--gold", "SELECT count(*) FROM tank", "--sql", "SELECT 1")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log(tmp_path_factory.mktemp("log"))


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("name", rule_names())
def test_check_passes_every_rule_but_the_bad_ones(name: str) -> None:
    code, out, err = call("rewards", "check", name)
    assert (code, err) == (int(name.startswith("executes-only")), "")
    assert ("BROKEN" in out) is (code == 1)
    assert json.loads(call("rewards", "check", name, "--json")[1])["passed"] is (code == 0)


def test_check_tells_of_a_changed_file_that_does_not_load(tmp_path: Path) -> None:
    shutil.copy(rules_folder() / "LOCK", tmp_path)
    text = (rules_folder() / "bound-v2.yaml").read_text()
    (tmp_path / "bound-v2.yaml").write_text(text.replace("correct: 0.9", "correct: 0.1"))
    code, out, _ = call("rewards", "check", str(tmp_path / "bound-v2.yaml"))
    assert code == 1
    assert "CHANGED after its release" in out
    assert "dominance    BROKEN" in out
    assert out.endswith("no command loads it.\n")


def test_every_command_that_loads_a_bad_rule_warns(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = str(run)
    for words in (
        ("rewards", "show", "executes-only-v2"),
        ("rewards", "compare", "bound-v1", "executes-only-v2", "--rollouts", log),
        (*JUDGE, "--rule", "executes-only-v2"),
    ):
        warn_once.cache_clear()
        caplog.clear()
        assert call(*words)[0] == 0
        assert caplog.messages == [WARNING]
    caplog.clear()
    call(*JUDGE)
    assert caplog.messages == []


def test_the_warning_goes_to_stderr_and_not_among_the_output() -> None:
    program = (sys.executable, "-m", "text2sql_rl.cli", "rewards", "show", "executes-only-v2")
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, f"{WARNING}\n")
    assert done.stdout.startswith("executes-only-v2 (version 2")


def test_compare_prints_what_changes(run: Path) -> None:
    code, out, _ = call("rewards", "compare", "bound-v1", "binary-v1", "--rollouts", str(run))
    assert code == 0
    assert out.startswith("bound-v1 -> binary-v1 on 24 rollouts in 6 groups, 0 unscored\n")
    found = json.loads(call("rewards", "compare", "bound-v1", "binary-v1", "--rollouts", str(run), "--json")[1])
    assert (found["lost_spread"]["count"], found["flips"]["count"], found["pairs"]) == (3, 0, 36)
    assert {gate["gate"] for gate in found["gates"]} == {"binding", "constant", "refused"}


def test_replay_ends_with_one_where_the_log_differs(run: Path, tmp_path: Path) -> None:
    code, out, _ = call("replay", str(run))
    assert (code, out.splitlines()[-1]) == (0, "every logged reward is what the log gives")
    copy = Path(shutil.copytree(run, tmp_path / "tiny"))
    file = copy / "run.json"
    file.write_text(file.read_text().replace('"scale": "none"', '"scale": "leave_one_out"'))
    code, out, _ = call("replay", str(copy), "--json")
    assert code == 1
    assert {one["field"] for one in json.loads(out)["differences"]} == {"advantage"}
    assert "advantage was logged as" in call("replay", str(copy))[1]

"""The quickstart, followed as written: every command runs, on a run whose training was made up.

`judge` and `rewards` run in test_docs.py; that the stages of a run train is tested in tests/learn and tests/pipeline.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, RUN, blocks
from tests.report.fake_run import make_run
from text2sql_rl.config import load_config

PAGE = ROOT / "docs" / "quickstart.md"
COMMANDS = [shlex.split(command) for block in blocks(PAGE) for command, _ in block]
OURS = [words for program, *words in COMMANDS if program == "text2sql-rl" and words[0] not in RUN]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with the run that the page's training leaves."""
    place = tmp_path_factory.mktemp("quickstart")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXT2SQL_ROOT", str(ROOT))
        make_run(place / "runs", "smoke")
    return place


def start(folder: Path, words: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TEXT2SQL_ROOT": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "text2sql_rl.cli", *words],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_page_goes_all_the_way() -> None:
    assert [words[0] for words in OURS] == [
        "doctor",
        "run",
        "report",
        "inspect",
        "inspect",
        "rollouts",
        "compare",
        "serve",
    ]
    (trained,) = (words[1] for words in OURS if words[0] == "run")
    config = load_config(ROOT / trained)
    assert f"runs/{config.name}" in OURS[2]


@pytest.mark.parametrize("words", [words for words in OURS if words[0] not in ("run", "doctor", "serve")], ids=" ".join)
def test_a_command_works(folder: Path, words: list[str]) -> None:
    program = start(folder, words)
    out, err = program.communicate(timeout=120)
    assert (program.returncode, err) == (0, "")
    assert len(out.splitlines()) > 2
    if words[0] in ("inspect", "rollouts", "compare"):
        program = start(folder, [*words, "--json"])
        assert json.loads(program.communicate(timeout=120)[0])


def test_doctor_finds_this_machine_good_or_says_what_is_bad(folder: Path) -> None:
    program = start(folder, ["doctor"])
    out, err = program.communicate(timeout=120)
    assert err == ""
    assert program.returncode == ("\nbad " in f"\n{out}")


def test_serve_says_where(folder: Path) -> None:
    (words,) = (words for words in OURS if words[0] == "serve")
    program = start(folder, [*words, "--port", "0"])
    assert program.stdout
    assert "(Ctrl-C ends it)" in program.stdout.readline()
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=60) == ("ended\n", "")
    assert program.returncode == 0

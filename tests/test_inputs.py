"""What a run refuses before it makes its folder: each wrong input with its file, its field and the fix."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.run_config import write_config
from text2sql_rl.config import RunConfig, load_config
from text2sql_rl.errors import Text2SqlError
from text2sql_rl.pipeline import check_inputs

ROOT = Path(__file__).resolve().parent.parent
SETS = {"train/sft": "stable", "train/rl": "stable", "dev/dev": "barn", "heldout/heldout": "yard"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests: the databases are built once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def root(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A content root of three databases with one question in every set."""
    root = tmp_path / "root"
    for name in set(SETS.values()):
        (root / "databases" / name / "rows").mkdir(parents=True)
        (root / "databases" / name / "schema.sql").write_text("CREATE TABLE horse (id INTEGER, age INTEGER);\n")
        (root / "databases" / name / "rows" / "horse.csv").write_text("id,age\n1,9\n2,4\n")
    for place in SETS:
        write_question(root, place, "SELECT age FROM horse")
    shutil.copytree(ROOT / "rewards", root / "rewards")
    monkeypatch.setenv("TEXT2SQL_ROOT", str(root))
    monkeypatch.setenv("TEXT2SQL_CACHE", str(cache))
    return root


def write_question(root: Path, place: str, gold: str, database: str = "") -> None:
    path = root / "data" / f"{place}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    line = {"id": f"{path.stem}-1", "database": database or SETS[place], "question": "How old?", "gold_sql": gold}
    path.write_text(json.dumps(line) + "\n")


def config(folder: Path, rule: str = "bound-v1", role: str = "heldout") -> RunConfig:
    path = write_config(folder, judge={"rule": rule}, evaluate={"roles": [role], "samples": 1})
    return load_config(path)


def test_sound_inputs_pass(root: Path, tmp_path: Path) -> None:
    check_inputs(config(tmp_path))


@pytest.mark.parametrize("place", SETS)
@pytest.mark.parametrize(
    ("gold", "told"),
    [
        ("SELECT weight FROM horse", "weight"),
        ("SELECT age FROM pony", "pony"),
        ("SELECT FROM WHERE", "syntax error"),
        ("DROP TABLE horse", "it is not one SELECT"),
        ("SELECT 1; SELECT 2", "it is not one SELECT"),
        ("EXPLAIN ANALYZE SELECT 1", "it is not one SELECT"),
    ],
)
def test_a_gold_that_does_not_run_is_named(root: Path, tmp_path: Path, place: str, gold: str, told: str) -> None:
    write_question(root, place, gold)
    with pytest.raises(Text2SqlError) as caught:
        check_inputs(config(tmp_path))
    said = str(caught.value)
    assert f"{place}.jsonl: gold_sql: the gold of question {place.split('/')[1]}-1 does not run" in said
    assert told in said
    assert said.endswith("Correct it there, or remove the question.")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda root: write_question(root, "train/rl", "SELECT 1", "yard"), "stands in two splits"),
        (lambda root: write_question(root, "train/rl", "SELECT 1", "moon"), "unknown database 'moon'"),
        (lambda root: (root / "data/dev/dev.jsonl").unlink(), "there is no question set 'dev'"),
        (lambda root: (root / "data/train/sft.jsonl").write_text(""), "the question set 'sft' is empty"),
        (lambda root: (root / "data/train/sft.jsonl").write_text("{"), "sft.jsonl: line 1: is not JSON"),
        (lambda root: (root / "databases/yard/rows/horse.csv").write_text("id,age\n1,old\n"), "horse.csv"),
    ],
)
def test_wrong_content_is_named(root: Path, tmp_path: Path, spoil: Callable[[Path], object], told: str) -> None:
    spoil(root)
    with pytest.raises(Text2SqlError) as caught:
        check_inputs(config(tmp_path))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "role", "told"),
    [
        ("moon-v1", "heldout", "no rule named 'moon-v1'"),
        ("bound-v1", "moon", "there is no question set 'moon'"),
        ("bound-v1", "rl", "evaluate.roles: the set 'rl' is a training set"),
    ],
)
def test_a_config_that_asks_for_what_is_not_there_is_refused(
    root: Path, tmp_path: Path, rule: str, role: str, told: str
) -> None:
    with pytest.raises(Text2SqlError) as caught:
        check_inputs(config(tmp_path, rule, role))
    assert told in str(caught.value)


def test_run_refuses_before_anything_is_written(root: Path, tmp_path: Path) -> None:
    write_question(root, "train/rl", "SELECT weight FROM horse")
    path = write_config(tmp_path, judge={"rule": "bound-v1"})
    words = [sys.executable, "-m", "text2sql_rl.cli", "run", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "rl.jsonl: gold_sql: the gold of question rl-1 does not run" in done.stderr
    assert not (tmp_path / "runs").exists()

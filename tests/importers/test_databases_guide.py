"""docs/import.md: the commands about databases and validation work in the order in which the page gives them."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from tests.conftest import REPOSITORY
from tests.docs.test_docs import blocks
from tests.importers.test_databases_sqlite import sqlite_file
from text2sql_rl.cli import app
from text2sql_rl.exclusions import FLAGS

PAGE = REPOSITORY / "docs" / "import.md"
OWN = (["import", "sqlite"], ["import", "duckdb"], ["import", "files"], ["synthesize"], ["validate"])


def prepare(folder: Path) -> None:
    towns = [(at, f"Town {at}", ("north", "south", "west")[at % 3], at * at % 97) for at in range(1, 31)]
    script = "CREATE TABLE town (town_id INTEGER PRIMARY KEY, name TEXT, region TEXT, people INTEGER);"
    sqlite_file(folder / "shop.sqlite", script, {"INSERT INTO town VALUES (?, ?, ?, ?)": towns})
    with duckdb.connect(str(folder / "flights.duckdb")) as connection:
        connection.execute("CREATE TABLE flight AS SELECT range AS id FROM range(9)")
    shutil.copytree(REPOSITORY / "databases" / "beekeeping" / "rows", folder / "exports")
    shutil.copytree(REPOSITORY / "rewards", folder / "mine" / "rewards")


def test_the_commands_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TEXT2SQL_ROOT", raising=False)
    ran = []
    for command in (command for block in blocks(PAGE) for command, _ in block):
        program, *words = shlex.split(command)
        if program == "export" and words[0].startswith("TEXT2SQL_ROOT="):
            monkeypatch.setenv(*words[0].split("="))
        elif any(words[: len(start)] == start for start in OWN):
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, f"{command}: {done.output} {done.exception}"
            ran.append(words[0])
    assert ran == ["import", "import", "import", "synthesize", "validate"]
    names = {path.name for path in (tmp_path / "mine" / "databases").iterdir()}
    assert names == {"shop", "flights", "club"}


def test_the_page_names_every_flag() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [flag for flag in FLAGS if f"`{flag}`" not in text] == []


def test_the_commands_end_with_one_where_something_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("hello, I am no database")
    done = CliRunner().invoke(app, ["import", "sqlite", str(tmp_path / "bad.sqlite"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "bad.sqlite: is not a SQLite database, or it is encrypted" in done.output
    assert (tmp_path / "out" / "rejects" / "sqlite.jsonl").is_file()

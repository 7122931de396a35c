"""Bad inputs beside good ones: each is a clear error or a reject with its reason, and the rest is imported."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from text2sql_rl.cli import app
from text2sql_rl.content import open_content, open_store
from text2sql_rl.importers.question_file import read_questions

WIDE = 300


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """SQLite files: a good one, a corrupt one, one with an empty table, one with a table of 300 columns."""
    folder = tmp_path / "files"
    folder.mkdir()
    for name, script in {
        "good": "CREATE TABLE horse (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO horse VALUES (1, 'Bella');",
        "hollow": "CREATE TABLE horse (id INTEGER PRIMARY KEY, name TEXT, born DATE, price REAL);",
        "wide": f"CREATE TABLE reading ({', '.join(f'c{number} INTEGER' for number in range(WIDE))});"
        f"INSERT INTO reading VALUES ({', '.join(str(number) for number in range(WIDE))});",
    }.items():
        with sqlite3.connect(folder / f"{name}.sqlite") as connection:
            connection.executescript(script)
        connection.close()
    whole = (folder / "good.sqlite").read_bytes()
    (folder / "corrupt.sqlite").write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    return folder


def test_databases(files: Path, tmp_path: Path) -> None:
    sources = [str(path) for path in sorted(files.iterdir())]
    found = CliRunner().invoke(app, ["import", "sqlite", *sources, "--out", str(tmp_path / "out"), "--json"])
    assert found.exit_code == 1
    (reject,) = json.loads(found.stdout)["rejects"]
    assert "corrupt.sqlite" in json.dumps(reject)
    assert sorted(path.name for path in (tmp_path / "out" / "databases").iterdir()) == ["good", "hollow", "wide"]


def test_questions(files: Path, tmp_path: Path) -> None:
    asked = [
        ("good", "sqlite", "SELECT name FROM horse", ""),
        ("corrupt", "sqlite", "SELECT name FROM horse", "broken_database"),
        ("hollow", "sqlite", "SELECT name FROM horse", ""),
        ("wide", "sqlite", "SELECT c299 FROM reading", ""),
        ("moon", "sqlite", "SELECT 1", "no_database"),
        ("good", "sqlite", "UPDATE horse SET name = 'x'", "not_a_query"),
        ("good", "oracle", "SELECT name FROM horse", "unknown_dialect"),
    ]
    lines = [
        {"question": f"What is c299 of {number}?", "database": database, "dialect": dialect, "sql": sql}
        for number, (database, dialect, sql, _) in enumerate(asked)
    ]
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    out = tmp_path / "out"
    command = ["import", "questions", str(file), "--split", "dev", "--databases", str(files), "--out", str(out)]
    found = CliRunner().invoke(app, [*command, "--json"])
    assert found.exit_code == 0, found.output
    counts = json.loads(found.stdout)
    assert counts["rejected"] == {reason: 1 for _, _, _, reason in asked if reason}
    assert counts["flags"]["empty"] == 1
    rejects = [json.loads(line) for line in Path(counts["rejects_file"]).read_text().splitlines()]
    assert {reject["reason"] for reject in rejects} == {reason for *_, reason in asked if reason}
    assert all(reject["words"] and reject["place"].startswith("asked.jsonl:") for reject in rejects)
    content = open_content(out)
    assert [question.database for question in content.questions.role("dev")] == ["good", "hollow", "wide"]
    prompts = CliRunner().invoke(app, ["prompts", str(out), "--style", "compact", "--max-tokens", "256", "--json"])
    assert prompts.exit_code == 0, prompts.output
    assert json.loads(prompts.stdout)["recall"] == 1.0  # of 300 columns the one that the gold needs is shown


def test_files(tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    (folder / "people.csv").write_text("id,name\n1,Ann\n2,Bob,too many\n3,Cy\n")
    (folder / "nobody.csv").write_text("id,name\n")
    (folder / "nothing.csv").write_text("")
    names = ",".join(f"c{number}" for number in range(WIDE))
    (folder / "wide.csv").write_text(f"{names}\n{','.join('1' for _ in range(WIDE))}\n")
    found = CliRunner().invoke(app, ["import", "files", str(folder), "--out", str(tmp_path / "out"), "--json"])
    assert found.exit_code == 1
    rejects = json.dumps(json.loads(found.stdout)["rejects"])
    assert "people.csv:3" in rejects
    assert "nothing.csv" in rejects
    tables = {table.name: table for table in open_store(tmp_path / "out").get("exports").tables}
    assert {name: table.rows for name, table in tables.items()} == {"people": 2, "nobody": 0, "wide": 1}
    assert len(tables["wide"].columns) == WIDE


def test_an_unknown_dialect_for_all_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text('{"question": "q", "database": "d", "sql": "SELECT 1"}\n')
    assert len(read_questions(file)[0]) == 1
    command = [
        "import",
        "questions",
        str(file),
        "--split",
        "dev",
        "--dialect",
        "oracle",
        "--out",
        str(tmp_path / "out"),
    ]
    error = CliRunner().invoke(app, command).exception
    assert "'oracle' is none of sqlite, postgres, mysql, duckdb" in str(error)
    assert not (tmp_path / "out").exists()

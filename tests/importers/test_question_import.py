"""Questions of others become question sets: benchmark folders and files, clean and dirty."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from tests.importers import dialect_world
from text2sql_rl.cli import app
from text2sql_rl.content import open_content
from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError, LeakError, SandboxError
from text2sql_rl.importers import proof, question_import
from text2sql_rl.importers.benchmark import open_benchmark
from text2sql_rl.importers.proof import prove
from text2sql_rl.importers.question_file import read_questions
from text2sql_rl.importers.question_import import Source, import_questions
from text2sql_rl.importers.question_output import QuestionSummary
from text2sql_rl.prompts import make_style
from text2sql_rl.questions import load_questions
from text2sql_rl.records import Execution, Outcome, Split

QUESTIONS = [
    {"db_id": "world", "question": "How old is Ann?", "query": 'SELECT age FROM singer WHERE name = "Ann"', "sql": {}},
    {"db_id": "world", "question": "Bands?", "query": "SELECT title FROM band", "query_toks": ["SELECT"]},
    {
        "db_id": "world",
        "question": "Someone of 32?",
        "query": "SELECT name FROM singer WHERE age = 32 ORDER BY age LIMIT 1",
    },
    {"db_id": "world", "question": "Nobody?", "query": "SELECT name FROM singer WHERE age > 99"},
    {"db_id": "world", "question": "Delete all", "query": "DELETE FROM singer"},
    {"db_id": "world", "question": "Wrong", "query": "SELECT wrong FROM singer"},
    {"db_id": "moon", "question": "Where?", "query": "SELECT 1"},
    {"db_id": "torn", "question": "Torn?", "query": "SELECT 1"},
    {"db_id": "world", "question": "No SQL"},
    "not an object",
]
REASONS = {"malformed": 2, "not_a_query": 1, "source_fails": 1, "no_database": 1, "broken_database": 1}


def benchmark(root: Path, databases: str = "database", questions: str = "dev.json") -> Path:
    """A folder in Spider's layout, with dirt."""
    folder = root / databases / "world"
    folder.mkdir(parents=True)
    dialect_world.make(folder / "world.sqlite")
    (root / databases / "torn").mkdir()
    (root / databases / "torn" / "torn.sqlite").write_bytes(b"SQLite format 3\0 and then nothing")
    (root / questions).parent.mkdir(parents=True, exist_ok=True)
    (root / questions).write_bytes(b"\xef\xbb\xbf" + json.dumps(QUESTIONS).encode())
    return root


def run(source: Source, out: Path, split: Split = Split.DEV, **more: Any) -> QuestionSummary:
    return import_questions(source, out, split, more.pop("roles", [split.value]), **more)


def source_of(root: Path, split: Split = Split.DEV) -> Source:
    found = open_benchmark(root)
    return Source(files=found.question_files(split), databases=found.databases, describe=found.descriptions)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def state(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_a_benchmark_is_imported_and_every_dropped_question_has_its_reason(tmp_path: Path) -> None:
    root, out = benchmark(tmp_path / "spider"), tmp_path / "out"
    found = CliRunner().invoke(app, ["import", "spider", str(root), "--split", "dev", "--out", str(out), "--json"])
    assert found.exit_code == 0, found.output
    counts = json.loads(found.stdout)
    assert (counts["questions"], counts["imported"], counts["rejected"]) == (10, 4, REASONS)
    assert counts["same_answer"] + counts["ties"] == 4
    assert counts["flags"]["empty"] == 1
    rejects = lines(Path(counts["rejects_file"]))
    assert {one["reason"] for one in rejects} == set(REASONS)
    assert all(one["words"] and one["place"].startswith("dev.json:") for one in rejects)
    content = load_questions(out / "data", DatabaseStore(out / "databases", tmp_path / "cache"))
    first = content.role("dev")[0]
    assert (first.id, first.database, first.gold_sql) == ("dev-1", "world", "SELECT age FROM singer WHERE name = 'Ann'")
    assert lines(out / "imports" / "dev.jsonl")[0]["rules"] == ["quotes"]


def test_a_tie_is_kept_and_flagged(tmp_path: Path) -> None:
    root, out = benchmark(tmp_path / "spider"), tmp_path / "out"
    ties = [
        {"db_id": "world", "question": "x", "query": f"SELECT name FROM singer ORDER BY age = 32 {way} LIMIT 1"}
        for way in ("", "DESC")
    ]
    (root / "dev.json").write_text(json.dumps(ties))
    summary = run(source_of(root), out)
    assert sum(summary.statuses.values()) == 2
    assert not summary.rejected


def test_the_same_import_again_changes_nothing(tmp_path: Path) -> None:
    root, out = benchmark(tmp_path / "spider"), tmp_path / "out"
    run(source_of(root), out)
    before = state(out)
    run(source_of(root), out)
    assert state(out) == before


def test_an_interrupted_import_leaves_no_question(tmp_path: Path) -> None:
    root, out = benchmark(tmp_path / "spider"), tmp_path / "out"

    def interrupt(questions: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(source_of(root), out, advance=interrupt)
    assert [path for path in state(out) if path.startswith(("data/", "imports/"))] == []
    assert run(source_of(root), out).statuses


def test_train_questions_go_to_both_training_sets_with_ids_of_their_own(tmp_path: Path) -> None:
    root, out = benchmark(tmp_path / "spider", questions="train_spider.json"), tmp_path / "out"
    arguments = ["import", "spider", str(root), "--split", "train", "--out", str(out)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    content = load_questions(out / "data")
    assert [one.id for one in content.role("sft")][:2] == ["sft-train_spider-1", "sft-train_spider-2"]
    assert [one.text for one in content.role("sft")] == [one.text for one in content.role("rl")]


def test_a_database_in_two_splits_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    root, out = benchmark(tmp_path / "spider"), tmp_path / "out"
    run(source_of(root), out)
    before = state(out)
    with pytest.raises(LeakError, match="'world' stands in two splits"):
        run(source_of(root), out, Split.HELDOUT)
    assert state(out) == before


def test_a_set_from_elsewhere_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(source_of(benchmark(tmp_path / "one")), out)
    other = source_of(benchmark(tmp_path / "two"))
    with pytest.raises(DataError, match="'dev' is there already, from elsewhere"):
        run(other, out)
    assert run(other, out, replace_others=True).statuses


def test_bird_keeps_evidence_difficulty_and_descriptions(tmp_path: Path) -> None:
    root, out = benchmark(tmp_path / "bird", "dev_databases", "dev_2024/dev.json"), tmp_path / "out"
    entry = {
        "question_id": 7, "db_id": "world", "question": "Old?", "evidence": "old means over 40",
        "SQL": "SELECT name FROM singer WHERE age > 40", "difficulty": "challenging",
    }  # fmt: skip
    (root / "dev_2024" / "dev.json").write_text(json.dumps([entry]))
    described = root / "dev_databases" / "world" / "database_description"
    described.mkdir()
    text = "original_column_name,column_name,column_description,data_format,value_description\n"
    text += "age,,age in ye\u00e4rs,integer,\n"
    (described / "singer.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (described / "band.csv").write_bytes(text.encode("latin-1"))
    found = CliRunner().invoke(app, ["import", "bird", str(root), "--split", "dev", "--out", str(out)])
    assert found.exit_code == 0, found.output
    (question,) = load_questions(out / "data").role("dev")
    assert (question.id, question.evidence, question.hardness) == ("dev-7", "old means over 40", "hard")
    said = json.loads((out / "databases" / "world" / "descriptions.json").read_text(encoding="utf-8"))
    assert said["singer"] == said["band"] == {"age": {"description": "age in yeärs"}}


def test_bird_as_it_is_released(tmp_path: Path) -> None:
    """dev.json beside files of other kinds, databases one folder down, descriptions in whatever encoding."""
    root, out = benchmark(tmp_path / "dev_20240627", "dev_databases", "dev.json"), tmp_path / "out"
    keys = ("question_id", "db_id", "question", "evidence", "SQL", "difficulty")
    entries = [
        (0, "world", "Who is old?", "old refers to age > 40", "SELECT name FROM singer WHERE age > 40", "simple"),
        (1, "world", "How many are there?", "", "SELECT COUNT(`name`) FROM singer", "moderate"),
        (2, "world", "Who sings?", "", "SELECT T1.name FROM singer AS T1 WHERE T1.`age` IS NOT NULL", "challenging"),
    ]
    (root / "dev.json").write_text(json.dumps([dict(zip(keys, entry, strict=True)) for entry in entries]))
    for name in ("dev_tied_append.json", "dev_tables.json"):
        (root / name).write_text("[]")
    (root / "dev.sql").write_text("SELECT 1\tworld\n")
    (root / "dev_databases" / ".DS_Store").write_bytes(b"\0")
    described = root / "dev_databases" / "world" / "database_description"
    described.mkdir()
    header = "original_column_name,column_name,column_description,data_format,value_description"
    (described / "Singer.csv").write_bytes(
        f" {header.replace(',', ' ,')}\r\nage,the age ,\u2013 in years,integer,".encode("cp1252")
        + b'"young: < 30\r\nold: > 40"\r\n'
    )
    (described / "band.csv").write_bytes(f"{header}\ntitle,,the band's title,text,\n".encode("utf-16"))
    (described / "torn.csv").write_bytes(f"{header}\nx,,\0said,text,\n".encode() + b'y,"' + b"z" * 200_000)
    (described / "empty.CSV").write_bytes(b"")
    (described / "._Singer.csv").write_bytes(b"\0\0\0")
    found = CliRunner().invoke(app, ["import", "bird", str(root), "--split", "dev", "--out", str(out), "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["same_answer"] == 3
    content = open_content(out)
    questions = content.questions.role("dev")
    assert [question.hardness for question in questions] == ["easy", "medium", "hard"]
    said = json.loads((out / "databases" / "world" / "descriptions.json").read_text(encoding="utf-8"))
    assert said["Singer"]["age"] == {
        "name": "the age", "description": "\u2013 in years", "values": "young: < 30 old: > 40"
    }  # fmt: skip
    assert said["band"]["title"] == {"description": "the band's title"}
    assert said["torn"]["x"] == {"description": "said"}
    (text,) = {make_style("ddl").prompt(*pair).text for pair in content.pairs(questions[:1])}
    assert "-- the age; \u2013 in years; young: < 30 old: > 40; e.g." in text
    assert "Question: Who is old?\nEvidence: old refers to age > 40\n" in text


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_file_of_questions_with_dialects(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "databases" / "shop"
    folder.mkdir(parents=True)
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, label VARCHAR)")
        connection.execute("INSERT INTO item VALUES (1, 'Ax')")
    rows = [
        ("a", "One?", "duckdb", "SELECT label[1] FROM item"),
        ("b", "Two?", "mysql", "SELECT id FROM item WHERE label LIKE 'a%'"),
        ("c", "Three?", "oracle", "SELECT 1"),
        ("d", "Four?", "postgres", "SELECT nothing FROM item"),
    ]
    file = tmp_path / f"asked.{suffix}"
    if suffix == "jsonl":
        keys = ("id", "question", "dialect", "SQL", "db_id")
        text = "".join(json.dumps(dict(zip(keys, (*row, "shop"), strict=True))) + "\n" for row in rows) + "{broken\n"
    else:
        text = "id,Question,dialect,SQL,database\n" + "".join(
            f'{name},"{asked}",{dialect},"{sql}",shop\n' for name, asked, dialect, sql in rows
        )
        text += "too,short\n"
    file.write_text(text)
    out = tmp_path / "out"
    arguments = ["import", "questions", str(file), "--split", "heldout", "--out", str(out), "--json"]
    found = CliRunner().invoke(app, [*arguments, "--databases", str(tmp_path / "databases")])
    assert found.exit_code == 0, found.output
    counts = json.loads(found.stdout)
    assert (counts["unproved"], counts["rejected"]) == (2, {"malformed": 1, "unknown_dialect": 1, "fails": 1})
    kept = load_questions(out / "data").role("heldout")
    assert [one.gold_sql for one in kept] == ["SELECT label[1] FROM item", "SELECT id FROM item WHERE label ILIKE 'a%'"]
    assert [one.id for one in kept] == ["heldout-asked-a", "heldout-asked-b"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("dev.json", b"[{]", "is not JSON"),
        ("dev.json", b"3", "holds no list of questions"),
        ("dev.jsonl", b"\xff\xfe{}", "is not UTF-8 text"),
        ("dev.csv", b"", "is empty"),
        ("dev.txt", b"hello", "is of no known kind"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        read_questions(tmp_path / name)


def test_a_folder_without_question_files_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no question file of the split heldout .*--questions"):
        source_of(benchmark(tmp_path / "spider"), Split.HELDOUT)


def test_a_part_of_the_questions_is_imported_in_turn_from_each_database(tmp_path: Path) -> None:
    root, out = benchmark(tmp_path / "spider"), tmp_path / "out"
    for name in ("club", "shop"):
        (root / "database" / name).mkdir()
        dialect_world.make(root / "database" / name / f"{name}.sqlite")
    asked = [
        {"db_id": name, "question": f"{name} {number}", "query": f"SELECT {number} FROM singer"}
        for name in ("world", "club", "shop")
        for number in range(5)
    ]
    (root / "dev.json").write_text(json.dumps(asked))
    command = ["import", "spider", str(root), "--split", "dev", "--out", str(out)]
    assert CliRunner().invoke(app, [*command, "--limit", "4"]).exit_code == 0
    texts = [question.text for question in load_questions(out / "data").role("dev")]
    assert texts == ["world 0", "world 1", "club 0", "shop 0"]
    assert CliRunner().invoke(app, [*command, "--without", "world", "--without", "shop"]).exit_code == 0
    assert {question.database for question in load_questions(out / "data").role("dev")} == {"club"}
    rest = ["import", "spider", str(root), "--split", "train", "--questions", "dev.json", "--out", str(out)]
    assert CliRunner().invoke(app, [*rest, "--only", "world", "--only", "shop"]).exit_code == 0
    assert {question.database for question in load_questions(out / "data").role("sft")} == {"world", "shop"}
    with pytest.raises(DataError, match=r"--only: no question asks the database 'moon'"):
        CliRunner().invoke(app, [*rest, "--only", "moon"], catch_exceptions=False)


def test_nothing_imported_is_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"question": "q", "database": "moon", "sql": "SELECT 1"}\n')
    arguments = ["import", "questions", str(file), "--split", "dev", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, arguments).exit_code == 1


def test_a_sandbox_that_cannot_work_rejects_no_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, out = benchmark(tmp_path / "spider"), tmp_path / "out"
    monkeypatch.setattr(proof, "_PAUSES_S", (0.0,))
    monkeypatch.setattr(
        proof.Sandbox, "run", lambda self, jobs: tuple(Execution(outcome=Outcome.FAULT, reason="x") for _ in jobs)
    )
    with pytest.raises(SandboxError, match="the sandbox cannot work"):
        run(source_of(root), out)
    assert not (out / "data" / "dev").exists()


def test_a_slow_original_is_rejected_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, out = benchmark(tmp_path / "spider"), tmp_path / "out"
    slow = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    (root / "dev.json").write_text(json.dumps([{"db_id": "world", "question": "q", "query": slow}]))
    monkeypatch.setattr(question_import, "prove", partial(prove, source_timeout_s=0.2))
    summary = run(source_of(root), out)
    assert summary.rejected == {"source_timeout": 1}

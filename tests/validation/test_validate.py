from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import REPOSITORY
from text2sql_rl.cli import app
from text2sql_rl.content import open_content
from text2sql_rl.errors import DataError
from text2sql_rl.exclusions import FLAGS
from text2sql_rl.records import Question, Split
from text2sql_rl.scoring import load_rule
from text2sql_rl.validation import golds, read_material, validate
from text2sql_rl.validation.across import near_duplicates, shared_databases
from text2sql_rl.validation.report import Report

SCHEMA = "CREATE TABLE horse (id INTEGER PRIMARY KEY, name VARCHAR, yard VARCHAR, fee INTEGER, sold DATE);\n"
ROWS = (
    "id,name,yard,fee,sold\n1,Ada,ASH,10,2020-01-01\n2,Bea,ASH,20,2020-02-01\n3,Cob,BOG,20,\n"
    "4,Dan,BOG,5,2021-01-01\n5,Eve,ELM,0,2019-05-05\n"
)
# id -> gold; what is wrong with each stands in the tests below.
GOLDS = {
    "fine": "SELECT name FROM horse WHERE fee < 20 AND yard = 'ASH'",
    "empty": "SELECT name FROM horse WHERE fee > 90",
    "zero": "SELECT count(*) FROM horse WHERE fee > 90",
    "tie": "SELECT name FROM horse ORDER BY fee DESC LIMIT 1",
    "free": "SELECT name FROM horse LIMIT 2",
    "list": "SELECT yard, string_agg(name) FROM horse GROUP BY yard",
    "clock": "SELECT name FROM horse WHERE sold < current_date",
    "constant": "SELECT 42",
    "dice": "SELECT any_value(name) FROM horse",
    "dml": "DELETE FROM horse",
    "missing": "SELECT colour FROM horse",
}


def root_of(path: Path, sets: dict[str, list[dict[str, str]]], databases: tuple[str, ...] = ("stable",)) -> Path:
    for name in databases:
        (path / "databases" / name / "rows").mkdir(parents=True)
        (path / "databases" / name / "schema.sql").write_text(SCHEMA)
        (path / "databases" / name / "rows" / "horse.csv").write_text(ROWS)
    for place, records in sets.items():
        file = path / "data" / f"{place}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
    shutil.copytree(REPOSITORY / "rewards", path / "rewards")
    return path


def record(name: str, sql: str, text: str = "", database: str = "stable") -> dict[str, str]:
    return {"id": name, "database": database, "question": text or f"What is it about {name}?", "gold_sql": sql}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    records = [record(name, sql) for name, sql in GOLDS.items()]
    records += [record("lost", "SELECT 1", database="nowhere"), record("fine", GOLDS["fine"])]
    root = root_of(tmp_path_factory.mktemp("content"), {"train/rl": records})
    seen: list[int] = []
    found = validate(read_material(str(root)), load_rule("bound-v1"), root / ".cache", done=seen.append)
    assert seen == [len(records)]
    return found


def test_what_each_gold_comes_to(report: Report) -> None:
    found = [(one.question.id, one.reject) for one in report.findings]
    assert found == [
        ("fine", ""),
        ("empty", ""),
        ("zero", ""),
        ("tie", ""),
        ("free", ""),
        ("list", ""),
        ("clock", ""),
        ("constant", ""),
        ("dice", "not_deterministic"),
        ("dml", "refused"),
        ("missing", "error"),
        ("lost", "no_database"),
        ("fine", "repeated_id"),
    ]


def test_what_each_gold_is_flagged_for(report: Report) -> None:
    flags = {one.question.id: set(one.flags) - {"mutants_pass"} for one in report.findings[:8]}
    assert flags == {
        "fine": set(),
        "empty": {"empty"},
        "zero": {"trivial"},
        "tie": {"tie_cut"},
        "free": {"unordered_limit"},
        "list": {"unordered_aggregate"},
        "clock": {"clock"},
        "constant": {"constant"},
    }
    fine, empty = report.findings[:2]
    assert fine.mutants > fine.told > fine.mutants / 2
    assert "mutants_pass" in empty.flags


def test_counts_and_lines_say_the_same(report: Report) -> None:
    counts = report.as_json()
    assert (counts["questions"], counts["rejected"]) == (13, 5)
    assert counts["rejects"]["refused"] == 1
    assert counts["flags"]["tie_cut"] == 1
    assert set(counts["flags"]) <= set(FLAGS)
    text = "\n".join(report.lines())
    assert "13 questions checked under rule bound-v1" in text
    assert "missing (stable) error: " in text
    assert "colour" in text


def test_what_was_counted_is_not_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = root_of(tmp_path / "root", {"dev/dev": [record("fine", GOLDS["fine"]), record("tie", GOLDS["tie"])]})
    rule, material = load_rule("bound-v1"), read_material(str(root))
    first = validate(material, rule, tmp_path / "cache")
    journal = tmp_path / "cache" / "validation" / "mutants.jsonl"
    journal.write_text(journal.read_text() + '["half a li')
    monkeypatch.setattr(golds, "named_mutants", None)
    assert validate(material, rule, tmp_path / "cache").findings == first.findings


def question(name: str, text: str, split: Split, database: str = "d") -> Question:
    return Question(id=name, database=database, text=text, gold_sql="SELECT 1", split=split, role=split.value)


def test_near_duplicates_are_flagged_on_the_side_of_training() -> None:
    sets = [
        question("a", "List the names of all horses that live in Ash yard", Split.TRAIN),
        question("b", "how many horses are there", Split.TRAIN),
        question("c", "list the names of ALL horses, that live in Ash yard!", Split.HELDOUT),
        question("d", "List the names of all horses that live in Bog yard", Split.DEV),
        question("e", "List the names of all horses that live in Ash yard.", Split.TRAIN),
        question("f", "How many horses are there?", Split.TRAIN),
    ]
    assert near_duplicates(sets) == {("train", "a"): "c", ("train", "e"): "c"}


def test_databases_of_two_splits_are_named() -> None:
    sets = [
        question("a", "x", Split.HELDOUT, "p"),
        question("b", "y", Split.TRAIN, "p"),
        question("c", "z", Split.TRAIN, "q"),
    ]
    assert shared_databases(sets) == {"p": ("train", "heldout")}


def test_the_command_and_what_it_excludes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "Which horses of the yard called Ash have a fee below twenty"
    sets = {
        "train/rl": [record("a", GOLDS["fine"], asked), record("b", GOLDS["dml"]), record("c", GOLDS["tie"])],
        "dev/dev": [record("d", "SELECT id FROM horse WHERE fee = 20", database="other")],
        "heldout/heldout": [record("e", GOLDS["fine"], asked + "?", database="third")],
    }
    root = root_of(tmp_path / "root", sets, ("stable", "other", "third"))
    monkeypatch.setenv("TEXT2SQL_ROOT", str(root))
    flags = root / "data" / "flags.jsonl"
    ran = CliRunner().invoke(app, ["validate", str(root), "--out", str(flags), "--json"])
    counts = json.loads(ran.stdout)
    assert (ran.exit_code, counts["questions"], counts["rejects"]) == (1, 5, {"refused": 1})
    assert counts["flags"] == {"tie_cut": 1, "near_duplicate": 1} | (
        {"mutants_pass": counts["flags"]["mutants_pass"]} if "mutants_pass" in counts["flags"] else {}
    )
    marked = {line["id"]: line for line in map(json.loads, flags.read_text().splitlines())}
    assert (marked["a"]["near"], marked["b"]["reject"]) == ("e", "refused")
    assert CliRunner().invoke(app, ["validate", "dev"]).exit_code == 0
    by_file = CliRunner().invoke(app, ["validate", str(root / "data" / "train" / "rl.jsonl"), "--json"])
    assert json.loads(by_file.stdout)["flags"]["near_duplicate"] == 1
    (root / "data" / "exclude.yaml").write_text("file: flags.jsonl\nflags: [near_duplicate]\n")
    assert [one.id for one in open_content(root).questions.role("rl")] == ["c"]
    (root / "data" / "exclude.yaml").write_text("file: flags.jsonl\nflags: [tie_cut]\nrejected: false\n")
    assert [one.id for one in open_content(root).questions.role("rl")] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("file: [", "is not YAML"),
        ("file: flags.jsonl\nflags: [empty]\nflags: []", "exclude.yaml: .*the key 'flags' is there twice"),
        ("flags: [empty]", "must name the file of flags"),
        ("file: flags.jsonl\nflag: [empty]", "unknown key 'flag'"),
        ("file: flags.jsonl\nflags: [ties]", "must be a list of flags"),
        ("file: flags.jsonl\nrejected: 3", "must be true or false"),
        ("file: none.jsonl", "cannot be read"),
        ("file: bad.jsonl", "bad.jsonl: line 1: is no line of flags"),
    ],
)
def test_a_wrong_exclusion_is_one_clear_error(tmp_path: Path, text: str, problem: str) -> None:
    root = root_of(tmp_path / "root", {"dev/dev": [record("d", GOLDS["fine"])]})
    (root / "data" / "flags.jsonl").write_text("")
    (root / "data" / "bad.jsonl").write_text("{}\n")
    (root / "data" / "exclude.yaml").write_text(text)
    with pytest.raises(DataError, match=problem):
        open_content(root)


def test_data_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = root_of(tmp_path / "root", {"dev/dev": [record("d", GOLDS["fine"])], "train/rl": []})
    monkeypatch.setenv("TEXT2SQL_ROOT", str(root))
    (tmp_path / "empty.jsonl").write_text("\n")
    for data, problem in {
        "nothing": "there is no question set 'nothing'",
        str(tmp_path): "holds no data/ and databases/",
        str(tmp_path / "empty.jsonl"): "holds no question",
        str(tmp_path / "x.jsonl"): "cannot be read",
        "rl": "holds no question",
    }.items():
        with pytest.raises(DataError, match=problem):
            read_material(data)

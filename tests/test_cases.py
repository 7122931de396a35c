"""Labelled cases: outcomes, the report, and what a wrong file says; the shared cases where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from text2sql_rl.cases import run_cases
from text2sql_rl.errors import DataError

SETUP = "CREATE TABLE emp(id INTEGER PRIMARY KEY, name VARCHAR); INSERT INTO emp VALUES (1,'Ann'),(2,'Bob'),(3,'Bob');"
GOLDEN = Path(__file__).parent / "golden"
SHARED = Path(__file__).parents[2] / "shared" / "cases" / "verifier.jsonl"


def write(path: Path, *cases: dict[str, Any]) -> Path:
    lines = [json.dumps({"id": f"c{at}", "setup_sql": SETUP, **case}) for at, case in enumerate(cases)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_every_outcome_and_the_report(tmp_path: Path) -> None:
    gold = "SELECT name FROM emp"
    file = write(
        tmp_path / "cases.jsonl",
        {"gold_sql": gold, "pred_sql": "SELECT e.name FROM emp AS e;", "expected": "equivalent"},
        {"gold_sql": gold, "completion": "```sql\nSELECT DISTINCT name FROM emp\n```", "expected": "different"},
        {"gold_sql": gold, "pred_sql": "DROP TABLE emp", "expected": "unsafe"},
        {"gold_sql": gold, "pred_sql": "SELECT nme FROM emp", "expected": ["error"]},
        {"gold_sql": gold, "expected": "error"},
        {"gold_sql": gold, "pred_sql": "SELECT range FROM range(1000000000)", "expected": "stopped"},
        {"gold_sql": "SELECT list(name) FROM emp", "pred_sql": "SELECT list(name ORDER BY id DESC) FROM emp",
         "expected": "ambiguous"},
        {"gold_sql": "SELECT count(*) FROM emp WHERE name = 'Bob'", "pred_sql": "SELECT count(*) - 1 FROM emp",
         "expected": "different"},
        {"gold_sql": gold, "pred_sql": gold},
        {"gold_sql": gold, "pred_sql": gold, "expected": "different"},
    )  # fmt: skip
    report = run_cases(file)
    assert [case.outcome for case in report.cases] == [
        "equivalent", "different", "unsafe", "error", "error", "stopped", "ambiguous", "different", "equivalent",
        "equivalent",
    ]  # fmt: skip
    assert all(case.reason for case in report.cases)
    assert [case.right for case in report.cases] == [True] * 8 + [None, False]
    found = report.as_json()
    assert (found["total"], found["missed"]) == (10, 1)
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(found, sort_keys=True))
    text = "\n".join(report.lines())
    assert "MISSED equivalent c9 (expected different)" in " ".join(text.split())
    assert "10 cases, 1 missed" in text


def test_a_database_file_serves_as_rows(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "emp.duckdb")) as connection:
        connection.execute(SETUP)
    case = {"setup_sql": "", "database": "emp.duckdb", "gold_sql": "SELECT count(*) FROM emp", "pred_sql": "SELECT 3"}
    report = run_cases(write(tmp_path / "cases.jsonl", {**case, "expected": "different"}))
    assert report.missed == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("\n \n", "holds no case"),
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"id": "a", "setup_sql": "SELECT 1"}', "gold_sql"),
        ('{"id": "a", "gold_sql": "SELECT 1"}', "its rows"),
        ('{"id": "a", "gold_sql": "SELECT 1", "setup_sql": "x", "database": "y"}', "its rows"),
        ('{"id": "a", "gold_sql": "SELECT 1", "setup_sql": "SELECT 1", "pred_sql": 3}', "not text"),
        ('{"id": "a", "gold_sql": "SELECT 1", "setup_sql": "SELECT 1", "expected": "fine"}', "'fine' is unknown"),
        ('{"id": "a", "gold_sql": "SELECT 1", "setup_sql": "CREATE nonsense"}', "no database"),
        ('{"id": "a", "gold_sql": "SELECT 1", "database": "missing.duckdb"}', "no database"),
        (
            '{"id": "a", "gold_sql": "SELECT 1", "setup_sql": "SELECT 1"}\n' * 2,
            "line 2: id .a. is already",
        ),
    ],
)
def test_a_wrong_file_says_what_and_where(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(line, encoding="utf-8")
    with pytest.raises(DataError, match=words) as caught:
        run_cases(file)
    assert str(file) in str(caught.value)


def test_a_byte_order_mark_is_no_fault_and_progress_is_told(tmp_path: Path) -> None:
    gold = "SELECT count(*) FROM emp"
    file = write(tmp_path / "cases.jsonl", *[{"gold_sql": gold, "pred_sql": gold, "expected": "equivalent"}] * 2)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    told: list[tuple[int, int]] = []
    assert run_cases(file, instances=0, progress=lambda *counts: told.append(counts)).missed == 0
    assert told == [(1, 2), (2, 2)]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        run_cases(tmp_path / "none.jsonl")


@pytest.mark.skipif(not SHARED.exists(), reason="the shared labelled cases are not beside this checkout")
def test_shared_cases_without_their_time_bombs(tmp_path: Path) -> None:
    lines = SHARED.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if json.loads(line)["expected"] in ("equivalent", "ambiguous", "unsafe", "error")]
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join(kept), encoding="utf-8")
    report = run_cases(file, instances=0)
    assert [case.id for case in report.cases if not case.right] == []


def test_golden_cases() -> None:
    """Forms, order, ties, values of every type, what is unsafe: on the given rows."""
    report = run_cases(GOLDEN / "verifier.jsonl", instances=0)
    assert [(case.id, case.outcome, case.reason) for case in report.cases if not case.right] == []


def test_golden_cases_of_luck() -> None:
    """Candidates that are right on the given rows by luck, beside some that are right on all."""
    report = run_cases(GOLDEN / "luck.jsonl", instances=4)
    assert [(case.id, case.outcome, case.reason) for case in report.cases if not case.right] == []

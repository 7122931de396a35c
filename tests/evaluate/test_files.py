"""Prediction files in and out: nothing is ever scored against another question's gold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.errors import DataError
from text2sql_rl.evaluate.junit import write_junit
from text2sql_rl.evaluate.official import NO_ANSWER, one_line, write_official
from text2sql_rl.evaluate.prediction_files import read_predictions
from text2sql_rl.records import Question, Split

QUESTIONS = [
    Question(id=f"q{at}", database=("reef", "kite", "reef")[at], text="?", gold_sql="SELECT 1", split=Split.HELDOUT,
             role="heldout")
    for at in range(3)
]  # fmt: skip


def read(folder: Path, name: str, text: str) -> list[tuple[str, ...]]:
    (folder / name).write_text(text, encoding="utf-8")
    return read_predictions(folder / name, QUESTIONS)


def lines(*records: Any) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def test_jsonl_pairs_by_id_in_any_order(tmp_path: Path) -> None:
    text = lines({"id": "q2", "completion": "C"}, {"id": "q0", "completion": ""}, {"id": "q1", "completion": "B"})
    assert read(tmp_path, "p.jsonl", text + "\n") == [("",), ("B",), ("C",)]
    several = lines(*({"id": f"q{at}", "completions": [str(at), "x"]} for at in range(3)))
    assert read(tmp_path, "p.jsonl", several) == [("0", "x"), ("1", "x"), ("2", "x")]


def test_bird_pairs_by_key(tmp_path: Path) -> None:
    mark = "\t----- bird -----\t"
    content = {"2": f"C{mark}reef", "0": f"A{mark}reef", "1": "B"}
    assert read(tmp_path, "p.json", json.dumps(content)) == [("A",), ("B",), ("C",)]
    assert read(tmp_path, "p.json", json.dumps({"q1": "B", "q0": "A", "q2": "C"})) == [("A",), ("B",), ("C",)]


def test_spider_pairs_by_line(tmp_path: Path) -> None:
    assert read(tmp_path, "p.sql", "A\treef\nB\tkite\n\n") == [("A",), ("B",), ("",)]
    assert read(tmp_path, "p.txt", "A\r\nB '\t'\r\nC") == [("A",), ("B '\t'",), ("C",)]


GOOD = [{"id": f"q{at}", "completion": "x"} for at in range(3)]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.jsonl", lines(*GOOD[:2]), "p.jsonl: has no prediction for 'q2'"),
        ("p.jsonl", lines(*GOOD, {"id": "q9", "completion": "x"}), "predicts what is no question here: 'q9'"),
        ("p.jsonl", lines(*GOOD, GOOD[0]), "p.jsonl: line 4: answers question 'q0' again"),
        ("p.jsonl", lines(*GOOD[:2], {"id": "q2", "sql": "x"}), "line 3: unknown key 'sql'"),
        ("p.jsonl", lines(*GOOD[:2], {"id": "q2"}), "line 3: has not one of completion and completions"),
        ("p.jsonl", lines(*GOOD[:2], {"id": "q2", "completions": []}), "line 3: has not one of"),
        ("p.jsonl", lines(*GOOD[:2], {"id": "q2", "completion": None}), "line 3, completion: is no text"),
        ("p.jsonl", lines(*GOOD[:2], {"id": "q2", "completions": ["a", "b"]}), "'q1' has 1 completions and question"),
        ("p.jsonl", lines(*GOOD[:2]) + '{"id": "q2"', "line 3: is not JSON"),
        ("p.jsonl", "[1]\n", "line 1: is no object with a text `id`"),
        ("p.json", '{"0": "a", "1": "b"}', "has no prediction for '2'"),
        ("p.json", '{"0": "a", "1": "b", "2": "c", "3": "d"}', "predicts what is no question here: '3'"),
        ("p.json", '{"0": "a", "1": "b", "1": "c", "2": "d"}', "key '1': is there twice"),
        ("p.json", '{"0": "a", "1": "b\\t----- bird -----\\treef", "2": "c"}', "is for database 'reef', but"),
        ("p.json", '["a"]', "is no JSON object"),
        ("p.json", '{"0": 1, "1": "b", "2": "c"}', "key '0': is no text"),
        ("p.json", "{}", "has no prediction for '0', '1', '2'"),
        ("p.sql", "A\nB\n", "has 2 lines for 3 questions"),
        ("p.sql", "A\nB\nC\n\n", "has 4 lines, 1 of them empty, for 3 questions"),
        ("p.sql", "", "has 0 lines for 3 questions"),
        ("p.sql", "A\nB\treef\nC\n", "line 2: is for database 'reef', but question 'q1' is about 'kite'"),
        ("p.csv", "A\nB\nC\n", "has no ending that tells its format"),
    ],
)  # fmt: skip
def test_what_does_not_answer_exactly_these_questions_is_refused(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, name, text)
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_predictions(tmp_path / "none.sql", QUESTIONS)
    (tmp_path / "p.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="is not UTF-8"):
        read_predictions(tmp_path / "p.sql", QUESTIONS)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    candidates = ["SELECT a -- the name\nFROM t;", None, "SELECT 'x\ty'"]
    write_official(tmp_path, QUESTIONS, candidates)
    expected = [("SELECT a FROM t",), (NO_ANSWER,), ("SELECT 'x y'",)]
    assert read_predictions(tmp_path / "spider.sql", QUESTIONS) == expected
    assert read_predictions(tmp_path / "bird.json", QUESTIONS) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 -- one\n + 1",
        "SELECT /* a\nb */ 'it''s -- no comment', \"from\"\nFROM (VALUES (1)) t(\"from\")",
        "SELECT\n1.5e1::INT,\n[1, 2][1], 'a' || 'b', 3 >= 2, {'k': 1}.k",
        "SELECT $$--$$,\n x FROM (SELECT 1 AS x)",
    ],
)
def test_one_line_means_the_same(sql: str) -> None:
    line = one_line(sql)
    assert not set("\n\r\t") & set(line)
    assert duckdb.execute(line).fetchall() == duckdb.execute(sql).fetchall()


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_any_text_becomes_one_line(text: str) -> None:
    line = one_line(text)
    assert line.strip()
    assert len(line.splitlines()) == 1 or not set("\n\r\t") & set(line)
    line.encode("utf-8")


def test_junit_holds_what_models_write(tmp_path: Path) -> None:
    row = {"role": "heldout", "database": "reef", "question": "a < b & c?", "gold_sql": "SELECT 1", "sample": 0,
           "candidate_sql": "SELECT ']]>\x00\x1b'", "cause": "wrong", "reason": "other <values>"}  # fmt: skip
    rows = [
        {**row, "question_id": "q0", "scored": True, "equivalent": True},
        {**row, "question_id": "q1", "scored": True, "equivalent": False},
        {**row, "question_id": "q2", "scored": False, "equivalent": False},
        {**row, "question_id": "q2", "scored": True, "equivalent": False, "sample": 1},
    ]
    numbers = {"accuracy": 0.5, "ci95": [0.0, 1.0]}
    results = {"source": {"name": "m"}, "warnings": ["LEAK ALLOWED: a"], "roles": {"heldout": numbers}}
    write_junit(tmp_path / "j.xml", rows, results, 0.6)
    (suite,) = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "2", "1")
    names = [case.get("name") for case in suite.findall("testcase")]
    assert names == ["accuracy >= 0.6", "q0", "q1", "q2"]
    failure = suite.findall("testcase/failure")[1]
    assert (failure.get("type"), failure.get("message")) == ("wrong", "other <values>")
    assert failure.text is not None
    assert "a < b & c?" in failure.text
    assert "LEAK ALLOWED: a" in [one.get("value") for one in suite.findall("properties/property")]

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError, LeakError
from text2sql_rl.questions import dump_line, load_file, load_questions
from text2sql_rl.records import Question, Split

ROOT = Path(__file__).resolve().parent.parent


def line(**changes: object) -> str:
    record = {"id": "q1", "database": "stable", "question": "How many horses?", "gold_sql": "SELECT 1", **changes}
    return json.dumps({key: value for key, value in record.items() if value is not None}) + "\n"


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_folder_is_the_split_and_stem_the_role(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        train__rl=line(shape="count_all", hardness="easy") + "\n" + line(id="q2"),
        heldout__handwritten=line(id="h1", database="opera"),
    )
    questions = load_questions(root)
    assert questions.roles() == ("rl", "handwritten")
    assert [q.id for q in questions.role("rl")] == ["q1", "q2"]
    first = questions.role("rl")[0]
    assert (first.split, first.role, first.shape, first.hardness) == (Split.TRAIN, "rl", "count_all", "easy")
    assert questions.role("rl")[1].hardness == "unknown"
    assert questions.databases(Split.HELDOUT) == ("opera",)
    with pytest.raises(DataError, match="there is no question set 'dev'"):
        questions.role("dev")


@pytest.mark.parametrize(("other"), ["dev__dev", "heldout__heldout"])
def test_a_database_in_two_splits_is_refused(tmp_path: Path, other: str) -> None:
    root = write(tmp_path, train__sft=line(), **{other: line(id="q2", question="Other?")})
    with pytest.raises(LeakError, match=r"database 'stable' stands in two splits: .*q1.*q2"):
        load_questions(root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"rl\.jsonl: line 1: is not JSON"),
        ("[1]\n", r"line 1: is not a JSON object"),
        (line() + line(id=None), r"line 2: the key 'id' is missing"),
        (line(gold_sql=None), r"line 1: the key 'gold_sql' is missing"),
        (line(question="  "), r"line 1, question: must be a text that is not empty"),
        (line(database=7), r"line 1, database: must be a text"),
        (line(question="how \ud800"), r"line 1, question: holds half a character"),
        (line(sql="SELECT 1"), r"line 1: unknown key 'sql'"),
        (line() + line(), r"id: the id 'q1' is used twice \(rl and rl\)"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_questions(write(tmp_path, train__rl=text))


def test_missing_and_misplaced_sets_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no question set"):
        load_questions(tmp_path)
    with pytest.raises(DataError, match="is not a folder"):
        load_questions(tmp_path / "nowhere")
    with pytest.raises(DataError, match="cannot be read"):
        load_file(tmp_path / "no.jsonl", Split.TRAIN)
    (tmp_path / "latin.jsonl").write_bytes(b"\xe9")
    with pytest.raises(DataError, match="is not UTF-8"):
        load_file(tmp_path / "latin.jsonl", Split.TRAIN)
    with pytest.raises(DataError, match="test: is not a split"):
        load_questions(write(tmp_path, test__rl=line()))


def test_one_role_in_two_splits_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, train__rl=line(), dev__rl=line(id="q2", database="opera"))
    with pytest.raises(DataError, match="'rl' stands in two splits"):
        load_questions(root)


def test_an_unknown_database_is_refused_where_a_store_is_given(tmp_path: Path) -> None:
    (tmp_path / "databases").mkdir()
    root = write(tmp_path / "data", train__rl=line())
    with pytest.raises(DataError, match=r"rl\.jsonl: database: question q1 of rl names the unknown database 'stable'"):
        load_questions(root, DatabaseStore(tmp_path / "databases", tmp_path / "cache"))


texts = st.text(min_size=1, max_size=20).filter(str.strip).filter(lambda t: t.isprintable())


@settings(max_examples=50, deadline=None)
@given(texts, texts, texts, st.sampled_from(["", "count_all"]), st.sampled_from(["unknown", "hard"]))
def test_a_dumped_question_comes_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, sql: str, name: str, shape: str, hardness: str
) -> None:
    question = Question(
        id="q", database=name, text=text, gold_sql=sql, split=Split.DEV, role="dev", shape=shape, hardness=hardness
    )
    path = tmp_path_factory.mktemp("q") / "dev.jsonl"
    path.write_text(dump_line(question) + "\n", encoding="utf-8")
    assert load_file(path, Split.DEV) == (question,)


def test_the_released_sets_keep_the_wall() -> None:
    store = DatabaseStore(ROOT / "databases", ROOT / ".cache" / "databases")
    questions = load_questions(ROOT / "data", store)
    sizes = {role: len(questions.role(role)) for role in questions.roles()}
    assert {r: n for r, n in sizes.items() if r != "handwritten"} == {
        "sft": 800,
        "rl": 6000,
        "dev": 240,
        "heldout": 800,
    }
    assert {split: len(questions.databases(split)) for split in Split} == {"train": 26, "dev": 4, "heldout": 10}
    texts = Counter(" ".join(q.text.lower().split()) for role in sizes for q in questions.role(role))
    assert [text for text, times in texts.items() if times > 1] == []

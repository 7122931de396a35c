from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import text2sql_rl.synthesis as synthesis
from text2sql_rl.databases import DatabaseStore, open_read_only
from text2sql_rl.errors import DataError, RunError
from text2sql_rl.questions import load_file, load_questions
from text2sql_rl.records import Database, Question, Split
from text2sql_rl.synthesis import synthesize, synthesize_to_file
from text2sql_rl.synthesis.sets import load_recipe, write_sets
from text2sql_rl.synthesis.shapes import SHAPES

GOLDEN = Path(__file__).with_name("golden.txt")


@pytest.fixture(scope="module")
def questions(stable: Database) -> list[Question]:
    return synthesize(stable, 120, 3)


def test_one_question_of_each_shape_reads_well(stable: Database) -> None:
    """The golden file is for people to read; TEXT2SQL_GOLDEN=1 writes it anew."""
    found = synthesize(stable, len(SHAPES), 1, wording="common")
    first = {q.shape: q for q in reversed(found)}
    text = "".join(f"{name}\n  {first[name].text}\n  {first[name].gold_sql}\n" for name in sorted(first))
    if os.environ.get("TEXT2SQL_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_nearly_every_shape_is_found_evenly(questions: list[Question]) -> None:
    counts = Counter(q.shape for q in questions)
    assert len(questions) == 120
    assert len(counts) >= 80
    assert max(counts.values()) <= 2


def test_texts_and_ids_are_unique_and_a_gold_comes_at_most_twice(questions: list[Question]) -> None:
    words = Counter(" ".join(sorted(re.findall(r"\w+", q.text.lower()))) for q in questions)
    assert max(words.values()) == 1
    assert len({q.id for q in questions}) == len(questions)
    assert max(Counter(q.gold_sql for q in questions).values()) <= 2


def test_golds_answer_with_something_and_always_the_same(stable: Database, questions: list[Question]) -> None:
    with open_read_only(stable.instances[0].path) as connection:
        for question in questions:
            first, again = (connection.execute(question.gold_sql).fetchall() for _ in range(2))
            assert first == again
            assert any(value is not None for row in first for value in row), question


def test_questions_hold_the_literals_of_their_gold(questions: list[Question]) -> None:
    for question in questions:
        for text in re.findall(r"'((?:[^']|'')*)'", question.gold_sql):
            assert text.replace("''", "'").strip("%") in question.text, question


def test_no_hole_of_a_form_is_left(questions: list[Question]) -> None:
    assert [q.text for q in questions if re.search(r"[{}\[\]|]|<\w+>|  | [?.,]", q.text)] == []


def test_equal_column_names_are_told_apart(questions: list[Question]) -> None:
    filters = [q for q in questions if q.shape == "join_filter" and re.search(r"yard\.name = ", q.gold_sql)]
    assert all("yard name" in q.text for q in filters)
    assert any(re.search(r"\bname\b", q.text) for q in questions)


def test_sql_is_plain(questions: list[Question]) -> None:
    for question in questions:
        joins = " INNER JOIN " in question.gold_sql
        selected = question.gold_sql.split(" FROM ")[0]
        assert " AS " not in question.gold_sql
        assert '"' not in question.gold_sql
        if joins:
            assert "." in selected or "COUNT(*)" in selected


def test_the_same_seed_gives_the_same_and_another_gives_others(stable: Database) -> None:
    one, again, other = (synthesize(stable, 10, seed) for seed in (5, 5, 6))
    assert one == again
    assert {q.text for q in one} != {q.text for q in other}


def test_taken_texts_do_not_come_again(stable: Database) -> None:
    first = synthesize(stable, 15, 5, shapes=["count_all", "average", "distinct"])
    second = synthesize(stable, 15, 5, shapes=["count_all", "average", "distinct"], taken=[q.text for q in first])
    assert not {q.text.lower() for q in first} & {q.text.lower() for q in second}
    assert {q.shape for q in second} <= {"count_all", "average", "distinct"}


def test_odd_names_are_quoted_and_odd_values_left_alone(odd: Database) -> None:
    found = synthesize(odd, 60, 1)
    assert len(found) == 60
    tables = Counter(name for q in found for name in ('"Order Details"', '"9lives"', '"日本"') if name in q.gold_sql)
    assert min(tables[name] for name in ('"Order Details"', '"9lives"', '"日本"')) > 0
    assert not [q for q in found if "nan" in q.gold_sql or "tags" in q.gold_sql or "empty_one" in q.gold_sql]
    with open_read_only(odd.instances[0].path) as connection:
        for question in found:
            assert connection.execute(question.gold_sql).fetchall()


def test_a_database_that_holds_little_gives_little(tmp_path: Path) -> None:
    for name, sql in (("none", "CREATE TABLE a (x INTEGER)"), ("one", "CREATE TABLE a AS SELECT 1 AS x")):
        (tmp_path / name).mkdir()
        with duckdb.connect(str(tmp_path / name / f"{name}.duckdb")) as connection:
            connection.execute(sql)
    store = DatabaseStore(tmp_path, tmp_path / "cache")
    assert synthesize(store.get("none"), 5, 0) == []
    assert {q.gold_sql for q in synthesize(store.get("one"), 50, 0)} <= {"SELECT COUNT(*) FROM a", "SELECT x FROM a"}
    with pytest.raises(DataError, match=r"hold only \d+ of 500 questions"):
        synthesize_to_file(store, ["none", "one"], tmp_path / "out.jsonl", 500, 0)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_is_complete_loadable_and_of_its_folder(small_store: DatabaseStore, tmp_path: Path) -> None:
    out = tmp_path / "dev" / "mine.jsonl"
    assert synthesize_to_file(small_store, ["stable", "odd-names"], out, 12, 2) == 12
    found = load_file(out, Split.DEV)
    assert Counter(q.database for q in found) == {"stable": 6, "odd-names": 6}
    assert all(q.id.startswith("mine-") for q in found)
    assert [p.name for p in out.parent.iterdir()] == ["mine.jsonl"]


def test_an_interrupted_file_continues(
    small_store: DatabaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "train" / "rl.jsonl", tmp_path / "whole" / "rl.jsonl"
    original, asked = synthesis.synthesize, []

    def interrupted(database: Database, *args: object, **options: object) -> list[Question]:
        asked.append(database.name)
        if database.name == "odd-names" and len(asked) == 2:
            raise KeyboardInterrupt
        return original(database, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(synthesis, "synthesize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        synthesize_to_file(small_store, ["stable", "odd-names"], out, 8, 2)
    assert not out.exists()
    synthesize_to_file(small_store, ["stable", "odd-names"], out, 8, 2)
    assert asked == ["stable", "odd-names", "odd-names"]
    synthesize_to_file(small_store, ["stable", "odd-names"], whole, 8, 2)
    assert out.read_bytes() == whole.read_bytes()


def test_what_cannot_be_done_is_named(small_store: DatabaseStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        synthesize_to_file(small_store, ["stable"], tmp_path / "file" / "rl.jsonl", 2, 0)
    with pytest.raises(DataError, match="unknown shapes: nope"):
        synthesize_to_file(small_store, ["stable"], tmp_path / "rl.jsonl", 2, 0, shapes=["nope"])
    with pytest.raises(DataError, match="at least one database"):
        synthesize_to_file(small_store, [], tmp_path / "rl.jsonl", 2, 0)


RECIPE = """
seed: 1
groups: {far: [odd-names], near: [stable]}
sets:
  - {file: heldout/heldout.jsonl, group: far, count: 20, wording: all}
  - {file: train/sft.jsonl, group: near, count: 30, wording: common, rare_each: 1}
  - {file: train/rl.jsonl, group: near, count: 20, wording: all}
"""


def test_sets_follow_their_recipe(small_store: DatabaseStore, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    recipe = load_recipe(tmp_path / "recipe.yaml")
    assert sum(write_sets(small_store, tmp_path / "data", recipe).values()) == 70
    sets = load_questions(tmp_path / "data", small_store)
    rare = {shape.name for shape in SHAPES if shape.rare}
    assert max(Counter(q.shape for q in sets.role("sft") if q.shape in rare).values()) == 1
    texts = [q.text.lower() for role in sets.roles() for q in sets.role(role)]
    assert len(set(texts)) == len(texts) == 70
    write_sets(small_store, tmp_path / "again", recipe)
    for plan in recipe.sets:
        assert (tmp_path / "again" / plan.file).read_bytes() == (tmp_path / "data" / plan.file).read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("group: far,", "group: up,"), "there is no group 'up'"),
        (("count: 20", "count: 0"), r"sets\.0\.count"),
        (("seed: 1", "seed: 1\nextra: 2"), "extra"),
        (("seed: 1", "seed: ["), "is not YAML"),
        (("heldout/heldout", "test/heldout"), r"sets\.0\.file"),
    ],
)
def test_a_wrong_recipe_is_named(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace(*change))
    with pytest.raises(DataError, match=message):
        load_recipe(tmp_path / "recipe.yaml")


def test_a_set_that_falls_short_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with duckdb.connect(str(tmp_path / "one" / "one.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS SELECT 1 AS x")
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("odd-names", "one").replace("stable", "one"))
    recipe = load_recipe(tmp_path / "recipe.yaml")
    with pytest.raises(DataError, match=r"heldout\.jsonl: the databases hold only \d+ of 20"):
        write_sets(DatabaseStore(tmp_path, tmp_path / "cache"), tmp_path / "data", recipe)
    assert not (tmp_path / "data").exists()

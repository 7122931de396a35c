"""The slot style: prompts that name nothing, answers that come back as the SQL they stand for."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError
from text2sql_rl.prompts.slot import SlotStyle, Variation, placeholders
from text2sql_rl.prompts.slot_sql import from_slots
from text2sql_rl.records import Column, Database, Instance, Question, Split, Table

SCHEMA = """
CREATE TABLE yard (yard_id INTEGER PRIMARY KEY, "order" VARCHAR, opened DATE);
CREATE TABLE horse (horse_id INTEGER PRIMARY KEY, horse_name VARCHAR, weight INTEGER, yard_id INTEGER,
    FOREIGN KEY (yard_id) REFERENCES yard (yard_id));
"""
GOLDS = (
    ("How many horses have a weight over 450?", "SELECT COUNT(*) FROM horse WHERE weight > 450"),
    (
        "Horse names of the yard with order 'North Gate'",
        "SELECT horse.horse_name FROM horse INNER JOIN yard ON horse.yard_id = yard.yard_id "
        "WHERE yard.\"order\" = 'North Gate'",
    ),
    ("Horse names starting with 'Ab'", "SELECT horse_name FROM horse WHERE horse_name LIKE 'Ab%'"),
    ("Horse names that contain 'o''o'", "SELECT horse_name FROM horse WHERE horse_name LIKE '%o''''o%'"),
    ("Horse name of the top 3 by weight", "SELECT horse_name FROM horse ORDER BY weight DESC LIMIT 3"),
    (
        "Horse name where weight is above average",
        "SELECT horse_name FROM horse WHERE weight > (SELECT AVG(weight) FROM horse)",
    ),
    ("Yards with opened before 2020-01-31", "SELECT COUNT(*) FROM yard WHERE opened < '2020-01-31'"),
    (
        "Yards without horses",
        "SELECT yard.yard_id FROM yard WHERE NOT yard.yard_id IN (SELECT horse.yard_id FROM horse)",
    ),
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    root = tmp_path_factory.mktemp("content")
    folder = root / "databases" / "yards"
    (folder / "rows").mkdir(parents=True)
    (folder / "schema.sql").write_text(SCHEMA)
    (folder / "rows" / "yard.csv").write_text("yard_id,order,opened\n1,North Gate,2019-05-01\n2,East,2021-01-01\n")
    (folder / "rows" / "horse.csv").write_text("horse_id,horse_name,weight,yard_id\n1,Abel,500,1\n2,Bo'o,430,1\n")
    return DatabaseStore(root / "databases", root / "cache").get("yards")


def question(text: str) -> Question:
    return Question(id="q", database="yards", text=text, gold_sql="", split=Split.TRAIN, role="sft")


@pytest.mark.parametrize(("text", "sql"), GOLDS)
def test_an_answer_comes_back_as_its_sql(database: Database, text: str, sql: str) -> None:
    style = SlotStyle(["how", "many", "with"])
    prompt = style.prompt(question(text), database)
    answer = style.completion(prompt, database, sql)
    assert answer is not None
    assert "horse" not in answer.lower()
    assert style.restore(prompt, answer) == sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT h.weight FROM horse AS h",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "SELECT weight FROM horse WHERE weight > 999",
        "SELECT unknown FROM horse",
        "SELECT (",
    ],
)
def test_what_placeholders_cannot_express_is_none(database: Database, sql: str) -> None:
    style = SlotStyle([])
    assert style.completion(style.prompt(question("horses"), database), database, sql) is None


def test_the_prompt_names_nothing_of_the_database(database: Database) -> None:
    style = SlotStyle(["which", "are", "in"])
    prompt = style.prompt(question("Which horses are in North Gate since 2021-01-01?"), database)
    words = set(prompt.text.split()) - set(placeholders())
    assert words == {"which", "are", "in", "<unk>"}
    assert prompt == style.prompt(question("Which horses are in North Gate since 2021-01-01?"), database)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), keep=st.floats(0, 1), which=st.integers(0, len(GOLDS) - 1))
def test_every_variation_still_means_the_same_sql(database: Database, seed: int, keep: float, which: int) -> None:
    text, sql = GOLDS[which]
    style = SlotStyle(["how", "many", "with"])
    varied = style.vary(question(text), database, sql, random.Random(seed), Variation(keep, 0.3, 0.3))
    assert varied is not None
    prompt, answer = varied
    assert style.restore(prompt, answer) == sql
    used = [token for token in answer.split() if token in prompt.restore]
    assert all(token in prompt.text.split() for token in used)


@given(st.text(max_size=80))
def test_restore_never_fails(raw: str) -> None:
    assert isinstance(from_slots(raw, {"T1": "horse", "C2": 'horse."a.b"'}), str)


def test_a_schema_with_more_names_than_placeholders_is_refused(database: Database) -> None:
    columns = tuple(Column(name=f"c{number}", type="INTEGER") for number in range(300))
    wide = Database(
        name="wide",
        tables=(Table(name="t", columns=columns),),
        instances=(Instance(database="wide", index=0, path=database.instances[0].path, sha256="wide"),),
    )
    with pytest.raises(DataError, match=r"question q, database wide.*prompt_style: ddl"):
        SlotStyle([]).prompt(question(" ".join(f"c{number}" for number in range(300))), wide)

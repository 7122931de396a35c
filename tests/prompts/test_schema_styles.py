"""The styles for pretrained models: what they write, what they show of a schema that is too long, what they lose."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from text2sql_rl.cli import app
from text2sql_rl.databases import DatabaseStore
from text2sql_rl.prompts import SchemaStyle, make_style
from text2sql_rl.prompts.schema_style import RESERVED
from text2sql_rl.prompts.survey import lacking, survey
from text2sql_rl.records import Database, Question, Split

SCHEMA = """
CREATE TABLE Club (club_id INTEGER PRIMARY KEY, "Order" VARCHAR, "club name" VARCHAR);
CREATE TABLE member (mem_no INTEGER PRIMARY KEY, surname VARCHAR, born DATE);
CREATE TABLE weather (day DATE, wind DOUBLE, photo BLOB);
CREATE TABLE stay (
    club_id INTEGER, mem_no INTEGER, fee DECIMAL(6,2), PRIMARY KEY (club_id, mem_no),
    FOREIGN KEY (club_id) REFERENCES Club (club_id), FOREIGN KEY (mem_no) REFERENCES member (mem_no)
);
"""
ROWS = """
INSERT INTO Club VALUES (1, 'a', 'Red Kite'), (2, 'a', 'Old Boys');
INSERT INTO Club VALUES (3, 'b', 'It''s a long name, of nobody at all, cut');
INSERT INTO member VALUES (7, 'Novak', '1990-01-02'), (8, 'Ito', NULL);
INSERT INTO stay VALUES (1, 7, 12.5), (2, 7, 3);
INSERT INTO weather VALUES ('2024-05-01', 3.5, 'x'::BLOB);
"""
MEANINGS = {"MEMBER": {"mem_no": {"name": "mem no", "description": "number of the membership\ncard"}, "born": {}}}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("content") / "databases" / "clubs"
    folder.mkdir(parents=True)
    with duckdb.connect(str(folder / "clubs.duckdb")) as connection:
        connection.execute(SCHEMA)
        connection.execute(ROWS)
    (folder / "descriptions.json").write_text(json.dumps(MEANINGS), encoding="utf-8")
    return DatabaseStore(folder.parent, folder.parent.parent / "cache").get("clubs")


def ask(text: str, gold: str = "SELECT 1", evidence: str = "") -> Question:
    return Question(
        id=text, database="clubs", text=text, gold_sql=gold, split=Split.TRAIN, role="rl", evidence=evidence
    )


def limited(name: str, tokens: int) -> SchemaStyle:
    """A style whose tokens are words."""
    style = make_style(name, max_tokens=tokens)
    assert isinstance(style, SchemaStyle)
    style.bind(lambda text: len(text.split()))
    return style


def test_the_ddl_style(database: Database) -> None:
    question = ask("Who is in red kite?", evidence="Red Kite is\na club")
    assert make_style("ddl").prompt(question, database).text == (
        "CREATE TABLE Club (\n"
        "  club_id INTEGER PRIMARY KEY, -- e.g. 1, 2, 3\n"
        "  \"Order\" VARCHAR, -- e.g. 'a', 'b'\n"
        "  \"club name\" VARCHAR -- e.g. 'Red Kite', 'It''s a long name, of nobody at all, cut', 'Old Boys'\n"
        ");\n\n"
        "CREATE TABLE member (\n"
        "  mem_no INTEGER PRIMARY KEY, -- number of the membership card; e.g. 7, 8\n"
        "  surname VARCHAR, -- e.g. 'Ito', 'Novak'\n"
        "  born DATE -- e.g. '1990-01-02'\n"
        ");\n\n"
        "CREATE TABLE weather (\n"
        "  day DATE, -- e.g. '2024-05-01'\n"
        "  wind DOUBLE, -- e.g. 3.5\n"
        "  photo BLOB\n"
        ");\n\n"
        "CREATE TABLE stay (\n"
        "  club_id INTEGER, -- e.g. 1, 2\n"
        "  mem_no INTEGER, -- e.g. 7\n"
        "  fee DECIMAL(6,2), -- e.g. 3.00, 12.50\n"
        "  PRIMARY KEY (club_id, mem_no),\n"
        "  FOREIGN KEY (club_id) REFERENCES Club (club_id),\n"
        "  FOREIGN KEY (mem_no) REFERENCES member (mem_no)\n"
        ");\n\n"
        "Question: Who is in red kite?\n"
        "Evidence: Red Kite is a club\n"
        "Answer with one DuckDB SQL query in a ```sql block."
    )


def test_the_compact_style(database: Database) -> None:
    assert make_style("compact").prompt(ask("What did Novak pay?"), database).text == (
        "Club(club_id int key, \"Order\" text = 'a', \"club name\" text = 'It''s a long name, of nobody at all, cut')\n"
        "member(mem_no int key [number of the membership card], surname text = 'Novak', born date = '1990-01-02')\n"
        "weather(day date = '2024-05-01', wind real, photo blob)\n"
        "stay(club_id int key -> Club.club_id, mem_no int key -> member.mem_no, fee decimal(6,2) = 3.00)\n\n"
        "Question: What did Novak pay?\n"
        "Answer with one DuckDB SQL query in a ```sql block."
    )


def test_a_ddl_prompt_is_the_schema_in_duckdbs_own_words(database: Database) -> None:
    schema = make_style("ddl").prompt(ask("x"), database).text.partition("\n\nQuestion:")[0]
    with duckdb.connect() as connection:
        connection.execute(schema)
        assert len(connection.execute("SHOW TABLES").fetchall()) == 4


def test_names_are_quoted_where_duckdb_reads_them_otherwise() -> None:
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
        ).fetchall()
    assert {word for (word,) in found} == RESERVED


def test_a_tighter_limit_shows_less_of_what_the_question_needs_least(database: Database) -> None:
    question = ask("How high were the fees of members?", "SELECT SUM(fee) FROM member JOIN stay USING (mem_no)")
    shown = {}
    for tokens in (200, 120, 100, 80, 60, 45, 30):
        view = limited("ddl", tokens).view(question, database)
        shown[tokens] = view.step, [table.name for table in view.tables]
    assert shown[200] == (1, ["Club", "member", "weather", "stay"])
    steps = [step for step, _ in shown.values()]
    assert steps == sorted(steps)
    assert set(steps) >= {1, 3, 4, 5}
    assert "member" in shown[60][1]
    assert "weather" not in shown[60][1]


def test_a_stored_text_brings_its_table_and_the_way_to_the_next_one(database: Database) -> None:
    view = limited("compact", 38).view(ask("Members of the old boys"), database)
    assert [table.name for table in view.tables] == ["Club", "member", "stay"]
    assert view.examples["Club", "club name"] == ("'Old Boys'",)
    text = limited("compact", 38).prompt(ask("Members of the old boys"), database).text
    assert len(text.split()) <= 38


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tokens=st.integers(16, 140), style=st.sampled_from(["ddl", "compact"]))
def test_a_prompt_fits_or_is_counted_as_too_long_and_is_never_cut(database: Database, tokens: int, style: str) -> None:
    question = ask("How high were the fees of members in Red Kite?")
    made = limited(style, tokens)
    found = survey([(question, database)], made, lambda text: len(text.split()))
    text = made.prompt(question, database).text
    assert text.endswith("Answer with one DuckDB SQL query in a ```sql block.")
    assert question.text in text
    assert bool(found.too_long) == (len(text.split()) > tokens)
    if tokens >= 75:
        assert not found.too_long
    # Of what is shown, every key leads to something that is shown too.
    view = made.view(question, database)
    assert not any(line.startswith("  FOREIGN") and "member" in line for line in text.splitlines()) or "member" in {
        table.name for table in view.tables
    }


def test_a_wide_table_shows_keys_and_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "databases" / "wide"
    folder.mkdir(parents=True)
    columns = ", ".join(f"filler_{number} INTEGER" for number in range(298))
    with duckdb.connect(str(folder / "wide.duckdb")) as connection:
        connection.execute(f"CREATE TABLE reading (reading_no INTEGER PRIMARY KEY, {columns}, rainfall DOUBLE)")
    wide = DatabaseStore(folder.parent, tmp_path / "cache").get("wide")
    question = ask("What was the highest rainfall?", "SELECT MAX(rainfall) FROM reading")
    style = limited("compact", 80)
    (table,) = style.view(question, wide).tables
    assert style.view(question, wide).step == 5
    assert {"reading_no", "rainfall"} <= {column.name for column in table.columns}
    assert 2 < len(table.columns) <= 34
    assert lacking(question.gold_sql, wide, style.view(question, wide)) == ()
    assert lacking("SELECT filler_297, MAX(rainfall) FROM reading", wide, style.view(question, wide)) == ("filler_297",)


def test_the_gold_changes_no_prompt(database: Database) -> None:
    one, other = ask("Members?", "SELECT 1"), ask("Members?", "SELECT wind FROM weather")
    for name in ("ddl", "compact"):
        assert limited(name, 40).prompt(one, database).text == limited(name, 40).prompt(other, database).text


@pytest.fixture
def root(database: Database, tmp_path: Path) -> Path:
    (tmp_path / "databases").symlink_to(database.instances[0].path.parent.parent)
    (tmp_path / "data" / "dev").mkdir(parents=True)
    lines = [
        {"id": "fees", "database": "clubs", "question": "All fees of members", "gold_sql": "SELECT fee FROM stay"},
        {"id": "wind", "database": "clubs", "question": "Is it hot?", "gold_sql": "SELECT wind FROM weather"},
        {"id": "long", "database": "clubs", "question": "so " * 200, "gold_sql": "SELECT 1"},
    ]
    (tmp_path / "data" / "dev" / "dev.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path


def test_the_command_counts_and_names_what_does_not_fit_and_what_is_lost(root: Path) -> None:
    result = CliRunner().invoke(app, ["prompts", str(root), "--style", "compact", "--max-tokens", "90", "--json"])
    assert result.exit_code == 1
    counts = json.loads(result.stdout)
    assert counts["questions"] == 3
    assert counts["too_long"] == ["long"]
    assert counts["missing"] == ["wind"]
    assert counts["recall"] == pytest.approx(2 / 3)
    words = CliRunner().invoke(app, ["prompts", str(root), "--style", "compact", "--max-tokens", "90"]).stdout
    assert "wind (clubs) lacks weather, wind" in words
    assert "1 do not fit and are left out\n  long (clubs) has" in words


def test_the_command_shows_one_prompt(root: Path) -> None:
    result = CliRunner().invoke(app, ["prompts", str(root), "--show", "fees"])
    assert result.exit_code == 0
    assert result.stdout.startswith("CREATE TABLE Club (")
    assert CliRunner().invoke(app, ["prompts", str(root), "--show", "nobody"]).exception is not None

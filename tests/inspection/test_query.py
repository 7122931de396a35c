"""Queries on a rollout log: what they give, and that they neither write nor reach anything else."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.inspection.logged_run import log_run
from text2sql_rl.cli import app
from text2sql_rl.errors import RunError
from text2sql_rl.inspection.query import query
from text2sql_rl.replay import open_source


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXT2SQL_MIN_FREE_GB", "0")
        return log_run(tmp_path_factory.mktemp("runs")).path


@pytest.fixture
def parts(original: Path) -> tuple[Path, ...]:
    return open_source(original).parts


def test_a_query_counts_what_was_logged(parts: tuple[Path, ...]) -> None:
    # 20 steps of 30 groups of 3; a group is of question i, and its answers are right in turn.
    found = query(parts, "SELECT stage, count(*) AS n, count(DISTINCT step) AS steps FROM rollouts GROUP BY stage")
    assert found.columns == ("stage", "n", "steps")
    assert found.rows == (("grpo", 1800, 20),)
    assert found.types == ("VARCHAR", "BIGINT", "BIGINT")


def test_the_parts_of_a_reward_are_at_hand(parts: tuple[Path, ...]) -> None:
    sql = """
        SELECT item ->> 'name' AS name, round(avg((item ->> 'points')::DOUBLE), 3) AS points
        FROM (SELECT unnest(CAST(items AS JSON[])) AS item FROM rollouts WHERE step = 1) GROUP BY name
    """
    assert query(parts, sql).rows == (("correct", 0.525),)


def test_values_that_json_does_not_know_are_texts(parts: tuple[Path, ...]) -> None:
    found = query(parts, "SELECT 'nan'::DOUBLE, DATE '2024-02-29', 1.5, [1, NULL], {'a': 'inf'::DOUBLE}, 2::HUGEINT")
    assert found.rows == (("nan", "2024-02-29", 1.5, [1, None], {"a": "inf"}, 2),)
    json.dumps(found.as_json(), allow_nan=False)


def test_a_limit_tells_that_there_is_more(parts: tuple[Path, ...]) -> None:
    assert query(parts, "FROM rollouts SELECT step ORDER BY step", 3).rows == ((1,), (1,), (1,))
    assert query(parts, "FROM rollouts SELECT step", 3).more
    assert not query(parts, "FROM rollouts SELECT step LIMIT 3", 3).more


@pytest.mark.parametrize("sql", ["DESCRIBE rollouts", "SUMMARIZE rollouts", "WITH w AS (FROM rollouts) FROM w LIMIT 1",
                                 "PIVOT rollouts ON cause USING count(*) GROUP BY step"])  # fmt: skip
def test_every_form_of_query_is_read(parts: tuple[Path, ...], sql: str) -> None:
    assert query(parts, sql).rows


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT nothing FROM rollouts", "nothing"),
        ("SELECT * FROM rollout", "DESCRIBE rollouts"),
        ("SELEC 1", "syntax error"),
        ("", "0 statements"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("DELETE FROM rollouts", "DELETE is no query"),
        ("DROP VIEW rollouts", "DROP is no query"),
        ("SET threads = 1", "SET is no query"),
        ("COPY rollouts TO 'here.parquet'", "COPY is no query"),
        ("ATTACH 'here.db'", "ATTACH is no query"),
        ("INSTALL httpfs", "is no query"),
        ("SELECT * FROM 'here.parquet'", "disabled"),
        ("SELECT * FROM read_text('{part}')", "disabled"),
        ("SELECT * FROM glob('*')", "disabled"),
        ("SELECT * FROM parts", "parts"),
        ("SELECT error('stop it')", "stop it"),
        ("SELECT CAST(run AS INTEGER) FROM rollouts", "demo"),
    ],
)
def test_what_is_no_query_of_the_log_is_refused_in_words(parts: tuple[Path, ...], sql: str, said: str) -> None:
    before = {part: part.read_bytes() for part in parts}
    with pytest.raises(RunError, match=said):
        query(parts, sql.replace("{part}", str(parts[0])))
    assert {part: part.read_bytes() for part in parts} == before


def test_a_damaged_part_is_named(original: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(original, tmp_path / "demo"))
    part = run / "stages" / "grpo" / "rollouts" / "step-000007.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(RunError, match=r"step-000007\.parquet"):
        query(open_source(run).parts, "SELECT 1 FROM rollouts")


def test_the_command_shows_a_table_or_json(original: Path) -> None:
    sql = "SELECT step, max(advantage) AS most FROM rollouts WHERE step < 3 GROUP BY step ORDER BY step"
    shown = CliRunner().invoke(app, ["rollouts", str(original), sql])
    assert shown.exit_code == 0
    assert [line.split() for line in shown.output.splitlines()[2:]] == [["1", "1.41421"], ["2", "1.41421"]]
    told = CliRunner().invoke(app, ["rollouts", str(original), sql, "--json"])
    assert [column["name"] for column in json.loads(told.output)["columns"]] == ["step", "most"]
    assert [row[0] for row in json.loads(told.output)["rows"]] == [1, 2]


def test_hostile_text_in_the_log_cannot_steer_the_console(original: Path) -> None:
    shown = CliRunner().invoke(app, ["rollouts", str(original), "SELECT verdict_words FROM rollouts LIMIT 1"])
    assert "\x1b" not in shown.output
    assert "\u202e" not in shown.output
    assert "\\u{1b}" in shown.output


def test_the_queries_of_the_guide_give_rows(original: Path) -> None:
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ text2sql-rl rollouts runs/demo (\".*?\")$", page, re.DOTALL | re.MULTILINE)
    first, second = (shlex.split(words.replace("\\\n", " "))[0] for words in shown)
    assert len(query(open_source(original).parts, first).rows) == 20
    assert query(open_source(original).parts, second).columns == ("cause", "candidate", "times")

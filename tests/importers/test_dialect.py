"""The dialect bridge: the cases of every rule, and that each gives SQLite's own answer on a few dirty rows.

cases/RULE.yaml holds what a person can review: SQL as written, what becomes of it, and the rules that made it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.importers import dialect_world
from text2sql_rl.databases import read_schema
from text2sql_rl.importers.dialect import RULES, TranslationError, translate
from text2sql_rl.importers.dialect.values import Schema
from text2sql_rl.importers.facts import read_facts
from text2sql_rl.importers.sqlite_source import convert_sqlite, opened
from text2sql_rl.records import Column, Table

CASES = [
    pytest.param(case, id=f"{path.stem}: {case['sql']}")
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]


class World:
    """The tiny database in both engines."""

    def __init__(self, original: sqlite3.Connection, path: Path) -> None:
        self.original = original
        self.schema: Schema = read_facts(path, original)
        self.duckdb = duckdb.connect(str(path), read_only=True)

    def both(self, sql: str) -> tuple[Counter[Any], Counter[Any], str]:
        """The answers of the original and of its translation as bags, and the translation."""
        translated = translate(sql, "sqlite", self.schema).sql
        first = self.original.execute(sql).fetchall()
        second = self.duckdb.execute(translated).fetchall()
        return _bag(first, second), _bag(second, second), translated


def _bag(rows: list[tuple[Any, ...]], like: list[tuple[Any, ...]]) -> Counter[Any]:
    """Rows with numbers rounded; in columns where DuckDB has texts a number is its text."""
    texts = [any(isinstance(row[at], str) for row in like) for at in range(len(rows[0]))] if rows else []

    def cell(value: Any, text: bool) -> Any:
        if isinstance(value, int | float | Decimal) and not text:
            return 0.0 if value == 0 else float(f"{float(value):.9g}")
        return value if value is None or isinstance(value, str) else str(value)

    return Counter(tuple(cell(value, text) for value, text in zip(row, texts, strict=True)) for row in rows)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    source = dialect_world.make(folder / "world.sqlite")
    path = convert_sqlite(source, folder / "out").path
    with opened(source) as original:
        made = World(original, path)
        yield made
        made.duckdb.close()


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_translated_as_reviewed_and_gives_sqlites_answer(case: dict[str, Any], world: World) -> None:
    translation = translate(case["sql"], "sqlite", world.schema)
    assert (translation.sql, list(translation.rules)) == (case["duckdb"], case["rules"])
    first, second, _ = world.both(case["sql"])
    assert first == second


def test_every_rule_for_sqlite_has_a_case() -> None:
    applied = {rule for case in CASES for rule in case.values[0]["rules"]}  # type: ignore[index, union-attr]
    assert {rule.name for rule in RULES if "sqlite" in rule.dialects} - applied == {"samples"}


_COLUMNS = {"age": "singer", "name": "singer", "born": "singer", "seats": "show", "rating": "show", "price": "show"}
_VALUES = ("5", "150", "'32'", "'Ann'", "'none'", "10.5", "'1990'", "''", "NULL")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    column=st.sampled_from(sorted(_COLUMNS)),
    operator=st.sampled_from(("=", "<>", "<", "<=", ">", ">=")),
    value=st.sampled_from(_VALUES),
    form=st.sampled_from(("{0} {1} {2}", "{2} {1} {0}", "NOT {0} {1} {2}", "({0} {1} {2}) IS NULL", "{0} IN ({2}, 3)")),
)
def test_any_column_compares_with_any_value_as_in_sqlite(
    world: World, column: str, operator: str, value: str, form: str
) -> None:
    condition = form.format(column, operator, value)
    first, second, translated = world.both(f"SELECT {column} FROM {_COLUMNS[column]} WHERE {condition}")
    assert first == second, translated


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    column=st.sampled_from(sorted(_COLUMNS)),
    form=st.sampled_from(
        ("sum({0})", "avg({0})", "min({0})", "max({0})", "count({0})", "{0} + 1", "{0} * 2", "{0} / 3", "{0} % 4",
         "round({0})", "CAST({0} AS INTEGER)", "CAST({0} AS REAL)", "length({0})", "{0} || 'x'", "{0} IS NULL",
         "CASE WHEN {0} THEN 1 ELSE 2 END", "total({0})")
    ),
)  # fmt: skip
def test_any_column_calculates_as_in_sqlite(world: World, column: str, form: str) -> None:
    assume("/" not in form or column in ("age", "price"))  # the fractions of a divided text: arithmetic.py
    first, second, translated = world.both(f"SELECT {form.format(column)} FROM {_COLUMNS[column]}")
    assert first == second, translated


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DELETE FROM singer", "not_a_query"),
        ("INSERT INTO singer VALUES (1)", "not_a_query"),
        ("EXPLAIN SELECT 1", "not_a_query"),
        ("SELECT 1; SELECT 2", "not_a_query"),
        ("", "not_a_query"),
        ("SELECT FROM WHERE", "no_parse"),
        ("SELECT 'open", "no_parse"),
        ("SELECT date(born, name) FROM singer", "no_rule"),
    ],
)
def test_what_cannot_be_translated_says_why(world: World, sql: str, reason: str) -> None:
    with pytest.raises(TranslationError) as caught:
        translate(sql, "sqlite", world.schema)
    assert caught.value.reason == reason


def test_an_unknown_dialect_is_named() -> None:
    with pytest.raises(TranslationError, match="'oracle' is none of sqlite, postgres, mysql, duckdb"):
        translate("SELECT 1", "oracle", ())


ITEM = (
    Table(
        name="item",
        columns=(
            Column(name="id", type="BIGINT", nullable=False, primary_key=True),
            Column(name="label", type="VARCHAR"),
            Column(name="made", type="TIMESTAMP"),
            Column(name="price", type="DECIMAL(8,2)"),
        ),
    ),
)


@pytest.mark.parametrize(
    ("dialect", "sql", "duckdb_sql"),
    [
        ("postgres", "SELECT label FROM item GROUP BY id", "SELECT label FROM item GROUP BY id, label"),
        ("postgres", "SELECT id / 2, price / 2 FROM item", "SELECT id // 2, price / 2 FROM item"),
        (
            "postgres",
            "SELECT to_char(made, 'YYYY-MM') FROM item ORDER BY made DESC",
            "SELECT STRFTIME(made, '%Y-%m') FROM item ORDER BY made DESC NULLS FIRST",
        ),
        ("mysql", 'SELECT id FROM item WHERE label LIKE "%x%"', "SELECT id FROM item WHERE label ILIKE '%x%'"),
        ("mysql", "SELECT id / 2 FROM item LIMIT 1, 2", "SELECT id / 2 FROM item LIMIT 2 OFFSET 1"),
        (
            "mysql",
            "SELECT sum(price > 2) FROM item WHERE label = 5",
            "SELECT SUM(CAST(price > 2 AS INT)) FROM item WHERE CASE WHEN label IS NULL THEN NULL ELSE COALESCE("
            "TRY_CAST(REGEXP_EXTRACT(label, '^\\s*[+-]?(\\d+\\.?\\d*|\\.\\d+)([eE][+-]?\\d+)?') AS DOUBLE), 0) END = 5",
        ),
        ("duckdb", "select  label[1] FROM item;", "select  label[1] FROM item"),
        (
            "duckdb",
            "SELECT * FROM item USING SAMPLE 1%",
            "SELECT * FROM item USING SAMPLE SYSTEM (1 PERCENT) REPEATABLE (1)",
        ),
    ],
)
def test_other_dialects(dialect: str, sql: str, duckdb_sql: str) -> None:
    assert translate(sql, dialect, ITEM).sql == duckdb_sql


OTHERS = [
    pytest.param(path.stem, case, id=f"{path.stem}: {case['sql']}")
    for path in sorted((Path(__file__).parent / "dialects").glob("*.yaml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]
GOODS = """
CREATE TABLE item (id BIGINT PRIMARY KEY, label VARCHAR, made TIMESTAMP, price DECIMAL(8,2), qty VARCHAR, sold BOOLEAN);
INSERT INTO item VALUES
    (1, 'Ax', '2024-01-31 10:00:00', 2.50, '3', true),
    (2, 'bolt', '2024-02-10 12:30:00', 5.00, '12 pcs', false),
    (3, 'Axe', NULL, NULL, 'n/a', true);
CREATE TABLE sale (sale_id BIGINT PRIMARY KEY, item_id BIGINT REFERENCES item (id), n BIGINT, buyer VARCHAR);
INSERT INTO sale VALUES (1, 1, 2, 'Ann'), (2, 1, 5, 'Bob'), (3, 2, 1, 'Ann');
"""


@pytest.fixture(scope="module")
def goods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdb.DuckDBPyConnection, tuple[Table, ...]]]:
    path = tmp_path_factory.mktemp("goods") / "goods.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(GOODS)
    tables = read_schema(path)
    with duckdb.connect(str(path), read_only=True) as connection:
        yield connection, tables


@pytest.mark.parametrize(("dialect", "case"), OTHERS)
def test_a_case_of_mysql_or_postgres_gives_the_rows_that_dialect_gives(
    dialect: str, case: dict[str, Any], goods: tuple[duckdb.DuckDBPyConnection, tuple[Table, ...]]
) -> None:
    connection, tables = goods
    if "rejected" in case:
        with pytest.raises(TranslationError, match=case["rejected"]):
            translate(case["sql"], dialect, tables)
        return
    found = translate(case["sql"], dialect, tables)
    assert [rule for rule in found.rules if rule != "nulls"] == case["rules"]
    rows = [[None if cell is None else str(cell) for cell in row] for row in connection.execute(found.sql).fetchall()]
    assert rows == [[None if cell is None else str(cell) for cell in row] for row in case["rows"]], found.sql


def test_every_rule_for_mysql_or_postgres_alone_has_a_case() -> None:
    tried = {(param.values[0], rule) for param in OTHERS for rule in param.values[1].get("rules", ())}
    own = {(dialect, rule.name) for rule in RULES for dialect in rule.dialects if dialect in ("mysql", "postgres")}
    alone = {(dialect, rule.name) for rule in RULES if "sqlite" not in rule.dialects for dialect in rule.dialects}
    assert (alone & own) - tried <= {("mysql", "samples"), ("postgres", "samples")}

"""Counterfactual instances: the schema's promises hold, they are reproducible, and luck is found out."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
import sqlglot

from text2sql_rl.compare import compare, overall
from text2sql_rl.errors import DataError
from text2sql_rl.gold import prepare_golds
from text2sql_rl.instances import build_instances, fair, mutants
from text2sql_rl.instances.literals import border_values
from text2sql_rl.instances.values import near
from text2sql_rl.records import Column, Instance, Match, Table
from text2sql_rl.sandbox import Job, Sandbox

SETUP = """
CREATE TYPE grade AS ENUM ('low', 'mid', 'high');
CREATE TABLE shop(id INTEGER PRIMARY KEY, town VARCHAR NOT NULL, opened DATE);
CREATE TABLE item(code VARCHAR PRIMARY KEY, shop_id INTEGER REFERENCES shop(id), price DECIMAL(8,2) CHECK (price > 0),
    kind grade, tags VARCHAR[], box STRUCT(w INTEGER, h INTEGER), note JSON);
CREATE TABLE stock(shop_id INTEGER REFERENCES shop(id), code VARCHAR REFERENCES item(code), pieces INTEGER NOT NULL,
    PRIMARY KEY (shop_id, code));
INSERT INTO shop
    SELECT i, ['Bern', 'Basel', 'Chur'][1 + i % 3], DATE '2020-01-01' + (i * 37)::INTEGER FROM range(1, 9) t(i);
INSERT INTO item SELECT 'C' || i, 1 + i % 8, 1.25 * i, (['low', 'mid', 'high'][1 + i % 3])::grade,
    ['t' || i, 'all'], {'w': i, 'h': 2 * i}, ('{"n": ' || i || '}')::JSON FROM range(1, 31) t(i);
INSERT INTO stock SELECT 1 + i % 8, 'C' || (1 + i % 30), i % 7 FROM range(40) t(i);
"""


@dataclass
class Desk:
    """A real instance, a sandbox and a folder for files."""

    real: Instance
    sandbox: Sandbox
    folder: Path

    def build(self, sql: str, seed: int = 0, folder: str = "made") -> tuple[Instance, ...]:
        golds = prepare_golds([(self.real, sql)], self.sandbox)
        # One draw finds out what these tests ask for; the second is for mutants that need rarer rows.
        return build_instances(self.real, golds, self.sandbox, self.folder / folder, seed=seed, second_draw=False)

    def verdict(self, gold_sql: str, sql: str, instances: tuple[Instance, ...]) -> Match:
        everywhere = (self.real, *instances)
        first, *others = prepare_golds([(one, gold_sql) for one in everywhere], self.sandbox)
        ran = self.sandbox.run([Job(one, sql) for one in everywhere])
        golds = (first, *fair(first, others))
        return overall([compare(gold, found, sql) for gold, found in zip(golds, ran, strict=True)]).match


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("instances")
    path = folder / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(SETUP)
    real = Instance(database="shop", index=0, path=path, sha256=hashlib.sha256(SETUP.encode()).hexdigest())
    with Sandbox() as sandbox:
        yield Desk(real, sandbox, folder)


GOLD = "SELECT town, count(*) FROM shop WHERE opened > '2020-05-01' GROUP BY town"


def test_the_schemas_promises_hold(desk: Desk) -> None:
    instances = desk.build(GOLD)
    assert 3 <= len(instances) <= 6
    assert [one.index for one in instances] == list(range(1, len(instances) + 1))
    assert len({one.sha256 for one in instances}) == len(instances)
    for one in instances:
        with duckdb.connect(str(one.path), read_only=True) as made, duckdb.connect() as real:
            real.execute(f"ATTACH '{desk.real.path}' AS real (READ_ONLY)")
            columns = (
                "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
                "WHERE NOT internal ORDER BY ALL"
            )
            keys = "SELECT table_name, constraint_text FROM duckdb_constraints() ORDER BY ALL"
            assert made.execute(columns).fetchall() == real.execute(columns).fetchall()
            assert made.execute(keys).fetchall() == real.execute(keys).fetchall()
            for orphan in (
                "FROM item WHERE shop_id NOT IN (SELECT id FROM shop)",
                "FROM stock WHERE code NOT IN (SELECT code FROM item) OR shop_id NOT IN (SELECT id FROM shop)",
                "FROM item WHERE price <= 0",
            ):
                assert made.execute(f"SELECT count(*) {orphan}").fetchall() == [(0,)]
            assert all(
                made.execute(f"SELECT count(*) FROM {name}").fetchall() != [(0,)] for name in ("shop", "item", "stock")
            )


def test_the_same_seed_makes_the_same_rows_and_another_seed_others(desk: Desk) -> None:
    def rows(instances: tuple[Instance, ...]) -> list[object]:
        found: list[object] = []
        for one in instances:
            with duckdb.connect(str(one.path), read_only=True) as connection:
                found.append([connection.execute(f"FROM {name}").fetchall() for name in ("shop", "item", "stock")])
        return found

    first, again, other = desk.build(GOLD), desk.build(GOLD, folder="again"), desk.build(GOLD, seed=1)
    assert rows(first) == rows(again)
    assert rows(first) != rows(other)


LUCKY = [
    ("SELECT count(*) FROM shop WHERE town = 'Bern'", "SELECT count(*) - count(*) + 2 FROM shop"),
    ("SELECT count(*) FROM shop WHERE town = 'Bern'", "SELECT count(*) FROM shop WHERE id IN (3, 6)"),
    ("SELECT town FROM shop WHERE id > 100", "SELECT town FROM shop WHERE id > 5000"),
    ("SELECT count(*) FROM shop", "SELECT count(opened) FROM shop"),
    ("SELECT max(price) FROM item", "SELECT price FROM item WHERE code = 'C30'"),
    ("SELECT town FROM shop WHERE opened > '2020-01-01'", "SELECT town FROM shop"),
    (
        "SELECT count(*) FROM item WHERE price > 5.00",
        "SELECT count(*) FROM item WHERE price >= 5.01 AND kind IS NOT NULL",
    ),
    ("SELECT count(*) FROM shop WHERE town = 'Bern'", "SELECT count(*) FROM shop WHERE upper(town) = 'BERN'"),
]


@pytest.mark.parametrize(("gold", "lucky"), LUCKY)
def test_luck_on_the_real_rows_is_found_out(desk: Desk, gold: str, lucky: str) -> None:
    assert desk.verdict(gold, lucky, ()) == Match.MATCH
    assert desk.verdict(gold, lucky, desk.build(gold)) == Match.MISMATCH


RIGHT = [
    ("SELECT count(*) FROM shop WHERE town = 'Bern'", "SELECT count(CASE WHEN 'Bern' = town THEN 1 END) FROM shop"),
    ("SELECT max(price) FROM item", "SELECT price FROM item ORDER BY price DESC LIMIT 1"),
    ("SELECT DISTINCT town FROM shop", "SELECT town FROM shop GROUP BY town"),
    ("SELECT s.town, i.code FROM shop s JOIN item i ON i.shop_id = s.id",
     "SELECT (SELECT town FROM shop WHERE id = i.shop_id), code FROM item i WHERE shop_id IS NOT NULL"),
    ("SELECT id FROM shop WHERE id IN (SELECT shop_id FROM stock WHERE pieces > 3)",
     "SELECT id FROM shop s WHERE EXISTS (FROM stock t WHERE t.shop_id = s.id AND t.pieces >= 4)"),
    ("SELECT id FROM shop WHERE opened BETWEEN '2020-03-01' AND '2020-06-30'",
     "SELECT id FROM shop WHERE opened >= '2020-03-01' AND opened < '2020-07-01'"),
    ("SELECT town FROM shop ORDER BY opened DESC LIMIT 1", "SELECT arg_max(town, opened) FROM shop"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "right"), RIGHT)
def test_other_ways_to_say_the_same_stay_right(desk: Desk, gold: str, right: str) -> None:
    assert desk.verdict(gold, right, desk.build(gold)) == Match.MATCH


def test_one_set_of_instances_serves_many_golds(desk: Desk) -> None:
    golds = prepare_golds([(desk.real, gold) for gold, _ in RIGHT] + [(desk.real, "SELECT nope")], desk.sandbox)
    instances = build_instances(desk.real, golds, desk.sandbox, desk.folder / "many", most=3)
    assert len(instances) == 3
    assert all(desk.verdict(gold, right, instances) == Match.MATCH for gold, right in RIGHT)


def test_no_gold_or_no_room_makes_no_instance(desk: Desk) -> None:
    broken = prepare_golds([(desk.real, "SELECT nope")], desk.sandbox)
    assert build_instances(desk.real, broken, desk.sandbox, desk.folder / "none") == ()
    good = prepare_golds([(desk.real, GOLD)], desk.sandbox)
    assert build_instances(desk.real, good, desk.sandbox, desk.folder / "none", most=0) == ()
    missing = Instance(database="x", index=0, path=desk.folder / "missing.duckdb", sha256="x")
    with pytest.raises(DataError, match="cannot be opened"):
        build_instances(missing, good, desk.sandbox, desk.folder / "none")


def test_mutants_are_other_statements_that_parse() -> None:
    shop = Table(name="shop", columns=(Column(name="town", type="VARCHAR"), Column(name="region", type="VARCHAR")))
    gold = (
        "SELECT DISTINCT town, sum(n) FROM shop JOIN x USING (id) WHERE n > 3 AND town = 'Bern' "
        "GROUP BY town ORDER BY 2 DESC LIMIT 5"
    )
    found = mutants(gold, [shop])
    assert len(set(found)) == len(found) > 25
    assert all(sqlglot.parse_one(text, dialect="duckdb") != sqlglot.parse_one(gold, dialect="duckdb") for text in found)
    for part in (
        "n >= 3",
        "n > 4",
        "AVG(n)",
        "SELECT town",
        "LEFT JOIN",
        "OR town = 'Bern'",
        "LIMIT 6",
        "ORDER BY 2 ASC",
        "'bERN'",
        '"region"',
        "WHERE FALSE",
    ):
        assert any(part in text for text in found), part
    assert mutants("not sql at all (") == ()


def test_borders_stand_on_both_sides_of_a_literal() -> None:
    around = border_values(
        ["SELECT 1 FROM t WHERE a > 10 AND b = 'x' AND c < 2.50 AND d >= '2020-03-01' AND e LIKE '%go%'"]
    )
    assert {9, 10, 11} <= set(around["a"])
    assert {"x", "X"} <= set(around["b"])
    assert {"2.49", "2.50", "2.51"} <= {str(value) for value in around["c"]}
    assert {"2020-02-29", "2020-03-01", "2020-03-02"} <= set(around["d"])
    assert {"go", "xgox"} <= set(around["e"])


def test_numbers_that_no_column_holds_and_the_ends_of_the_calendar_leave_the_other_borders() -> None:
    far = ("1e99999999", "9" * 5000, "1e-400", f"0.{'0' * 5000}1")
    for number in far:
        assert border_values([f"SELECT 1 FROM t WHERE a < {number} AND b > 50"]) == {"b": (50, 51, 49)}
    around = border_values(["SELECT 1 FROM t WHERE c < '9999-12-31' AND d > '0001-01-01'"])
    assert "9999-12-30" in around["c"]
    assert "0001-01-02" in around["d"]


@pytest.mark.parametrize("last", [date(9999, 12, 31), datetime(9999, 12, 31), "9999-12-31", Decimal("9" * 36 + ".25")])
def test_cells_near_the_end_of_their_type_are_of_it(last: object) -> None:
    draw = random.Random(1)
    cells = [near(last, [last] * 3, 5, draw) for _ in range(20)]
    assert {type(cell) for cell in cells} == {type(last)}


# ---- columns that copy others -------------------------------------------------------------------------------

COPIES = """
CREATE TYPE level AS ENUM ('low', 'high');
CREATE TABLE t(id INTEGER, rank_no INTEGER, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, written VARCHAR, price DECIMAL(6,2),
    cost DOUBLE, noisy DOUBLE, one DOUBLE, other DOUBLE, lvl level, lvl_text VARCHAR, flag BOOLEAN, flag_int INTEGER);
INSERT INTO t VALUES
    (1, 1, '2024-01-05', '2024-01-05 00:00:00', '2024-01-05 10:00:00+00', '2024-01-05', 1.25, 1.25, 1.2500000000001,
     3.5, 3.5, 'low', 'low', true, 1),
    (2, 2, '2024-02-10', '2024-02-10 09:30:00', '2024-02-10 23:30:00+00', '2024-02-10', 7.50, 7.5, 7.5,
     4.5, 4.5, 'high', 'high', false, 0),
    (3, 3, NULL, NULL, NULL, NULL, 2.00, 2.0, 2.0, 5.5, 5.5, NULL, NULL, NULL, NULL);
"""
SAME = [
    ("SELECT d FROM t WHERE id = 1", "SELECT ts FROM t WHERE id = 1"),
    ("SELECT ts FROM t WHERE id = 1", "SELECT d FROM t WHERE id = 1"),
    ("SELECT d FROM t", "SELECT written FROM t"),
    ("SELECT price FROM t", "SELECT cost FROM t"),
    ("SELECT cost FROM t WHERE cost > 2", "SELECT noisy FROM t WHERE noisy > 2.0"),
    ("SELECT lvl FROM t", "SELECT lvl_text FROM t"),
    ("SELECT flag FROM t", "SELECT flag_int FROM t"),
]
LUCK = [
    ("SELECT rank_no FROM t", "SELECT id FROM t"),
    ("SELECT d FROM t WHERE id = 1", "SELECT d FROM t WHERE rank_no = 1"),
    ("SELECT one FROM t", "SELECT other FROM t"),
    ("SELECT count(*) FROM t WHERE d > '2024-01-05'", "SELECT count(*) FROM t WHERE tz > '2024-01-31'"),
]


@pytest.fixture(scope="module")
def copied(desk: Desk) -> Desk:
    path = desk.folder / "copied.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(COPIES)
    real = Instance(database="copied", index=0, path=path, sha256=hashlib.sha256(COPIES.encode()).hexdigest())
    return Desk(real, desk.sandbox, desk.folder)


@pytest.mark.parametrize(("gold", "right"), SAME)
def test_a_copy_in_another_form_is_right(copied: Desk, gold: str, right: str) -> None:
    assert copied.verdict(gold, right, copied.build(gold)) == Match.MATCH


@pytest.mark.parametrize(("gold", "lucky"), LUCK)
def test_the_same_values_in_the_same_type_are_luck(copied: Desk, gold: str, lucky: str) -> None:
    assert copied.verdict(gold, lucky, ()) == Match.MATCH
    assert copied.verdict(gold, lucky, copied.build(gold)) == Match.MISMATCH


def test_a_time_of_day_beside_a_date_differs_on_the_real_rows(copied: Desk) -> None:
    gold = prepare_golds([(copied.real, "SELECT d FROM t WHERE id = 2")], copied.sandbox)[0]
    verdict = compare(gold, copied.sandbox.run([Job(copied.real, "SELECT ts FROM t WHERE id = 2")])[0])
    assert (verdict.match, verdict.code, verdict.flags) == (Match.MISMATCH, "values", ("same_day",))

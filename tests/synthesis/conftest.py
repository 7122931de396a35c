"""Two small databases: a tidy one of three tables, and one in which nearly every name needs quotes."""

from __future__ import annotations

import duckdb
import pytest

from text2sql_rl.databases import DatabaseStore
from text2sql_rl.records import Database

_TOWNS = ("Corran", "Dunmore", "Ardglass")
_COLOURS = ("bay", "grey", "roan", "black")
_FIRST = ("Copper", "Silver", "Quiet", "Lucky", "Stone")
_LAST = ("Lantern", "Ferry", "Harbour", "Meadow")


def _tidy(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE yard (yard_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, town VARCHAR NOT NULL, boxes INTEGER);"
        "CREATE TABLE horse (horse_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, colour VARCHAR NOT NULL, "
        "  weight DOUBLE, foaled DATE NOT NULL, retired BOOLEAN NOT NULL, "
        "  yard_id INTEGER NOT NULL REFERENCES yard(yard_id));"
        "CREATE TABLE start (start_id INTEGER PRIMARY KEY, horse_id INTEGER NOT NULL REFERENCES horse(horse_id), "
        "  jockey VARCHAR NOT NULL, prize INTEGER NOT NULL, seconds DOUBLE, started_at TIMESTAMP NOT NULL);"
    )
    for i in range(9):
        yard = [i, f"{_LAST[i % 4]} Yard {i}", _TOWNS[i % 3], 4 + i * i]
        connection.execute("INSERT INTO yard VALUES (?, ?, ?, ?)", yard)
    for i in range(20):
        connection.execute(
            "INSERT INTO horse VALUES (?, ?, ?, ?, DATE '2015-01-07' + CAST(? AS INTEGER), ?, ?)",
            [
                i,
                f"{_FIRST[i % 5]} {_LAST[i // 5]}",
                _COLOURS[(i * i) % 3 + i // 19],
                None if i % 9 == 4 else 400 + 7.5 * i,
                i * 71,
                i % 3 == 1,
                (i * i) % 7,
            ],
        )
    for i in range(90):
        connection.execute(
            "INSERT INTO start "
            "VALUES (?, ?, ?, ?, ?, TIMESTAMP '2021-03-02 14:30:00' + CAST(? AS INTEGER) * INTERVAL 9 DAY)",
            [
                i,
                (i * i + i // 7) % 17,
                ("Ann O'Shea", "Bo Lind", "Cy Marsh", "Di Quill")[(i * i) % 5 % 4],
                (i * 37) % 29 * 100,
                None if i % 13 == 6 else 60 + (i * 53 % 97) / 4,
                i,
            ],
        )


def _odd(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        """CREATE TABLE "Order Details" ("Order" INTEGER PRIMARY KEY, "unit price €" DOUBLE, "select" VARCHAR,
             "The ""G"" one" VARCHAR, "ShipDate" TIMESTAMP, "ok?" BOOLEAN, tags VARCHAR[], "wörter" VARCHAR);
           CREATE TABLE "9lives" (id INTEGER PRIMARY KEY, "Order" INTEGER REFERENCES "Order Details"("Order"),
             "from" VARCHAR, "limit" DECIMAL(8,2));
           CREATE TABLE empty_one (a INTEGER, b VARCHAR);
           CREATE TABLE "日本" (x INTEGER);
           INSERT INTO "Order Details" SELECT i,
             CASE WHEN i % 7 = 0 THEN 'nan'::DOUBLE WHEN i % 11 = 0 THEN NULL ELSE i * 1.25 END,
             'it''s ' || (i % 4), 'g%_' || (i % 3), TIMESTAMP '2021-01-01 10:00:00' + i * INTERVAL 9 DAY, i % 2 = 0,
             ['a'], CASE WHEN i % 5 = 0 THEN '' WHEN i % 5 = 1 THEN ' lead' ELSE 'ä' || i END FROM range(1, 80) t(i);
           INSERT INTO "9lives" SELECT i, 1 + (i * i) % 60, 'f' || (i % 5), (i * 37 % 101) / 4.0 FROM range(200) t(i);
           INSERT INTO "日本" SELECT i % 9 FROM range(30) t(i);"""
    )


@pytest.fixture(scope="session")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> DatabaseStore:
    root = tmp_path_factory.mktemp("databases")
    for name, fill in (("stable", _tidy), ("odd-names", _odd)):
        (root / name).mkdir()
        with duckdb.connect(str(root / name / f"{name}.duckdb")) as connection:
            fill(connection)
    return DatabaseStore(root, root / "cache")


@pytest.fixture(scope="session")
def stable(small_store: DatabaseStore) -> Database:
    return small_store.get("stable")


@pytest.fixture(scope="session")
def odd(small_store: DatabaseStore) -> Database:
    return small_store.get("odd-names")

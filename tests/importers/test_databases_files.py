from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from text2sql_rl.databases import DatabaseStore, open_read_only
from text2sql_rl.errors import DataError
from text2sql_rl.importers.batch import import_databases
from text2sql_rl.importers.duckdb_source import convert_duckdb
from text2sql_rl.importers.file_source import convert_files
from text2sql_rl.importers.sqlite_source import convert_sqlite
from text2sql_rl.records import ForeignKey
from text2sql_rl.seals import Reject

PEOPLE = (
    "person_id,name,born,height,zip,member,long,seen,note\n"
    '1,"Ann ""A"" Lee, jr",2001-02-03,1.5,01234,true,99999999999999999999,2024-01-01 10:00:00,""\n'
    "2,Bob,,2,99999,FALSE,1,2024-01-02T11:00,NULL\n"
    "3,N/A,2001-12-31,N/A,00001,,2,,x\n"
)


def folder(path: Path, files: dict[str, str | bytes]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def cells(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_read_only(path) as connection:
        return connection.execute(sql).fetchall()


def test_types_of_a_csv_come_from_all_its_cells(tmp_path: Path) -> None:
    made = convert_files(folder(tmp_path / "club", {"people.csv": PEOPLE}), tmp_path / "out")
    assert (made.name, made.rejects) == ("club", ())
    assert {column.name: column.type for column in made.schema[0].columns} == {
        "person_id": "BIGINT",
        "name": "VARCHAR",
        "born": "DATE",
        "height": "DOUBLE",
        "zip": "VARCHAR",
        "member": "BOOLEAN",
        "long": "HUGEINT",
        "seen": "TIMESTAMP",
        "note": "VARCHAR",
    }
    assert cells(made.path, "SELECT name, note FROM people") == [('Ann "A" Lee, jr', ""), ("Bob", "NULL"), ("N/A", "x")]
    assert cells(made.path, "SELECT height FROM people") == [(1.5,), (2.0,), (None,)]
    assert "people.height: 1 cells say that there is no value ('', NULL, N/A or NaN)" in made.notes


def test_a_broken_line_is_named_and_the_rest_kept(tmp_path: Path) -> None:
    lines = ["a,b", '1,"two', 'lines"', "2", "3,y,z", '4,"open', "5,u", '6,"v"', '7,"q"x', '8,"open too', "9,w", "10,w"]
    files: dict[str, str | bytes] = {"t.csv": "\r\n".join(lines) + "\r\n", "other.csv": "q\n1\n"}
    made = convert_files(folder(tmp_path / "d", files), tmp_path / "out")
    assert [reject.place for reject in made.rejects] == ["t.csv:4", "t.csv:5", "t.csv:6", "t.csv:9", "t.csv:10"]
    assert cells(made.path, "SELECT * FROM t") == [(1, "two\r\nlines"), (5, "u"), (6, "v"), (9, "w"), (10, "w")]
    assert {table.name for table in made.schema} == {"t", "other"}
    again = convert_files(tmp_path / "d", tmp_path / "out")
    assert (again.skipped, again.rejects) == (True, made.rejects)


def test_a_file_that_cannot_be_read_is_rejected_and_the_rest_imported(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "good.csv": "a;b\n1;2\n",
        "good.json": "[]",
        "empty.csv": "",
        "bad.parquet": b"PAR1 not really",
        "bad.jsonl": '{"a": 1}\n{"a": \n{\n',
        "bad.json": "[1,",
        "mess.csv": "a,b\n1\n2\n3\n4,5\n",
        "readme.txt": "hello",
    }
    made = convert_files(folder(tmp_path / "d", files), tmp_path / "out")
    assert [table.name for table in made.schema] == ["good"]
    assert [reject.place for reject in made.rejects] == [
        "bad.json",
        "bad.jsonl",
        "bad.parquet",
        "empty.csv",
        "good.json",
        "mess.csv",
    ]
    reasons = {reject.place: reject.reason for reject in made.rejects}
    assert reasons["good.json"] == "the table good comes from good.csv already"
    assert reasons["mess.csv"].startswith("3 of 4 lines are broken, the first is line 2")
    assert "readme.txt: not a table file; left out" in made.notes


def test_parquet_json_and_zipped_files(tmp_path: Path) -> None:
    source = folder(
        tmp_path / "d",
        {
            "log.jsonl": "".join(
                json.dumps({"log_id": at, "tags": ["a"], "at": "2024-01-01"}) + "\n" for at in range(3)
            ),
            "zipped.csv.gz": gzip.compress(b"x\n1\n2\n"),
            "tabs.tsv": "x\ty\n1,5\t2\n",
        },
    )
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT range AS n, 1.5::DECIMAL(4,1) AS d FROM range(5)) TO '{source}/p.parquet'")
    made = convert_files(source, tmp_path / "out")
    types = {table.name: [column.type for column in table.columns] for table in made.schema}
    assert types == {
        "log": ["BIGINT", "VARCHAR[]", "DATE"],
        "p": ["BIGINT", "DECIMAL(4,1)"],
        "tabs": ["DOUBLE", "BIGINT"],
        "zipped": ["BIGINT"],
    }


def test_keys_are_inferred_from_names_and_rows(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "customers.csv": "id,name\n1,a\n2,b\n",
        "orders.csv": "order_id,customer_id,product_code\n1,1,x\n2,1,y\n3,,x\n",
        "products.csv": "product_code,price\nx,1\ny,2\n",
        "returns.csv": "order_id,customer_id\n1,9\n1,1\n",
    }
    made = convert_files(folder(tmp_path / "shop", files), tmp_path / "out")
    tables = {table.name: table for table in DatabaseStore(tmp_path / "out" / "databases", tmp_path).get("shop").tables}
    keys = {name: [c.name for c in table.columns if c.primary_key] for name, table in tables.items()}
    assert keys == {"customers": ["id"], "orders": ["order_id"], "products": ["product_code"], "returns": []}
    assert tables["orders"].foreign_keys == (
        ForeignKey(columns=("customer_id",), table="customers", references=("id",)),
        ForeignKey(columns=("product_code",), table="products", references=("product_code",)),
    )
    assert tables["returns"].foreign_keys == (
        ForeignKey(columns=("order_id",), table="orders", references=("order_id",)),
    )
    assert made.schema == tuple(tables.values())


def test_names_and_encodings_of_a_csv(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "latin.csv": b"name,Name,\ncaf\xe9,1,2\n",
        "utf16.csv": "a,b\n1,é\n".encode("utf-16"),
        "marked.csv": b"\xef\xbb\xbfid,select\n1,x\n",
        "bare.csv": "1,2\n3,4\n",
        "wide.csv": ",".join(f"c{at}" for at in range(300)) + "\n" + ",".join(str(at) for at in range(300)) + "\n",
        "no_rows.csv": "a,b\n",
    }
    made = convert_files(folder(tmp_path / "d", files), tmp_path / "out")
    assert made.rejects == ()
    names = {table.name: [column.name for column in table.columns] for table in made.schema}
    assert (names["latin"], names["marked"]) == (["name", "Name_2", "column"], ["id", "select"])
    assert cells(made.path, "SELECT name FROM latin") == [("café",)]
    assert cells(made.path, "SELECT b FROM utf16") == [("é",)]
    assert len(names["wide"]) == 300
    for note in (
        "latin: not UTF-8 text; lines that are not are read as Windows-1252",
        "bare: numbers among the column names; the first line must hold the names",
        "no_rows: holds no row",
    ):
        assert note in made.notes


def test_dirt_of_other_programs_is_read_or_named(tmp_path: Path) -> None:
    """Decimal commas, lines that end in CR, two encodings in one file, lines that are no JSON, values of many types."""
    files: dict[str, str | bytes] = {
        "prices.csv": "id;price;big\n1;1,50;1,500\n2;-2,25;2,000\n3;;\n",
        "codes.tsv": "id\tcode\n1\t007\n2\t1,5\n",
        "lists.csv": 'id,members\n1,"1,5"\n2,"2,7"\n',
        "mac.csv": b"a,b\r1,x\r2,y\r",
        "twofold.csv": "n,t\n1,café\n".encode() + b"2,caf\xe9 \x80\n",
        "cut.csv.gz": gzip.compress(b"a,b\n1,2\n")[:-9],
        "quotes.csv": b'a,b\n1,\xe9\n2,"x"y\n3,z\n4,z\n',
        "log.jsonl": '{"id": 1, "v": 1, "n": null, "p": {"x": [1]}}\n{"id": \n{"id": 2, "v": "two", "n": null}\n\n'
        + "[" * 100_000,
    }
    made = convert_files(folder(tmp_path / "d", files), tmp_path / "out")
    types = {table.name: [column.type for column in table.columns] for table in made.schema}
    assert types["prices"] == ["BIGINT", "DOUBLE", "VARCHAR"]
    assert cells(made.path, "SELECT price FROM prices") == [(1.5,), (-2.25,), (None,)]
    assert types["codes"] == ["BIGINT", "VARCHAR"]
    assert types["lists"] == ["BIGINT", "VARCHAR"]
    assert cells(made.path, "SELECT * FROM mac") == [(1, "x"), (2, "y")]
    assert cells(made.path, "SELECT t FROM twofold") == [("café",), ("café €",)]
    assert cells(made.path, "SELECT * FROM quotes") == [(1, "é"), (3, "z"), (4, "z")]
    assert types["log"] == ["BIGINT", "VARCHAR", "VARCHAR", "STRUCT(x BIGINT[])"]
    assert cells(made.path, "SELECT v FROM log") == [("1",), ("two",)]
    assert [reject.place for reject in made.rejects] == ["cut.csv.gz", "log.jsonl:2", "log.jsonl:5", "quotes.csv:3"]
    for note in (
        "prices.price: numbers with a decimal comma",
        "prices.big: a comma of decimals or of thousands (1,500); kept as text",
        "mac: its lines end in a carriage return",
        "log.v: values of several types; kept as text",
        "log.p: nested values (STRUCT(x BIGINT[])); kept as they are",
    ):
        assert note in made.notes


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        convert_files(tmp_path / "none", tmp_path / "out")
    with pytest.raises(DataError, match="holds no CSV, Parquet or JSON file"):
        convert_files(folder(tmp_path / "d", {"x.txt": ""}), tmp_path / "out")
    with pytest.raises(DataError, match=r"none of its files can be read \(e.csv: is empty"):
        convert_files(folder(tmp_path / "e", {"e.csv": ""}), tmp_path / "out")


# ---- DuckDB files --------------------------------------------------------------------------------------------


def duckdb_file(path: Path, *statements: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def test_a_duckdb_file_is_kept_as_it_is(tmp_path: Path) -> None:
    source = duckdb_file(
        tmp_path / "nyc.duckdb",
        "CREATE TABLE taxi (id INTEGER PRIMARY KEY, day TIMESTAMP, extra STRUCT(a INTEGER))",
        "INSERT INTO taxi VALUES (1, '2024-01-01', {'a': 1})",
        "CREATE VIEW late AS SELECT id FROM taxi",
        "CREATE SCHEMA other",
        "CREATE TABLE other.hidden (x INTEGER)",
        "CREATE TABLE unused (x INTEGER)",
    )
    made = convert_duckdb(source, tmp_path / "out")
    assert [table.name for table in made.schema] == ["taxi", "unused"]
    assert made.notes == (
        "other.hidden: outside the schema main; prompts do not show it",
        "late: a view; prompts do not show it",
        "unused: holds no row",
    )
    assert cells(made.path, "SELECT * FROM nyc.taxi JOIN late USING (id)")[0][0] == 1
    assert convert_duckdb(source, tmp_path / "out").skipped
    assert source.stat().st_mode & 0o200


def test_a_duckdb_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "text.duckdb").write_text("hello")
    with pytest.raises(DataError, match="is not a DuckDB database"):
        convert_duckdb(tmp_path / "text.duckdb", tmp_path / "out")
    with pytest.raises(DataError, match="cannot be read"):
        convert_duckdb(tmp_path / "none.duckdb", tmp_path / "out")
    with pytest.raises(DataError, match="holds no table in the schema main"):
        convert_duckdb(duckdb_file(tmp_path / "no.duckdb"), tmp_path / "out")
    cut = duckdb_file(tmp_path / "cut.duckdb", "CREATE TABLE t AS SELECT range AS x FROM range(100000)")
    cut.write_bytes(cut.read_bytes()[:20000])
    with pytest.raises(DataError, match=r"cut\.duckdb"):
        convert_duckdb(cut, tmp_path / "out")
    assert list((tmp_path / "out" / "databases").iterdir()) == []


# ---- several at once -----------------------------------------------------------------------------------------


def test_one_bad_source_does_not_keep_the_others_out(tmp_path: Path) -> None:
    from tests.importers.test_databases_sqlite import sqlite_file

    good = sqlite_file(tmp_path / "good.db", "CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    twin = sqlite_file(tmp_path / "twin" / "good.db", "CREATE TABLE u (x);")
    bad = tmp_path / "bad.db"
    bad.write_bytes(b"x" * 100)
    seen: list[str] = []
    summary = import_databases(
        "sqlite", convert_sqlite, [bad, good, twin], tmp_path / "out", replace=True, started=seen.append
    )
    assert seen == ["bad", "good", "good"]
    counts = summary.as_json()
    assert (counts["imported"], counts["skipped"], counts["rejected"], counts["rows"]) == (1, 0, 2, 1)
    assert [reject.place for reject in summary.rejects] == [str(bad), str(twin)]
    assert "is there already, with other content" in summary.rejects[1].reason
    lines = (tmp_path / "out" / "rejects" / "sqlite.jsonl").read_text().splitlines()
    assert [Reject(**json.loads(line)) for line in lines] == list(summary.rejects)
    assert "1 imported, 0 there already, 2 rejected" in list(summary.lines())[-1]
    assert import_databases("sqlite", convert_sqlite, [good], tmp_path / "out").rejects_file is None
    assert not (tmp_path / "out" / "rejects" / "sqlite.jsonl").exists()
    with pytest.raises(DataError, match="one name cannot be given to 2 sources"):
        import_databases("sqlite", convert_sqlite, [good, twin], tmp_path / "out", name="x")

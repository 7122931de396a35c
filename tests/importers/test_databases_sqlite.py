from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.databases import DatabaseStore, open_read_only
from text2sql_rl.errors import DataError, RunError
from text2sql_rl.importers import layout, sqlite_source
from text2sql_rl.importers.sqlite_source import convert_sqlite
from text2sql_rl.records import Database, ForeignKey

SCHOOL = """
CREATE TABLE "order" ("select" INTEGER PRIMARY KEY, "group by" TEXT NOT NULL, "tele phone" NUMERIC);
INSERT INTO "order" VALUES (1, 'a', 5), (2, 'b', '0171'), (3, 'c', 'n/a'), (4, 'd', NULL);
CREATE TABLE school (code TEXT PRIMARY KEY, name TEXT, city) WITHOUT ROWID;
INSERT INTO school VALUES ('b', 'Beta', NULL), ('a', 'Alpha', '');
CREATE TABLE pupil (
  id INTEGER PRIMARY KEY, school TEXT REFERENCES school, mentor INTEGER REFERENCES pupil(id), born DATE, mark REAL,
  double_mark AS (mark * 2), photo BLOB, big INTEGER, happy BOOLEAN
);
INSERT INTO pupil VALUES (1, 'a', 2, '2001-02-03', 1.5, x'00ff', 9223372036854775807, 1),
  (2, 'b', NULL, '3 May 2001', 2, x'41', 9223372036854775808, 0), (3, NULL, 1, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE visit (pupil INTEGER REFERENCES pupil(id), day TEXT, room INTEGER REFERENCES room(id),
  UNIQUE (pupil, day));
INSERT INTO visit VALUES (1, 'mon', 1), (99, 'mon', 1), (2, 'tue', 1);
CREATE TABLE unused (id INTEGER, name VARCHAR(9), at DATETIME, price DECIMAL(8,2), raw BLOB);
CREATE VIEW happy_pupil AS SELECT id, born FROM pupil WHERE happy = 1;
CREATE VIEW newest AS SELECT date('now', '-1 day', 'weekday 3') AS d, max(id) FROM happy_pupil GROUP BY typeof(id);
"""


def sqlite_file(path: Path, script: str = SCHOOL, rows: dict[str, list[tuple[Any, ...]]] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        for sql, values in (rows or {}).items():
            connection.executemany(sql, values)
        connection.commit()
    return path


def imported(root: Path, name: str) -> Database:
    return DatabaseStore(root / "databases", root / "cache").get(name)


def cells(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_read_only(path) as connection:
        return connection.execute(sql).fetchall()


def test_types_come_from_what_is_stored(tmp_path: Path) -> None:
    made = convert_sqlite(sqlite_file(tmp_path / "school.sqlite"), tmp_path / "out")
    types = {table.name: {column.name: column.type for column in table.columns} for table in made.schema}
    assert types["order"] == {"select": "BIGINT", "group by": "VARCHAR", "tele phone": "VARCHAR"}
    assert types["pupil"] == {
        "id": "BIGINT",
        "school": "VARCHAR",
        "mentor": "BIGINT",
        "born": "VARCHAR",
        "mark": "DOUBLE",
        "double_mark": "DOUBLE",
        "photo": "BLOB",
        "big": "DOUBLE",
        "happy": "BIGINT",
    }
    assert types["unused"] == {
        "id": "BIGINT",
        "name": "VARCHAR",
        "at": "VARCHAR",
        "price": "DOUBLE",
        "raw": "BLOB",
    }


def test_rows_are_the_same_in_the_same_order(tmp_path: Path) -> None:
    made = convert_sqlite(sqlite_file(tmp_path / "school.sqlite"), tmp_path / "out")
    assert cells(made.path, 'SELECT * FROM "order"') == [
        (1, "a", "5"),
        (2, "b", "171"),
        (3, "c", "n/a"),
        (4, "d", None),
    ]
    assert cells(made.path, "SELECT * FROM school") == [("a", "Alpha", ""), ("b", "Beta", None)]
    assert cells(made.path, "SELECT id, double_mark, photo FROM pupil") == [
        (1, 3.0, b"\0\xff"),
        (2, 4.0, b"A"),
        (3, None, None),
    ]
    assert cells(made.path, "SELECT * FROM happy_pupil") == [(1, "2001-02-03")]


def test_what_the_report_names(tmp_path: Path) -> None:
    made = convert_sqlite(sqlite_file(tmp_path / "school.sqlite"), tmp_path / "out")
    text = "\n".join(made.notes)
    for words in (
        "order.tele phone: 2 numbers beside 1 texts ('n/a'); all kept as text",
        "school.city: 1 texts say that there is no value",
        "pupil.double_mark: a generated column",
        "pupil.big: whole numbers beyond 2^53 beside fractions",
        "pupil.big: 1 numbers beyond 64 bits",
        "visit: a foreign key to 'room', which is not there; left out",
        "visit: the foreign key (pupil) to pupil is declared, not enforced: 1 of 3 rows have no such row there",
        "unused: holds no row",
        "newest: a view; left out: ",
    ):
        assert words in text, words
    assert "happy_pupil" not in text
    assert text in (made.path.parent / "ABOUT.md").read_text().replace("- ", "")


def test_keys_that_the_rows_obey_are_constraints_and_others_are_declared(tmp_path: Path) -> None:
    made = convert_sqlite(sqlite_file(tmp_path / "school.sqlite"), tmp_path / "out")
    database = imported(tmp_path / "out", "school")
    assert database.tables == made.schema
    assert [table.name for table in database.tables] == ["order", "school", "pupil", "visit", "unused"]
    tables = {table.name: table for table in database.tables}
    assert [column.name for column in tables["pupil"].columns if column.primary_key] == ["id"]
    assert not tables["order"].columns[1].nullable
    assert tables["order"].columns[2].nullable
    to_school = ForeignKey(columns=("school",), table="school", references=("code",))
    to_mentor = ForeignKey(columns=("mentor",), table="pupil", references=("id",))
    assert set(tables["pupil"].foreign_keys) == {to_school, to_mentor}
    assert tables["visit"].foreign_keys == (ForeignKey(columns=("pupil",), table="pupil", references=("id",)),)
    enforced = cells(
        made.path, "SELECT table_name, constraint_type FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL'"
    )
    assert sorted(enforced) == [
        ("order", "PRIMARY KEY"),
        ("pupil", "FOREIGN KEY"),
        ("pupil", "PRIMARY KEY"),
        ("school", "PRIMARY KEY"),
        ("visit", "UNIQUE"),
    ]


def test_keys_that_duckdb_cannot_hold_are_declared(tmp_path: Path) -> None:
    script = """
    CREATE TABLE a (x TEXT PRIMARY KEY, b INTEGER REFERENCES b(y), w INTEGER);
    CREATE TABLE b (y INTEGER PRIMARY KEY, a TEXT REFERENCES A(X), u TEXT, UNIQUE (u));
    CREATE TABLE c (k INTEGER, u TEXT REFERENCES b(u), w TEXT REFERENCES a(w), p INTEGER, q TEXT,
      FOREIGN KEY (p, q) REFERENCES d);
    CREATE TABLE d (p INTEGER, q TEXT, PRIMARY KEY (p, q));
    INSERT INTO a VALUES ('1', 7, 3), (NULL, 7, 3);
    INSERT INTO b VALUES (7, '1', 'u7');
    INSERT INTO d VALUES (1, 'a'), (1, 'b');
    INSERT INTO c VALUES (1, 'u7', '3', 1, 'b'), (2, 'u7', NULL, NULL, 'zzz');
    """
    made = convert_sqlite(sqlite_file(tmp_path / "circle.db", script), tmp_path / "out")
    tables = {table.name: table for table in imported(tmp_path / "out", "circle").tables}
    assert tables["a"].columns[0].primary_key
    assert {key.table for key in tables["a"].foreign_keys} == {"b"}
    assert tables["b"].foreign_keys == (ForeignKey(columns=("a",), table="a", references=("x",)),)
    assert ForeignKey(columns=("p", "q"), table="d", references=("p", "q")) in tables["c"].foreign_keys
    text = "\n".join(made.notes)
    assert "a: the primary key (x) is declared, not enforced: 1 rows without it" in text
    assert "c: the foreign key (w) to a is declared, not enforced: w is VARCHAR, a.w is BIGINT" in text


def test_texts_that_are_not_utf8_are_read_and_named(tmp_path: Path) -> None:
    rows = {"INSERT INTO t VALUES (CAST(? AS TEXT))": [(b"caf\xe9",), ("naïve".encode(),), (b"\x81",)]}
    made = convert_sqlite(sqlite_file(tmp_path / "t.db", "CREATE TABLE t (x TEXT);", rows), tmp_path / "out")
    assert cells(made.path, "SELECT x FROM t") == [("café",), ("naïve",), ("\ufffd",)]
    assert "t: 2 texts are not UTF-8; read as Windows-1252" in made.notes


def test_names_that_differ_in_case_only_are_kept_apart(tmp_path: Path) -> None:
    script = """
    CREATE TABLE t (a INTEGER, bb INTEGER);
    INSERT INTO t VALUES (1, 2);
    PRAGMA writable_schema = ON;
    UPDATE sqlite_master SET sql = 'CREATE TABLE t (a INTEGER, "" INTEGER)' WHERE name = 't';
    """
    made = convert_sqlite(sqlite_file(tmp_path / "t.db", script), tmp_path / "out")
    assert [column.name for column in made.schema[0].columns] == ["a", "column"]
    script = 'CREATE TABLE "É" (x INTEGER); CREATE TABLE "é" (x INTEGER, "Ä" TEXT, "ä" TEXT);'
    made = convert_sqlite(sqlite_file(tmp_path / "u.db", script), tmp_path / "out")
    assert [table.name for table in made.schema] == ["É", "é_2"]
    assert [column.name for column in made.schema[1].columns] == ["x", "Ä", "ä_2"]
    assert "'é': is called é_2 here" in made.notes


def test_a_wide_table_and_many_rows(tmp_path: Path) -> None:
    columns = ", ".join(f"c{at} INTEGER" for at in range(300))
    values = ", ".join("?" * 300)
    rows = {f"INSERT INTO wide VALUES ({values})": [tuple(range(300))] * 40}
    made = convert_sqlite(sqlite_file(tmp_path / "wide.db", f"CREATE TABLE wide ({columns});", rows), tmp_path / "out")
    assert (len(made.schema[0].columns), made.rows) == (300, 40)
    assert cells(made.path, "SELECT sum(c299) FROM wide") == [(299 * 40,)]


def test_an_index_does_not_change_the_order(tmp_path: Path) -> None:
    script = "CREATE TABLE t (a INTEGER, b INTEGER); CREATE INDEX i ON t (b, a);"
    script += "INSERT INTO t VALUES (1, 9), (2, 8), (3, 7);"
    made = convert_sqlite(sqlite_file(tmp_path / "t.db", script), tmp_path / "out")
    assert cells(made.path, "SELECT a FROM t") == [(1,), (2,), (3,)]


def test_rows_in_the_write_ahead_log_are_read(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1), (2);"
        )
        assert convert_sqlite(path, tmp_path / "out").rows == 2
        connection.execute("INSERT INTO t VALUES (3)")
        connection.commit()
        with pytest.raises(DataError, match="with other content"):
            convert_sqlite(path, tmp_path / "out")
        assert convert_sqlite(path, tmp_path / "out", replace=True).rows == 3


VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
)


@settings(max_examples=25, deadline=None)
@given(
    affinity=st.sampled_from(["", "INTEGER", "REAL", "TEXT", "NUMERIC", "BLOB"]),
    values=st.lists(VALUES, min_size=1, max_size=6),
)
def test_every_value_arrives_as_sqlite_holds_it(
    tmp_path_factory: pytest.TempPathFactory, affinity: str, values: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("values")
    source = sqlite_file(
        folder / "v.db", f"CREATE TABLE t (x {affinity});", {"INSERT INTO t VALUES (?)": [(v,) for v in values]}
    )
    made = convert_sqlite(source, folder / "out")
    kind = made.schema[0].columns[0].type
    with closing(sqlite3.connect(source)) as connection:
        shown = "CAST(x AS TEXT)" if kind == "VARCHAR" else "x"
        expected = [value for (value,) in connection.execute(f"SELECT {shown} FROM t")]
    found = [value for (value,) in cells(made.path, "SELECT x FROM t")]
    assert found == ([None if v is None else float(v) for v in expected] if kind == "DOUBLE" else expected)


# ---- faults ------------------------------------------------------------------------------------------------


def broken(path: Path) -> Path:
    data = bytearray(
        sqlite_file(path, "CREATE TABLE t (x TEXT);", {"INSERT INTO t VALUES (?)": [("y" * 900,)] * 40}).read_bytes()
    )
    data[5000:20000] = b"\x7f" * 15000
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda p: p, r"cannot be read \(No such file"),
        (lambda p: p.write_bytes(b"x" * 5000) and p, "is not a SQLite database, or it is encrypted"),
        (lambda p: p.touch() or p, "holds no table"),
        (broken, "cannot be read as a SQLite database"),
        (lambda p: p.mkdir() or p, r"cannot be read \(Is a directory"),
    ],
)
def test_a_source_that_cannot_be_read_leaves_nothing(
    tmp_path: Path, make: Callable[[Path], Path], problem: str
) -> None:
    path = make(tmp_path / "bad.sqlite")
    with pytest.raises(DataError, match=problem):
        convert_sqlite(path, tmp_path / "out")
    assert not list((tmp_path / "out" / "databases").glob("*")) if (tmp_path / "out").exists() else True


def test_the_same_file_is_not_imported_twice(tmp_path: Path) -> None:
    source = sqlite_file(tmp_path / "school.sqlite")
    first = convert_sqlite(source, tmp_path / "out")
    before = first.path.stat()
    again = convert_sqlite(source, tmp_path / "out")
    assert (first.skipped, again.skipped) == (False, True)
    assert (again.schema, again.notes) == (first.schema, first.notes)
    assert first.path.stat() == before
    assert not os.access(first.path, os.W_OK) or os.geteuid() == 0


def test_the_hash_is_of_the_content_not_of_the_file(tmp_path: Path) -> None:
    source = sqlite_file(tmp_path / "school.sqlite")
    hashes = set()
    for out in ("one", "two"):
        convert_sqlite(source, tmp_path / out)
        hashes.add(imported(tmp_path / out, "school").instances[0].sha256)
    assert len(hashes) == 1


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    convert_sqlite(sqlite_file(tmp_path / "one" / "shop.db", "CREATE TABLE a (x);"), tmp_path / "out")
    other = sqlite_file(tmp_path / "two" / "shop.db", "CREATE TABLE b (x);")
    with pytest.raises(DataError, match=r"'shop' is there already, with other content"):
        convert_sqlite(other, tmp_path / "out")
    assert convert_sqlite(other, tmp_path / "out", "shop_2").name == "shop_2"
    assert [table.name for table in convert_sqlite(other, tmp_path / "out", replace=True).schema] == ["b"]
    assert [table.name for table in imported(tmp_path / "out", "shop").tables] == ["b"]
    own = tmp_path / "out" / "databases" / "own"
    own.mkdir()
    (own / "schema.sql").write_text("CREATE TABLE t (x INTEGER);")
    with pytest.raises(DataError, match=r"written as schema\.sql"):
        convert_sqlite(other, tmp_path / "out", "own", replace=True)


@pytest.mark.parametrize("name", ["../x", "a b", "main", "TEMP", ".x"])
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot name a database"):
        convert_sqlite(sqlite_file(tmp_path / "t.db"), tmp_path / "out", name)


def test_a_file_whose_name_is_odd_gets_one_that_fits(tmp_path: Path) -> None:
    script = "CREATE TABLE t (x);"
    assert convert_sqlite(sqlite_file(tmp_path / "my shop (1).db", script), tmp_path / "out").name == "my_shop_1_"
    assert convert_sqlite(sqlite_file(tmp_path / "main.db", script), tmp_path / "out").name == "main_db"
    assert len(imported(tmp_path / "out", "main_db").tables) == 1


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sqlite_source, "build", full)
    with pytest.raises(RunError, match="No space left on device"):
        convert_sqlite(sqlite_file(tmp_path / "t.db"), tmp_path / "out")
    assert list((tmp_path / "out" / "databases").iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(RunError, match="cannot be written"):
        convert_sqlite(sqlite_file(tmp_path / "t.db"), tmp_path / "out")


def test_a_killed_import_leaves_nothing_that_counts_and_is_swept(tmp_path: Path) -> None:
    source = sqlite_file(tmp_path / "t.db")
    script = (
        "import os, sys; from pathlib import Path; from text2sql_rl.importers import sqlite_source as s\n"
        "s.build = lambda *a: os.kill(os.getpid(), 9)\n"
        "s.convert_sqlite(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(source), str(tmp_path / "out")], check=False)
    assert done.returncode == -9
    databases = tmp_path / "out" / "databases"
    assert len(list(databases.glob(".t-*.tmp"))) == 1
    assert DatabaseStore(databases, tmp_path / "cache").names() == ()
    convert_sqlite(source, tmp_path / "out")
    assert [path.name for path in databases.iterdir()] == ["t"]


def test_a_kill_between_file_and_seal_counts_as_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert_sqlite(sqlite_file(tmp_path / "one" / "t.db", "CREATE TABLE a (x);"), tmp_path / "out")
    other = sqlite_file(tmp_path / "two" / "t.db", "CREATE TABLE b (x);")
    real = layout.seal_path
    monkeypatch.setattr(layout, "seal_path", lambda path: path.with_name("gone.json"))
    with pytest.raises(RunError):
        convert_sqlite(other, tmp_path / "out", replace=True)
    monkeypatch.setattr(layout, "seal_path", real)
    made = convert_sqlite(other, tmp_path / "out", replace=True)
    assert not made.skipped
    assert [table.name for table in imported(tmp_path / "out", "t").tables] == ["b"]

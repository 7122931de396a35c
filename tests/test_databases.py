from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl import databases
from text2sql_rl.csv_rows import read_records
from text2sql_rl.databases import DatabaseStore, open_read_only, read_schema, sample_values
from text2sql_rl.errors import DataError, RunError
from text2sql_rl.records import ForeignKey

SCHEMA = """-- stables
CREATE TABLE yard (
    yard_code VARCHAR PRIMARY KEY,
    "Box Count" INTEGER
);

CREATE TABLE horse (
    id INTEGER PRIMARY KEY,
    name VARCHAR NOT NULL,
    foaled DATE,
    fee DECIMAL(6,2),
    retired BOOLEAN,
    yard_code VARCHAR REFERENCES yard(yard_code)
);
"""
YARDS = '"Box Count",yard_code\n20,ASH\n,BOG\n'
HORSES = (
    "id,name,foaled,fee,retired,yard_code\n"
    '1,"Say ""Hey"", boy",2020-02-29,10.50,true,ASH\n'
    '2,"",,,,\n'
    '3,"two\nlines",2021-01-01,0,false,ASH\n'
    "4,Plain,2021-01-01,7,false,BOG\n"
)


def make(root: Path, *, schema: str = SCHEMA, horses: str | bytes = HORSES, yards: str = YARDS) -> Path:
    folder = root / "stable"
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    (folder / "schema.sql").write_text(schema)
    (folder / "rows" / "yard.csv").write_text(yards)
    (folder / "rows" / "horse.csv").write_bytes(horses if isinstance(horses, bytes) else horses.encode())
    return folder


def store(tmp_path: Path) -> DatabaseStore:
    return DatabaseStore(tmp_path / "databases", tmp_path / "cache")


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with open_read_only(path) as connection:
        return connection.execute(sql).fetchall()


def test_rows_keep_null_and_empty_text_apart(tmp_path: Path) -> None:
    make(tmp_path / "databases")
    database = store(tmp_path).get("stable")
    found = rows(database.instances[0].path, "SELECT name, CAST(foaled AS VARCHAR), fee, retired, yard_code FROM horse")
    assert [tuple(map(str, row)) for row in found] == [
        ('Say "Hey", boy', "2020-02-29", "10.50", "True", "ASH"),
        ("", "None", "None", "None", "None"),
        ("two\nlines", "2021-01-01", "0.00", "False", "ASH"),
        ("Plain", "2021-01-01", "7.00", "False", "BOG"),
    ]
    assert rows(database.instances[0].path, 'SELECT * FROM yard ORDER BY "Box Count"') == [("ASH", 20), ("BOG", None)]


def test_schema_has_declared_order_types_and_keys(tmp_path: Path) -> None:
    make(tmp_path / "databases")
    yard, horse = store(tmp_path).get("stable").tables
    assert (yard.name, yard.rows, horse.name, horse.rows) == ("yard", 2, "horse", 4)
    assert [(c.name, c.type, c.nullable, c.primary_key) for c in horse.columns] == [
        ("id", "INTEGER", False, True),
        ("name", "VARCHAR", False, False),
        ("foaled", "DATE", True, False),
        ("fee", "DECIMAL(6,2)", True, False),
        ("retired", "BOOLEAN", True, False),
        ("yard_code", "VARCHAR", True, False),
    ]
    assert horse.foreign_keys == (ForeignKey(columns=("yard_code",), table="yard", references=("yard_code",)),)


def test_names_and_hash_depend_on_the_sources_only(tmp_path: Path) -> None:
    make(tmp_path / "one/databases")
    make(tmp_path / "two/databases")
    (tmp_path / "one/databases/README.md").write_text("no database")
    one, two = (DatabaseStore(tmp_path / n / "databases", tmp_path / n / "cache") for n in ("one", "two"))
    assert one.names() == ("stable",)
    assert one.get("stable").instances[0].sha256 == two.get("stable").instances[0].sha256
    make(tmp_path / "two/databases", horses=HORSES + "5,New,,,,\n")
    again = DatabaseStore(two.root, two.cache).get("stable")
    assert again.instances[0].sha256 != one.get("stable").instances[0].sha256
    assert again.tables[1].rows == 5


def test_the_file_is_read_only(tmp_path: Path) -> None:
    make(tmp_path / "databases")
    with (
        open_read_only(store(tmp_path).get("stable").instances[0].path) as connection,
        pytest.raises(duckdb.InvalidInputException, match="read-only"),
    ):
        connection.execute("DELETE FROM horse")


def test_a_ready_duckdb_file_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "databases" / "import-ed"
    folder.mkdir(parents=True)
    with duckdb.connect(str(folder / "import-ed.duckdb")) as connection:
        connection.execute('CREATE TABLE "a b" (x INTEGER); INSERT INTO "a b" VALUES (1)')
    database = store(tmp_path).get("import-ed")
    assert database.tables[0].name == "a b"
    assert database.instances[0].path == folder / "import-ed.duckdb"
    assert not (tmp_path / "cache").exists()


def test_sample_values_are_most_frequent_first_then_in_order(tmp_path: Path) -> None:
    make(tmp_path / "databases")
    database = store(tmp_path).get("stable")
    assert sample_values(database, "horse", "yard_code", 5) == ("ASH", "BOG")
    assert sample_values(database, "horse", "id", 2) == (1, 2)
    with pytest.raises(DataError, match=r"no column horse\.nope"):
        sample_values(database, "horse", "nope", 1)


BAD_ROWS = {
    "1,A,2020-02-30,,,": r"horse\.csv: line 2, column foaled: '2020-02-30' is not of type DATE",
    "1.5,A,,,,": r"horse\.csv: line 2, column id: '1\.5' is not of type INTEGER",
    "1,A,,,,\n1,B,,,,": r"horse\.csv: line 3: .*[Dd]uplicate key",
    "1,A,,,,\n2,,,,,": r"horse\.csv: line 3: .*NOT NULL",
    '1,"a\nb",,,,\n2,A,,,,NOPE': r"horse\.csv: line 4: .*foreign key",
    "1,A,,,": r"horse\.csv: line 2: has 5 fields where the header names 6",
    '1,A "b",,,,': r"horse\.csv: line 2: a quote in the wrong place",
    '1,"A,,,,': r"horse\.csv: line 2: a quote in the wrong place",
}


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_bad_rows_are_named_and_leave_nothing_behind(tmp_path: Path, bad: str) -> None:
    make(tmp_path / "databases", horses=f"id,name,foaled,fee,retired,yard_code\n{bad}\n")
    with pytest.raises(DataError, match=BAD_ROWS[bad]):
        store(tmp_path).get("stable")
    assert [p.name for p in (tmp_path / "cache").iterdir() if not p.name.endswith(".lock")] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horses": ""}, r"horse\.csv: is empty"),
        ({"horses": "id,name\n"}, r"horse\.csv: line 1: must name each column once; wrong: foaled"),
        ({"horses": "id,id,name,foaled,fee,retired,yard_code\n"}, r"line 1: .*wrong: id"),
        ({"horses": "id,colour\n"}, r"line 1: there is no column 'colour'"),
        ({"horses": "id,name\n1,é\n".encode("latin-1")}, r"horse\.csv: line 2: is not UTF-8"),
        ({"schema": SCHEMA.replace("DATE,", "DATE NOT,")}, r"schema\.sql: line \d+: Parser Error"),
        ({"schema": SCHEMA.replace("foaled DATE", "foaled DAY")}, r"schema\.sql: line 7: .*DAY"),
        ({"schema": SCHEMA + "COPY horse TO 'x.csv';"}, r"schema\.sql: line \d+: only CREATE TABLE"),
        ({"schema": "CREATE TABLE yard (yard_code VARCHAR);"}, r"belongs to no table|horse\.csv"),
    ],
)
def test_other_bad_content_is_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    make(tmp_path / "databases", **change)
    with pytest.raises(DataError, match=message):
        store(tmp_path).get("stable")


def test_missing_things_are_named(tmp_path: Path) -> None:
    folder = make(tmp_path / "databases")
    (folder / "rows" / "yard.csv").unlink()
    with pytest.raises(DataError, match=r"yard\.csv: the rows of table yard are missing"):
        store(tmp_path).get("stable")
    for name in ("nope", "../stable", ""):
        with pytest.raises(DataError, match="there is no database"):
            store(tmp_path).get(name)
    with pytest.raises(DataError, match=r"no database 'stabel'\. Near it: stable"):
        store(tmp_path).get("stabel")
    with pytest.raises(DataError, match="is not a folder"):
        DatabaseStore(tmp_path / "nowhere", tmp_path / "cache").names()
    with pytest.raises(DataError, match="cannot be opened"):
        read_schema(folder / "schema.sql")


@pytest.mark.parametrize("damage", ["cut", "flip", "no_seal", "bad_seal"])
def test_a_damaged_cache_file_is_built_anew(tmp_path: Path, damage: str) -> None:
    make(tmp_path / "databases")
    path = store(tmp_path).get("stable").instances[0].path
    content = path.read_bytes()
    path.chmod(0o644)
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        path.write_bytes(content[:9000] + bytes([content[9000] ^ 1]) + content[9001:])
    elif damage == "no_seal":
        path.with_suffix(".json").unlink()
    else:
        path.with_suffix(".json").write_text("[")
    again = store(tmp_path).get("stable")
    assert again.tables[1].rows == 4
    assert rows(again.instances[0].path, "SELECT count(*) FROM horse") == [(4,)]


def test_processes_that_build_at_once_agree(tmp_path: Path) -> None:
    make(tmp_path / "databases")
    script = (
        "import sys; from pathlib import Path; from text2sql_rl.databases import DatabaseStore; "
        "d = DatabaseStore(Path(sys.argv[1]), Path(sys.argv[2])).get('stable'); print(d.tables[1].rows)"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path / "databases"), str(tmp_path / "cache")]
    workers = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [worker.communicate(timeout=60)[0].strip() for worker in workers] == ["4"] * 4
    assert not list((tmp_path / "cache").glob("*.tmp*"))


def test_a_cache_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    make(tmp_path / "databases")
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(RunError, match=r"cannot be built there .*another cache folder"):
        store(tmp_path).get("stable")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), duckdb.IOException("No space left")])
def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    make(tmp_path / "databases")

    def full(folder: Path, target: Path) -> tuple[str, ...]:
        target.write_text("half")
        raise error

    monkeypatch.setattr(databases, "build_file", full)
    with pytest.raises(RunError, match=r"stable cannot be built there .*No space left.*Free disk space"):
        store(tmp_path).get("stable")
    assert [p.suffix for p in (tmp_path / "cache").iterdir()] == [".lock"]


@pytest.mark.parametrize("room_bytes", [0, 5_000, 40_000, 80_000])
def test_a_disk_that_fills_while_building_is_one_clear_error(tmp_path: Path, room_bytes: int) -> None:
    make(tmp_path / "databases")
    script = (
        "import resource, sys; from pathlib import Path; from text2sql_rl.databases import DatabaseStore\n"
        "from text2sql_rl.errors import RunError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)\n"
        "try: DatabaseStore(Path(sys.argv[1]), Path(sys.argv[2])).get('stable')\n"
        "except RunError as error: print(error)"
    )
    folders = [str(tmp_path / "databases"), str(tmp_path / "cache")]
    arguments = [sys.executable, "-c", script, *folders, str(room_bytes)]
    answer = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert "stable cannot be built there" in answer.stdout, answer.stderr
    assert [p.suffix for p in (tmp_path / "cache").iterdir()] == [".lock"]


def as_csv(field: str | None) -> str:
    return "" if field is None else '"' + field.replace('"', '""') + '"'


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=6), min_size=2, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_any_fields_come_back_from_csv(tmp_path_factory: pytest.TempPathFactory, table: list[list[str | None]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    text = "".join(",".join(map(as_csv, record)) + "\n" for record in table)
    path.write_bytes(text.encode())
    assert [list(fields) for _, fields in read_records(path)] == table


def test_line_numbers_count_lines_inside_fields_and_the_last_line_needs_no_end(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfa,b\r\n"x\ny",1\r\n\r\nz,')
    assert read_records(path) == [(1, ("a", "b")), (2, ("x\ny", "1")), (5, ("z", None))]

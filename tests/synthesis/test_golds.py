from __future__ import annotations

import pytest

from text2sql_rl.records import Database
from text2sql_rl.synthesis.bench import bench
from text2sql_rl.synthesis.mutants import mutants

COLUMNS = {"horse": ("name", "colour", "weight"), "yard": ("town", "boxes")}


def test_mutants_of_a_filter() -> None:
    assert mutants("SELECT name FROM horse WHERE weight > 450 AND colour = 'bay'", COLUMNS) == (
        "SELECT name FROM horse",
        "SELECT name FROM horse WHERE weight > 450",
        "SELECT name FROM horse WHERE colour = 'bay'",
        "SELECT name FROM horse WHERE weight > 450 OR colour = 'bay'",
        "SELECT name FROM horse WHERE weight >= 450 AND colour = 'bay'",
        "SELECT name FROM horse WHERE weight < 450 AND colour = 'bay'",
        "SELECT name FROM horse WHERE weight > 450 AND colour <> 'bay'",
        "SELECT \"colour\" FROM horse WHERE weight > 450 AND colour = 'bay'",
        "SELECT \"weight\" FROM horse WHERE weight > 450 AND colour = 'bay'",
    )


@pytest.mark.parametrize(
    ("sql", "mutant"),
    [
        ("SELECT AVG(weight) FROM horse", "SELECT SUM(weight) FROM horse"),
        ("SELECT COUNT(DISTINCT colour) FROM horse", "SELECT COUNT(*) FROM horse"),
        ("SELECT DISTINCT colour FROM horse", "SELECT colour FROM horse"),
        (
            "SELECT name FROM horse ORDER BY weight DESC LIMIT 1",
            "SELECT name FROM horse ORDER BY weight ASC LIMIT 1",
        ),
        ("SELECT name FROM horse ORDER BY weight DESC LIMIT 1", "SELECT name FROM horse ORDER BY weight DESC LIMIT 2"),
        (
            "SELECT horse.name FROM horse INNER JOIN yard ON horse.yard_id = yard.yard_id",
            "SELECT horse.name FROM horse INNER JOIN yard ON TRUE",
        ),
        ("SELECT name FROM horse WHERE colour IS NULL", "SELECT name FROM horse WHERE NOT colour IS NULL"),
        (
            "SELECT town FROM yard WHERE boxes > 1 EXCEPT SELECT town FROM yard WHERE boxes = 9",
            "SELECT town FROM yard WHERE boxes = 9 EXCEPT SELECT town FROM yard WHERE boxes > 1",
        ),
        (
            "SELECT colour FROM horse GROUP BY colour HAVING COUNT(*) > 3",
            "SELECT colour FROM horse GROUP BY colour HAVING COUNT(*) >= 3",
        ),
    ],
)
def test_a_mutant_of_each_kind(sql: str, mutant: str) -> None:
    assert mutant in mutants(sql, COLUMNS)


def test_a_boundary_that_no_row_can_show_is_no_mutant() -> None:
    sql = "SELECT name FROM horse WHERE weight > (SELECT AVG(weight) FROM horse)"
    assert all(">=" not in mutant for mutant in mutants(sql, COLUMNS))


FAULTS = {
    "SELECT nothing FROM horse": "error",
    "SELECT name FROM horse WHERE colour = 'pink'": "empty",
    "SELECT a.name FROM start AS a, start AS b, horse": "error",
    "SELECT a.jockey FROM start AS a, start AS b": "large",
    "SELECT weight FROM horse WHERE weight IS NULL": "null",
    "SELECT COUNT(*) FROM horse WHERE colour = 'pink'": "zero",
    "SELECT name FROM horse ORDER BY colour LIMIT 3": "tie",
    "SELECT name FROM horse ORDER BY foaled LIMIT 50": "tie",
    "SELECT FIRST(name) FROM horse": "order",
    "SELECT name FROM horse WHERE foaled > '2000-01-01'": "mutant",
    "SELECT DISTINCT name FROM horse": "mutant",
    "SELECT name FROM horse WHERE colour = 'bay'": "",
    "SELECT name FROM horse ORDER BY foaled DESC LIMIT 3": "",
}


@pytest.mark.parametrize("sql", FAULTS)
def test_the_bench_names_what_is_wrong_with_a_gold(stable: Database, sql: str) -> None:
    with bench(stable) as proof:
        assert proof.fault(sql) == FAULTS[sql]

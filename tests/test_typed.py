"""Answers of constants, however they are wrapped, are typed in; honest answers with constants in them are not."""

from __future__ import annotations

import importlib
import json
import time

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import REPOSITORY
from text2sql_rl.compare.never import never_true
from text2sql_rl.compare.typed import typed_in
from text2sql_rl.content import open_store

GOLD = "SELECT DISTINCT opening FROM chess_game"
ROWS = "(VALUES ('a'), ('b'))"
TYPED_IN = [
    f"SELECT v FROM {ROWS} t(v), chess_game",
    f"SELECT answer.* FROM {ROWS} AS answer CROSS JOIN (SELECT 1 FROM chess_game LIMIT 1) AS one",
    f"SELECT * FROM {ROWS} AS answer WHERE EXISTS (SELECT 1 FROM chess_game)",
    f"SELECT * FROM {ROWS} AS answer WHERE (SELECT count(*) FROM chess_game) > 20",
    f"SELECT * FROM {ROWS} UNION ALL SELECT NULL FROM chess_game WHERE 1 = 0",
    f"SELECT * FROM {ROWS} UNION ALL SELECT opening FROM chess_game WHERE 1 = 0",
    f"SELECT opening FROM chess_game WHERE false UNION ALL {ROWS}",
    f"{ROWS} INTERSECT SELECT opening FROM chess_game",
    "SELECT opening FROM chess_game INTERSECT SELECT 'a'",
    "SELECT 'a' EXCEPT SELECT opening FROM chess_game",
    "SELECT * FROM (SELECT 'a' UNION SELECT 'b') WHERE (SELECT count(*) FROM chess_game) > 5",
    "SELECT unnest(['a', 'b']) FROM chess_game LIMIT 2",
    "SELECT DISTINCT u FROM chess_game, unnest(['a', 'b']) x(u)",
    "WITH c AS (SELECT 'a' AS x UNION SELECT 'b') SELECT x FROM c JOIN chess_game ON true",
    "WITH c(x) AS (VALUES ('a')) SELECT c.x FROM c, chess_game",
    "WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM c, chess_game WHERE x < 5) SELECT x FROM c",
    "SELECT v.x FROM (VALUES ('a')) v(x) JOIN chess_game g ON g.opening = v.x",
    "SELECT CASE WHEN (SELECT count(*) FROM chess_game) > 5 THEN 'a' ELSE 'b' END",
    "SELECT CASE WHEN count(*) > 5 THEN 'a' ELSE 'b' END FROM chess_game",
    "SELECT CASE WHEN 1 = 1 THEN 'a' ELSE opening END FROM chess_game",
    "SELECT CASE row_number() OVER () WHEN 1 THEN 'a' WHEN 2 THEN 'b' END FROM chess_game LIMIT 2",
    "SELECT max(290) FROM chess_game",
    "SELECT any_value('a') FROM chess_game",
    "SELECT x FROM (SELECT count(*) AS x FROM range(290)) a, chess_game",
    "SELECT (SELECT 'a' FROM chess_game LIMIT 1)",
    "SELECT coalesce('a', opening) FROM chess_game",
    "SELECT nullif('a', opening) FROM chess_game",
    "SELECT b FROM (SELECT 'a' AS zz, zz AS b FROM chess_game)",
    "SELECT \"'a'\" FROM (SELECT 'a'), chess_game",
    "SELECT s.a FROM (SELECT {'a': 5} AS s FROM chess_game)",
    "SELECT list_transform(['a'], q -> q || 'b')[1] FROM chess_game",
    "SELECT a /* x */ FROM/**/(VALUES (5)) a(a), chess_game",
    "SELECT NULL FROM chess_game LIMIT 1",
    "SELECT true FROM chess_game LIMIT 1",
]
NOTHING = [
    "SELECT opening FROM t LIMIT 0",
    "SELECT count(*) FROM t WHERE 1 = 0",
    "SELECT sum(a) FROM t WHERE a <> a",
    "SELECT a FROM t WHERE a = NULL",
    "SELECT a FROM t WHERE a IS NULL AND a IS NOT NULL",
    "SELECT a FROM t WHERE a > 5 AND a < 3",
    "SELECT a FROM t WHERE a = 'x' AND a = 'y'",
    "SELECT a FROM t WHERE a = 1 AND 2 = 3",
    "SELECT a FROM t GROUP BY a HAVING false",
    "SELECT x.a FROM t x JOIN u ON 1 = 0",
    "SELECT a FROM (SELECT * FROM t LIMIT 0)",
    "TABLE t LIMIT 0",
]
HONEST = [
    "SELECT name FROM t",
    "SELECT CASE WHEN age > 40 THEN 'old' ELSE 'young' END FROM t",
    "SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END FROM t",
    "SELECT CASE WHEN count(*) > 5 THEN 'many' ELSE 'few' END FROM t GROUP BY a",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.id = x.id) THEN 'y' ELSE 'n' END FROM a x",
    "SELECT CASE WHEN count(*) > 10 THEN 1 ELSE 0 END FROM t",
    "SELECT CASE WHEN count(*) > 10 THEN true ELSE false END FROM t",
    "SELECT sum(CASE WHEN a > 1 THEN 1 ELSE 0 END) FROM t",
    "SELECT count(1) FROM t",
    "SELECT sum(1) FROM t",
    "SELECT count(*) > 10 FROM t",
    "SELECT 100.0 * count(*) FILTER (WHERE a = 1) / count(*) FROM t",
    "SELECT EXISTS (SELECT 1 FROM t)",
    "SELECT 1 IN (SELECT a FROM t)",
    "SELECT (SELECT 1 FROM t LIMIT 1) IS NOT NULL",
    "SELECT coalesce((SELECT 1 FROM t WHERE a = 1), 0)",
    "SELECT coalesce(name, 'none') FROM t",
    "SELECT v, count(*) FROM (VALUES ('a')) x(v) JOIN t ON t.a = v GROUP BY v",
    "SELECT opening FROM t UNION SELECT 'x'",
    "WITH c AS (SELECT * FROM t WHERE a = 5) SELECT * FROM c",
    "SELECT n FROM (SELECT count(*) AS n, 5 AS k FROM t) x WHERE n > 5",
    "WITH RECURSIVE c AS (SELECT id, 0 AS d FROM t WHERE id = 1 UNION ALL SELECT t.id, d + 1 FROM t JOIN c"
    " ON t.p = c.id) SELECT id FROM c",
    "SELECT b FROM t, LATERAL (SELECT t.a + 1 AS b)",
    "SELECT a FROM t WHERE 1 = 1 AND b = 3",
    "SELECT a FROM t WHERE a >= 5 AND a <= 5",
    "SELECT a FROM t WHERE b NOT IN (NULL, 1) OR true",
    "SELECT a FROM t LEFT JOIN (SELECT 1 AS z WHERE false) q ON true",
    "SELECT 'Mr ' || name FROM t",
    "SELECT unnest(tags) FROM t WHERE 1 = 1",
    "SELECT row_number() OVER (ORDER BY a) + 0 FROM t",
    "SELECT (SELECT max(a) FROM t WHERE b = 's')",
]


@pytest.mark.parametrize("sql", TYPED_IN)
def test_constants_are_typed_in_however_they_are_wrapped(sql: str) -> None:
    assert typed_in(sql, GOLD)
    assert not typed_in(sql, sql)


@pytest.mark.parametrize("sql", NOTHING)
def test_nothing_on_any_rows_answers_no_gold_that_reads(sql: str) -> None:
    assert typed_in(sql, GOLD, proves_little=True)
    assert not typed_in(sql, "SELECT b FROM t WHERE 3 < 2", proves_little=True)


@pytest.mark.parametrize("sql", HONEST)
@pytest.mark.parametrize("proves_little", [True, False])
def test_honest_answers_with_constants_in_them_are_not(sql: str, proves_little: bool) -> None:
    assert not typed_in(sql, GOLD, proves_little=proves_little)


def test_constants_of_the_gold_s_own_text_are_anybody_s() -> None:
    assert not typed_in("SELECT v FROM (VALUES ('ops')) x(v), t", "SELECT dept FROM t WHERE dept = 'ops'")
    assert not typed_in("SELECT NULL FROM t WHERE d IS NULL", "SELECT d FROM t WHERE d IS NULL")
    assert typed_in("SELECT NULL FROM t LIMIT 1", "SELECT d FROM t WHERE d IS NOT NULL")
    assert typed_in("SELECT 3 FROM t", "SELECT a FROM t LIMIT 3")


WRAPPERS = [
    "SELECT * FROM ({}) AS a",
    "WITH c AS ({}) SELECT * FROM c",
    "SELECT b.* FROM ({}) AS b, (SELECT 1 FROM t LIMIT 1) AS one",
    "SELECT * FROM ({}) AS a WHERE EXISTS (SELECT 1 FROM t)",
    "({}) UNION ALL SELECT * FROM (SELECT NULL FROM t WHERE 1 = 0)",
    "({}) INTERSECT ({})",
    "SELECT DISTINCT * FROM ({}) AS a ORDER BY 1",
]


@given(st.lists(st.sampled_from(WRAPPERS), max_size=5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_wrapping_turns_constants_into_an_answer_or_an_answer_into_constants(wraps: list[str], reads: bool) -> None:
    sql = "SELECT name FROM t WHERE a = 5" if reads else "SELECT 'x' UNION SELECT 'y'"
    for wrap in wraps:
        sql = wrap.replace("{}", sql)
    assert typed_in(sql, GOLD) is not reads


def test_no_gold_and_no_rewriting_of_one_is_typed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    # A folder of scripts, so its modules are found where `python bench/run.py` finds them.
    monkeypatch.syspath_prepend(str(REPOSITORY / "bench"))
    rewritten = importlib.import_module("rewrites").rewritten
    lines = (REPOSITORY / "data" / "dev" / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines[::12]]
    store, seen = open_store(), 0
    for question in questions:
        gold = question["gold_sql"]
        for name, sql in rewritten(gold, store.get(question["database"])):
            seen += 1
            assert not typed_in(sql, gold), (name, sql)
            assert not typed_in(sql, gold, proves_little=True), (name, sql)
    assert seen > 50


NEVER = [
    "NULL",
    "NOT true",
    "1 > 2 OR a = NULL",
    "a BETWEEN 5 AND 3",
    "a IN (NULL)",
    "a = 1 AND NOT a = 1",
    "3 < a AND a <= 3",
    "a = 1 AND a > 1",
]
POSSIBLE = [
    "a = 1 OR 1 = 0",
    "a = a",
    "a IS NULL",
    "a > 3 AND b < 3",
    "a = 'x' AND b = 'y'",
    "a = '1' AND a = '1.0'",
    "NOT EXISTS (SELECT 1)",
]


@pytest.mark.parametrize("condition", [*NEVER, *POSSIBLE])
def test_conditions_that_no_row_meets(condition: str) -> None:
    where = sqlglot.parse_one(f"SELECT a FROM t WHERE {condition}", dialect="duckdb").args["where"]
    assert never_true(where.this) is (condition in NEVER)


@pytest.mark.parametrize(
    "piece", ["CASE WHEN {} THEN 'a' ELSE name END", "(SELECT max({}) FROM t)", "NOT ({})", "{} + 1"]
)
def test_nesting_takes_time_in_proportion(piece: str) -> None:
    def seconds(times: int) -> float:
        text = "a = 1"
        for _ in range(times):
            text = piece.replace("{}", text)
        started = time.process_time()
        typed_in(f"SELECT {text}, 5 FROM t", GOLD)
        return time.process_time() - started

    seconds(2)
    assert seconds(16) < 200 * max(seconds(4), 1e-3)

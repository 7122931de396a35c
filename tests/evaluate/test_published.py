"""The published rules: by hand, against a second implementation, and on predictions for Spider dev."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluate import spider_dev
from text2sql_rl.evaluate.predictions import read_rows
from text2sql_rl.evaluate.published import is_ordered, set_match, suite_match, without_distinct


@pytest.mark.parametrize(
    ("gold", "rows", "by_set", "as_bag", "in_order"),
    [
        ([(1,), (2,)], [(2,), (1,)], True, True, False),
        ([(1,), (1,)], [(1,)], True, False, False),
        ([(1, "a")], [("a", 1)], False, True, True),
        ([(1, 2), (2, 1)], [(2, 1), (1, 2)], True, True, True),  # the columns the other way round
        ([(1, "a"), (2, "b")], [(1, "b"), (2, "a")], False, False, False),
        ([], [], True, True, True),
        ([], [(None,)], False, False, False),
        ([(1,)], [(1.0,)], True, True, True),
        ([(1,)], [(True,)], True, True, True),
        ([(Decimal("0.10"),)], [(Decimal("0.1"),)], True, True, True),
        ([(0.1 + 0.2,)], [(0.3,)], False, False, False),
        ([("a",)], [("A",)], False, False, False),
        ([(None,)], [("None",)], False, False, False),
        ([([1, 2],)], [([1, 2],)], True, True, True),
        ([({"a": [1]},)], [({"a": [2]},)], False, False, False),
    ],
)
def test_the_rules_by_hand(gold: Any, rows: Any, by_set: bool, as_bag: bool, in_order: bool) -> None:
    assert set_match(gold, rows) is by_set
    assert suite_match(gold, rows, ordered=False) is as_bag
    assert suite_match(gold, rows, ordered=True) is in_order


def test_what_the_texts_decide() -> None:
    assert is_ordered("select a from t ORDER\n BY a")
    assert is_ordered("select 1 from (select a from t order by a limit 1)")
    assert not is_ordered("select border, bye from t")
    assert without_distinct("SELECT DISTINCT a, COUNT(DISTINCT b) FROM t") == "SELECT  a, COUNT( b) FROM t"


@pytest.mark.parametrize(
    "sql",
    [
        "select a from t where x = 'distinct'",
        "select distinct on (a) b from t",
        "select a is distinct from b",
        "select a is not distinct from b",
        "select 'distinct",
    ],
)
def test_not_every_distinct_is_taken_out(sql: str) -> None:
    assert without_distinct(sql) == sql


def test_many_columns_of_the_same_values_end_in_time() -> None:
    gold = [tuple((row * 7 + column * column) % 2 for column in range(14)) for row in range(40)]
    rows = [tuple(reversed(row)) for row in gold]
    assert suite_match(gold, rows, ordered=False)
    suite_match(gold, [(*row[:-1], 1 - row[-1]) for row in rows], ordered=False)


# ---- a second implementation, as plain as can be -------------------------------------------------------------


def second_set(gold: list[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> bool:
    return all(row in rows for row in gold) and all(row in gold for row in rows)


def second_suite(gold: list[tuple[Any, ...]], rows: list[tuple[Any, ...]], ordered: bool) -> bool:
    if not gold and not rows:
        return True
    if len(gold) != len(rows) or len(gold[0]) != len(rows[0]):
        return False
    for order in itertools.permutations(range(len(gold[0]))):
        moved = [tuple(row[at] for at in order) for row in rows]
        if moved == gold if ordered else Counter(moved) == Counter(gold):
            return True
    return False


small = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from([0, 1.0, None])), max_size=4)


@settings(max_examples=150, deadline=None)
@given(small, small, st.permutations(range(3)), st.booleans())
def test_both_implementations_agree(gold: Any, other: Any, order: list[int], ordered: bool) -> None:
    for rows in (other, [tuple(row[at] for at in order) for row in reversed(gold)]):
        assert set_match(gold, rows) is second_set(gold, rows)
        assert suite_match(gold, rows, ordered=ordered) is second_suite(gold, rows, ordered)


# ---- Spider dev ------------------------------------------------------------------------------------------------


def plain_rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]] | None:
    try:
        return connection.execute(sql).fetchall()
    except duckdb.Error:
        return None


@pytest.mark.skipif(not spider_dev.SPIDER.is_dir(), reason="the shared Spider data is not here")
def test_every_tenth_spider_prediction_gets_the_same_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engine, loader of rows and rule are apart from the package's own: plain connections, no sandbox, no cache."""
    from text2sql_rl.content import open_content
    from text2sql_rl.evaluate.guard import HeldOut
    from text2sql_rl.evaluate.score import Instances, Settings, score
    from text2sql_rl.evaluate.sources import FileSource
    from text2sql_rl.sandbox import Limits
    from text2sql_rl.scoring import load_rule

    root, out = tmp_path / "root", tmp_path / "out"
    records = {one["id"]: one for one in spider_dev.build(root, every=10)}
    monkeypatch.setenv("TEXT2SQL_ROOT", str(root))
    monkeypatch.setenv("TEXT2SQL_CACHE", str(tmp_path / "cache"))
    content = open_content()
    questions = content.questions.role("spider")
    source = FileSource(root / "predictions.jsonl", questions)
    judging = Settings(rule=load_rule("binary-v1"), limits=Limits(timeout_s=20.0), instances=Instances.NONE)
    found = score(content.pairs(questions), source, out, judging, HeldOut(), lambda *told: None)
    assert found["roles"]["spider"]["questions"] == len(records) == 103
    opened: dict[str, duckdb.DuckDBPyConnection] = {}
    compared: Counter[tuple[bool, bool]] = Counter()
    for row in read_rows(out / "predictions.parquet"):
        one, name = records[row["question_id"]], row["database"]
        if name not in opened:
            file = root / "databases" / name / f"{name}.duckdb"
            opened[name] = duckdb.connect(str(file), read_only=True, config={"threads": 1})  # ties fall alike
        texts = (one["gold_sql"], one["prediction"])
        gold, own = (plain_rows(opened[name], text) for text in texts)
        by_set = gold is not None and own is not None and second_set(gold, own)
        gold, own = (plain_rows(opened[name], re.sub(r"\bdistinct\b", "", text, flags=re.I)) for text in texts)
        ordered = "order by" in one["gold_sql"].lower()
        by_suite = gold is not None and own is not None and second_suite(gold, own, ordered)
        assert (row["set_match"], row["suite_match"]) == (by_set, by_suite), one
        compared[by_set, by_suite] += 1
    assert all(compared[both] > 2 for both in itertools.product((True, False), repeat=2)), compared


def test_the_listed_disagreements_are_all_explained() -> None:
    """The list that docs/evaluation.md counts: ids, what was done to the gold, three verdicts, who is right and why."""
    head, *lines = spider_dev.LISTED.read_text(encoding="utf-8").splitlines()
    assert head.split("\t") == list(spider_dev.LISTED_COLUMNS)
    rows = [dict(zip(spider_dev.LISTED_COLUMNS, line.split("\t"), strict=True)) for line in lines]
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["why"] and row["right"] in ("headline", "published", "open") for row in rows)
    assert all(row["headline"] != row["bird"] or row["headline"] != row["suite"] for row in rows)
    page = (spider_dev.REPOSITORY / "docs" / "evaluation.md").read_text(encoding="utf-8")
    for line in spider_dev.table(rows):
        assert line in page
    assert json.dumps(len(rows)) in page

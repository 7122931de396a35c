"""Comparison: golden pairs a person can review, properties over generated answers, and time by ratio."""

from __future__ import annotations

import datetime as dt
import math
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.compare import compare, typed
from text2sql_rl.records import Execution, Gold, Match, Outcome, SortKey, Verdict

INT, TEXT, DOUBLE = "INTEGER", "VARCHAR", "DOUBLE"
INF, NAN = math.inf, math.nan


def rows(types: Sequence[str], *cells: tuple[Any, ...], names: Sequence[str] = ()) -> Execution:
    columns = tuple(names) or tuple(f"c{at}" for at in range(len(types)))
    return Execution(outcome=Outcome.ROWS, columns=columns, types=tuple(types), rows=cells)


def gold(execution: Execution, **more: Any) -> Gold:
    return Gold(sql="", execution=execution, **more)


def one(first: tuple[str, Any], second: tuple[str, Any]) -> Verdict:
    return compare(gold(rows([first[0]], (first[1],))), rows([second[0]], (second[1],)))


UUID = uuid.UUID("6f1f0d1e-0000-4000-8000-000000000001")
TOKYO = dt.timezone(dt.timedelta(hours=9))
SAME = [
    ((INT, 3), (DOUBLE, 3.0)),
    (("DECIMAL(10,2)", Decimal("0.10")), ("DECIMAL(12,4)", Decimal("0.1000"))),
    (("HUGEINT", 2**64 + 3), ("DECIMAL(38,0)", Decimal(2**64 + 3))),
    ((DOUBLE, 0.1 + 0.2), (DOUBLE, 0.3)),
    ((DOUBLE, 0.1 + 0.2 - 0.3), (DOUBLE, 0.0)),
    ((DOUBLE, NAN), (DOUBLE, -NAN)),
    ((DOUBLE, INF), (DOUBLE, INF)),
    ((DOUBLE, -0.0), (DOUBLE, 0.0)),
    (("BIGNUM", "123456789012345678901234567890"), ("HUGEINT", 123456789012345678901234567890)),
    (("BOOLEAN", True), (INT, 1)),
    ((TEXT, "Ren\u00e9"), (TEXT, "Rene\u0301")),
    (("ENUM('low', 'high')", "low"), (TEXT, "low")),
    (("UUID", UUID), (TEXT, str(UUID))),
    (("DATE", dt.date(2024, 1, 5)), (TEXT, "2024-01-05")),
    ((TEXT, "2024-01-05"), ("DATE", dt.date(2024, 1, 5))),
    ((TEXT, "2024-01-05 09:30:00"), ("TIMESTAMP", dt.datetime(2024, 1, 5, 9, 30))),
    (("DATE", dt.date(2024, 1, 5)), ("TIMESTAMP", dt.datetime(2024, 1, 5))),
    (
        ("TIMESTAMP WITH TIME ZONE", dt.datetime(2024, 1, 5, 9, tzinfo=TOKYO)),
        ("TIMESTAMP WITH TIME ZONE", dt.datetime(2024, 1, 5, tzinfo=dt.UTC)),
    ),
    (("TIME", dt.time(10, 0)), (TEXT, "10:00:00")),
    (("INTERVAL", dt.timedelta(hours=24)), ("INTERVAL", dt.timedelta(days=1))),
    (("BLOB", b"\xab"), ("BLOB", bytearray(b"\xab"))),
    (("INTEGER[]", [1, None, 2]), ("DOUBLE[]", [1.0, None, 2.0])),
    (("INTEGER[2]", (1, 2)), ("INTEGER[]", [1, 2])),
    (("MAP(VARCHAR, INTEGER)", {"x": 1, "y": 2}), ("MAP(VARCHAR, INTEGER)", {"y": 2, "x": 1})),
    (
        ("MAP(INTEGER[], INTEGER)", {"key": [[1], [2]], "value": [3, 4]}),
        ("MAP(INTEGER[], INTEGER)", {"key": [[2], [1]], "value": [4, 3]}),
    ),
    (("STRUCT(a INTEGER, b DOUBLE)", {"a": 1, "b": 0.3}), ("STRUCT(b DOUBLE, a INTEGER)", {"b": 0.1 + 0.2, "a": 1})),
    (("JSON", '{"a": 1, "b": [2]}'), ("JSON", '{"b":[2],"a":1}')),
    (('"NULL"', None), (INT, None)),
]
OTHER = [
    ((TEXT, None), (TEXT, "")),
    ((TEXT, None), (TEXT, "None")),
    ((INT, None), (INT, 0)),
    ((DOUBLE, None), (DOUBLE, NAN)),
    ((DOUBLE, INF), (DOUBLE, -INF)),
    ((DOUBLE, 1e308), (DOUBLE, INF)),
    (("BIGINT", 2**53), ("BIGINT", 2**53 + 1)),
    ((INT, 1_000_000_000), (INT, 1_000_000_001)),
    (("DECIMAL(38,2)", Decimal(f"1{'0' * 30}.00")), ("DECIMAL(38,2)", Decimal(f"1{'0' * 30}.01"))),
    ((DOUBLE, 0.001), (DOUBLE, 0.009)),
    ((DOUBLE, 1.0), (DOUBLE, 1.000002)),
    ((INT, 1), ("BOOLEAN", True)),
    (("BOOLEAN", True), (INT, 2)),
    (("BOOLEAN", True), (TEXT, "true")),
    ((TEXT, "00501"), (INT, 501)),
    ((TEXT, "Oslo"), (TEXT, "oslo")),
    ((TEXT, "Bo "), (TEXT, "Bo")),
    (("DATE", dt.date(2024, 1, 5)), (TEXT, "2024-1-5")),
    (("DATE", dt.date(2024, 1, 5)), (TEXT, "2024-01-32")),
    (("DATE", dt.date(2024, 1, 5)), ("TIMESTAMP", dt.datetime(2024, 1, 5, 0, 0, 1))),
    ((TEXT, "2024-01-05"), (TEXT, "2024-01-05 00:00:00")),
    (("BLOB", b"a"), ("BLOB", b"b")),
    (("INTEGER[]", [1, 2]), ("INTEGER[]", [2, 1])),
    (("INTEGER[]", []), ("INTEGER[]", None)),
    (("STRUCT(a INTEGER)", {"a": 1}), ("STRUCT(b INTEGER)", {"b": 1})),
    (("MAP(VARCHAR, INTEGER)", {"1": 1}), ("MAP(INTEGER, INTEGER)", {1: 1})),
    (("JSON", '{"a": 1}'), ("JSON", '{"a": "1"}')),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_same_value(first: tuple[str, Any], second: tuple[str, Any]) -> None:
    assert one(first, second).match == Match.MATCH


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_other_value(first: tuple[str, Any], second: tuple[str, Any]) -> None:
    verdict = one(first, second)
    assert (verdict.match, verdict.code) == (Match.MISMATCH, "values")
    assert verdict.words


def test_duplicates_matter() -> None:
    target = gold(rows([INT], (1,), (1,), (2,)))
    verdict = compare(target, rows([INT], (1,), (2,), (2,)))
    assert verdict.code == "multiplicity"
    assert verdict.row_overlap == pytest.approx(2 / 3)
    assert compare(target, rows([INT], (1,), (2,))).code == "multiplicity"
    assert compare(target, rows([INT], (1,), (3,))).code == "row_count"


def test_one_cell_is_not_broadcast() -> None:
    assert compare(gold(rows([INT], (50,))), rows([INT], (50,), (50,))).match == Match.MISMATCH
    assert compare(gold(rows([INT], (50,))), rows([INT])).code == "empty"


SCORES = rows([TEXT, INT], ("Zed", 90), ("Amy", 90), ("Kim", 70), ("Lou", 60))
BY_SCORE = (SortKey(column=1, descending=True, nulls_first=False),)


def names_in(*order: str) -> Execution:
    return rows([TEXT], *((name,) for name in order))


def test_order_matters_on_the_keys_and_only_there() -> None:
    hidden = gold(SCORES, sort_keys=BY_SCORE, hidden=1)
    assert compare(hidden, names_in("Zed", "Amy", "Kim", "Lou")).match == Match.MATCH
    assert compare(hidden, names_in("Amy", "Zed", "Kim", "Lou")).match == Match.MATCH
    verdict = compare(hidden, names_in("Zed", "Kim", "Amy", "Lou"))
    assert (verdict.code, verdict.row_overlap, verdict.column_overlap) == ("order", 1.0, 1.0)
    assert compare(gold(replace(SCORES)), replace(SCORES, rows=SCORES.rows[::-1])).match == Match.MATCH


def test_any_legal_choice_where_a_limit_cuts_a_tie() -> None:
    cut = gold(
        replace(SCORES, rows=SCORES.rows[:1]),
        sort_keys=BY_SCORE,
        hidden=1,
        legal_rows=SCORES.rows[:2],
        flags=("tie_cut",),
    )
    assert compare(cut, names_in("Amy")).match == Match.MATCH
    assert "tie_cut" in compare(cut, names_in("Amy")).flags
    assert compare(cut, names_in("Kim")).flags == ()
    both = compare(cut, names_in("Amy", "Zed"))
    assert (both.match, both.flags) == (Match.MISMATCH, ("ambiguous", "ties_kept"))


def test_a_choice_may_not_use_a_tied_row_twice() -> None:
    tied = rows([TEXT, INT], ("a", 9), ("b", 5), ("c", 5), ("d", 5))
    cut = gold(replace(tied, rows=tied.rows[:3]), sort_keys=BY_SCORE, hidden=1, legal_rows=tied.rows)
    assert compare(cut, names_in("a", "d", "b")).match == Match.MATCH
    assert compare(cut, names_in("a", "d", "d")).match == Match.MISMATCH
    assert compare(cut, names_in("d", "a", "b")).code == "order"


GAMES = rows([INT, INT], (2, 1), (0, 3), (4, 1), names=("home", "away"))
SWAPPED = ((1, 2), (3, 0), (1, 4))


@pytest.mark.parametrize(
    ("names", "cells", "match", "flags"),
    [
        (("x", "y"), GAMES.rows, Match.MATCH, ()),
        (("away", "home"), SWAPPED, Match.MATCH, ("permuted_columns",)),
        (("AWAY", "Home"), SWAPPED, Match.MATCH, ("permuted_columns",)),
        (("home", "away"), SWAPPED, Match.MISMATCH, ()),
        (("x", "y"), SWAPPED, Match.MISMATCH, ("ambiguous", "swapped_columns")),
        (("greatest", "least"), ((2, 1), (3, 0), (4, 1)), Match.MISMATCH, ()),
    ],
)
def test_column_order_policy(names: tuple[str, str], cells: Any, match: Match, flags: tuple[str, ...]) -> None:
    verdict = compare(gold(GAMES), rows([INT, INT], *cells, names=names))
    assert (verdict.match, verdict.flags) == (match, flags)


def test_kinds_of_values_tell_the_order_of_columns() -> None:
    target = gold(rows([TEXT, INT, INT], ("a", 1, 2), ("b", 3, 4), names=("name", "low", "high")))
    told = rows([INT, INT, TEXT], (1, 2, "a"), (3, 4, "b"))
    assert compare(target, told).flags == ("permuted_columns",)


def test_missing_and_extra_columns() -> None:
    target = gold(rows([TEXT, INT], ("a", 1), ("b", 1)))
    verdict = compare(target, rows([TEXT], ("b",), ("a",)))
    assert (verdict.code, verdict.column_overlap) == ("columns", 0.5)
    assert compare(target, rows([TEXT, INT, INT], ("a", 1, 1), ("b", 1, 1))).column_overlap == 1.0
    assert compare(gold(rows([INT, INT], (1, 1))), rows([INT], (1,))).column_overlap == 0.5


def test_nine_binary_columns_do_not_multiply() -> None:
    draw = random.Random(7)
    cells = [tuple(draw.randrange(2) for _ in range(9)) for _ in range(40)]
    target = rows([INT] * 9, *cells)
    other = rows([INT] * 9, *((*row[:8], 1 - row[8]) for row in cells), names=[f"d{at}" for at in range(9)])
    started = time.perf_counter()
    assert compare(gold(target), other).match == Match.MISMATCH
    assert time.perf_counter() - started < 0.2


def test_empty_answers_must_agree_in_shape() -> None:
    target = gold(rows([TEXT, INT]))
    assert compare(target, rows([TEXT, DOUBLE])).flags == ("empty",)
    assert compare(target, rows([INT, TEXT], names=("n", "t"))).flags == ("permuted_columns", "empty")
    assert compare(target, rows([TEXT])).code == "columns"
    assert compare(target, rows([TEXT, TEXT])).code == "columns"
    assert compare(target, rows([TEXT, INT], ("a", 1))).code == "empty"


def test_what_ran_to_no_end_is_a_mismatch_unless_the_verifier_failed() -> None:
    for outcome in Outcome:
        if outcome == Outcome.ROWS:
            continue
        verdict = compare(gold(SCORES), Execution(outcome=outcome, reason="why"))
        assert (verdict.code, verdict.words) == (outcome.value, "why")
        assert (verdict.match == Match.UNVERIFIABLE) == (outcome == Outcome.FAULT)


def test_a_gold_that_cannot_judge_never_matches() -> None:
    verdict = compare(gold(SCORES, unverifiable="not deterministic"), SCORES)
    assert (verdict.match, verdict.words) == (Match.UNVERIFIABLE, "not deterministic")


def test_typed_in_answers_do_not_match() -> None:
    assert compare(gold(SCORES), replace(SCORES, reads_tables=False)).code == "constant"
    constant = replace(SCORES, reads_tables=False)
    assert compare(gold(constant), constant).match == Match.MATCH


@pytest.mark.parametrize(
    ("target", "found", "loose", "match", "doubt"),
    [
        ((TEXT, "a,b"), (TEXT, "b,a"), {0: "unordered"}, Match.UNVERIFIABLE, "unordered_aggregate"),
        (("INTEGER[]", [1, 2]), ("INTEGER[]", [2, 1]), {0: "unordered"}, Match.UNVERIFIABLE, "unordered_aggregate"),
        ((INT, 1), (INT, 2), {0: "arbitrary"}, Match.UNVERIFIABLE, "arbitrary_value"),
        ((INT, None), (INT, 0), {0: "total"}, Match.MISMATCH, "total_over_nothing"),
        ((DOUBLE, 58.74), (DOUBLE, 58.744924), {0: "rounded:2"}, Match.MISMATCH, "rounding"),
        ((DOUBLE, 58.744924), (DOUBLE, 58.74), {}, Match.MISMATCH, "rounding"),
        (("BLOB", b"\xab\x01"), (TEXT, "ab01"), {}, Match.MISMATCH, "blob_text"),
        ((TEXT, "2020"), (INT, 2020), {}, Match.MISMATCH, "number_as_text"),
    ],
)
def test_second_readings_are_named(target: Any, found: Any, loose: Any, match: Match, doubt: str) -> None:
    verdict = compare(gold(rows([target[0]], (target[1],)), loose=loose), rows([found[0]], (found[1],)))
    assert (verdict.match, verdict.flags) == (match, ("ambiguous", doubt))


def test_no_reading_excuses_a_wrong_order() -> None:
    prices = [(Decimal("1.1"),), (Decimal("2.5"),), (None,)]
    key = SortKey(column=0, descending=False, nulls_first=False)
    verdict = compare(gold(rows(["DECIMAL(18,4)"], *prices), sort_keys=(key,)), rows(["DECIMAL(18,4)"], *prices[::-1]))
    assert (verdict.code, verdict.flags) == ("order", ())


def test_a_struct_is_not_its_columns() -> None:
    target = gold(rows([TEXT, INT], ("a", 1), names=("name", "salary")))
    packed = rows(["STRUCT(name VARCHAR, salary INTEGER)"], ({"name": "a", "salary": 1},))
    verdict = compare(target, packed)
    assert (verdict.match, verdict.flags) == (Match.MISMATCH, ("ambiguous", "struct_columns"))


def test_an_open_aggregate_does_not_excuse_wrong_parts() -> None:
    target = gold(rows([TEXT, TEXT], ("ops", "a,b")), loose={1: "unordered"})
    assert compare(target, rows([TEXT, TEXT], ("ops", "b,c"))).match == Match.MISMATCH
    assert compare(target, rows([TEXT, TEXT], ("dev", "b,a"))).match == Match.MISMATCH


# ---- properties --------------------------------------------------------------------------------------------

CELLS = {
    INT: st.none() | st.integers(-3, 3) | st.integers(-(2**70), 2**70),
    TEXT: st.none() | st.text(max_size=3),
    DOUBLE: st.none() | st.floats(),
    "DATE": st.dates(),
    "INTEGER[]": st.lists(st.integers(0, 2), max_size=2),
}


@st.composite
def answers(draw: st.DrawFn, kinds: tuple[str, ...] = tuple(CELLS), most: int = 8) -> Execution:
    types = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    cells = draw(st.lists(st.tuples(*(CELLS[name] for name in types)), min_size=1, max_size=most))
    return rows(types, *cells)


@settings(max_examples=60, deadline=None)
@given(answers(), st.randoms(use_true_random=False))
def test_reflexive_and_blind_to_row_order_and_names(answer: Execution, draw: random.Random) -> None:
    shuffled = list(answer.rows)
    draw.shuffle(shuffled)
    other = replace(answer, rows=tuple(shuffled), columns=tuple(f"x{name}" for name in answer.columns))
    for candidate in (answer, other):
        verdict = compare(gold(answer), candidate)
        assert (verdict.match, verdict.row_overlap, verdict.column_overlap) == (Match.MATCH, 1.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(answers(), st.integers(0, 7))
def test_a_dropped_or_repeated_row_never_matches(answer: Execution, at: int) -> None:
    at %= len(answer.rows)
    for cells in (answer.rows[:at] + answer.rows[at + 1 :], (*answer.rows, answer.rows[at])):
        for target, candidate in ((answer, replace(answer, rows=cells)), (replace(answer, rows=cells), answer)):
            assert compare(gold(target), candidate).match == Match.MISMATCH


@settings(max_examples=80, deadline=None)
@given(answers(most=5), answers(most=5))
def test_symmetric_without_booleans_and_keys(first: Execution, second: Execution) -> None:
    there, back = compare(gold(first), second), compare(gold(second), first)
    assert there.match == back.match
    assert there.row_overlap == pytest.approx(back.row_overlap)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1e-2, 1e12) | st.floats(-1e12, -1e-2), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
)
def test_noise_below_the_tolerance_passes_and_above_it_does_not(numbers: list[float], draw: random.Random) -> None:
    target = gold(rows([DOUBLE, INT], *((number, at) for at, number in enumerate(numbers))))
    noisy = [(number * (1 + draw.uniform(-1, 1) * 1e-9), at) for at, number in enumerate(numbers)]
    draw.shuffle(noisy)
    assert compare(target, rows([DOUBLE, INT], *noisy)).match == Match.MATCH
    at = draw.randrange(len(noisy))
    noisy[at] = (noisy[at][0] * (1 + 1e-5), noisy[at][1])
    assert compare(target, rows([DOUBLE, INT], *noisy)).match == Match.MISMATCH


def test_dense_numbers_keep_apart_what_is_apart() -> None:
    """A chain of close neighbours must not lend its two ends to each other."""
    chain = [1 + at * 5e-7 for at in range(50)]
    target = gold(rows([DOUBLE, INT], *((number, at) for at, number in enumerate(chain))))
    noisy = rows([DOUBLE, INT], *((number * (1 + 1e-15), at) for at, number in enumerate(chain)))
    assert compare(target, noisy).match == Match.MATCH
    turned = rows([DOUBLE, INT], *((number, at) for at, number in enumerate(reversed(chain))))
    assert compare(target, turned).match == Match.MISMATCH


# ---- time --------------------------------------------------------------------------------------------------


def _seconds(size: int) -> float:
    draw = random.Random(3)
    cells = [(at, draw.random(), f"name {at % 97}", draw.choice([None, dt.date(2024, 1, 5)])) for at in range(size)]
    target = gold(
        rows([INT, DOUBLE, TEXT, "DATE"], *cells), sort_keys=(SortKey(column=0, descending=False, nulls_first=False),)
    )
    noisy = rows([INT, DOUBLE, TEXT, "DATE"], *((a, b * (1 + 1e-14), c, d) for a, b, c, d in cells))
    wrong = replace(noisy, rows=(*noisy.rows[:-1], (-1, 0.5, "x", None)))
    best = math.inf
    for _ in range(3):
        started = time.process_time()
        assert compare(target, noisy).match == Match.MATCH
        assert compare(target, wrong).code == "values"
        best = min(best, time.process_time() - started)
    return best


def test_time_grows_with_the_rows_not_with_their_pairs() -> None:
    assert _seconds(20_000) < 25 * _seconds(2_000)


QUICK = [
    "SELECT name, 5 FROM t",
    "select t1.name FROM t AS t1 WHERE x = 'a'",
    "SELECT DISTINCT name AS n FROM t LIMIT 3",
    "SELECT * FROM t LIMIT 2",
    "SELECT count(*) FROM t WHERE a > 3",
    "SELECT 5 FROM t",
    "SELECT 5 AS total FROM t",
    "SELECT 5 total FROM t",
    "SELECT total: 5 FROM t",
    "SELECT NULL, 5 FROM t",
    "SELECT true AS a, 'x' FROM t",
    "SELECT current_date, 5 FROM t",
    "SELECT DATE '2020-01-01' FROM t",
    "SELECT INTERVAL 3 DAY FROM t",
    "SELECT CASE WHEN true THEN 5 END FROM t",
    "SELECT 'a.b' FROM t",
    "SELECT upper('x') FROM t",
    "SELECT 5 UNION ALL SELECT name FROM t",
    "SELECT 'FROM' FROM t",
    "SELECT user, 5 FROM t",
    "SELECT localtime, 5",
]


@pytest.mark.parametrize("sql", QUICK)
def test_what_is_seen_without_parsing_is_what_parsing_sees(sql: str) -> None:
    seen = typed._BEGINS_READING.match(sql) is not None
    assert not (seen and typed._constants(sql))
    assert seen is (sql in QUICK[:5])


@pytest.mark.parametrize("sql", QUICK[5:10])
def test_constants_of_its_own_are_typed_in(sql: str) -> None:
    assert typed.typed_in(sql, "SELECT name FROM t")
    assert not typed.typed_in(sql, sql)
    assert not typed.typed_in(sql, "SELECT 5 FROM t WHERE a")

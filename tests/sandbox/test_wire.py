from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.sandbox import wire

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**127), 2**127),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.times(),
    st.timedeltas(),
    st.uuids(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(), st.dates()), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[VALUES] * width), min_size=1, max_size=5)))
def test_rows_come_back_with_value_and_type(rows: list[tuple[object, ...]]) -> None:
    back = wire.decode_rows(wire.encode_rows(rows))
    assert back == rows
    assert [[type(value) for value in row] for row in back] == [[type(value) for value in row] for row in rows]


def test_what_equality_hides_comes_back_too() -> None:
    rows = [(1, 1.0, True, -0.0, "1", Decimal("1.0"), Decimal("1.00"), math.nan, math.inf, -math.inf)]
    (row,) = wire.decode_rows(wire.encode_rows(rows))
    assert [type(value) for value in row] == [type(value) for value in rows[0]]
    assert math.copysign(1, row[3]) == -1
    assert str(row[5]) == "1.0"
    assert str(row[6]) == "1.00"
    assert math.isnan(row[7])
    assert row[8:] == (math.inf, -math.inf)


def test_a_column_of_one_kind_and_nulls() -> None:
    zone = timezone(timedelta(hours=2))
    columns = [
        [Decimal("0.10"), None],
        [None, datetime(2024, 1, 5, 1, 2, 3, 4)],
        [date(1, 1, 1), None],
        [time(1, 2, tzinfo=zone), None],
        [timedelta(days=-1, microseconds=5), None],
        [UUID(int=7), None],
        [b"\x00\xff", None],
        [2**100, None],
    ]
    rows = list(zip(*columns, strict=True))
    assert wire.decode_rows(wire.encode_rows(rows)) == rows


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_garbage_is_refused_in_one_way(garbage: bytes) -> None:
    for read in (wire.decode_rows, wire.unpack_parts):
        try:
            read(garbage)
        except wire.WireError:
            continue


@pytest.mark.parametrize(
    "payload",
    [b"[", b"1", b"[[1]]", b'[["decimal",["x"]]]', b'[["boom",[1]]]', b'[["any",[["list"]]]]', b"[" * 100_000],
)
def test_rows_that_no_worker_would_send(payload: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode_rows(payload)


@given(st.lists(st.tuples(st.sampled_from([b"E", b"H"]), st.binary(max_size=20)), max_size=5), st.integers(1, 7))
def test_frames_survive_any_cutting(frames: list[tuple[bytes, bytes]], step: int) -> None:
    stream = b"".join(wire.frame(kind, payload) for kind, payload in frames)
    buffer, seen = bytearray(), []
    for at in range(0, len(stream), step):
        buffer += stream[at : at + step]
        seen += list(wire.take_frames(buffer, 100))
    assert seen == frames
    assert not buffer


def test_a_frame_that_is_too_long_is_not_waited_for() -> None:
    with pytest.raises(wire.WireError):
        list(wire.take_frames(bytearray(wire.HEADER.pack(b"E", 101)), 100))


@given(st.lists(st.binary(max_size=10), max_size=5))
def test_parts_come_back(parts: list[bytes]) -> None:
    assert wire.unpack_parts(wire.pack_parts(parts)) == parts

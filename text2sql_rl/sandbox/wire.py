"""Frames between parent and worker, and the encoding of result rows.

In: Python values as the duckdb client gives them. Out: bytes, and from bytes the same values again. A frame is
one kind byte, a four-byte length and a payload. Rows travel as JSON, column by column: JSON is built and read by
C code, and unlike pickle or marshal it can make the reader do nothing but hold numbers and text, so a worker
taken over by a hostile statement has no way into the parent. Types JSON lacks are text with a tag a column.

Exact for: None, bool, int, float (nan and infinities included), str, bytes, Decimal, date, datetime, time,
timedelta, UUID, list, tuple and dict, nested at will. One change: an aware datetime comes back with the fixed
offset it has (`datetime.timezone`) where the client gave a `ZoneInfo`; it is the same instant.

Not here: pipes, processes, limits on what is sent.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

HEADER = struct.Struct(">cI")
_PART = struct.Struct(">I")
Row = tuple[Any, ...]


class WireError(Exception):
    """Bytes that no honest peer would send."""


# ---- frames ------------------------------------------------------------------------------------------------


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame: a kind byte, the payload's length, the payload."""
    return HEADER.pack(kind, len(payload)) + payload


def take_frames(buffer: bytearray, max_payload: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield and remove the complete frames at the start of `buffer`.

    Raises:
        WireError: a frame announces more than `max_payload` bytes.
    """
    while len(buffer) >= HEADER.size:
        kind, length = HEADER.unpack_from(buffer)
        if length > max_payload:
            raise WireError(f"a frame of {length} bytes")
        end = HEADER.size + length
        if len(buffer) < end:
            return
        payload = bytes(buffer[HEADER.size : end])
        del buffer[:end]
        yield kind, payload


def pack_parts(parts: Sequence[bytes]) -> bytes:
    """Several byte strings as one, each with its length before it."""
    return b"".join(_PART.pack(len(part)) + part for part in parts)


def unpack_parts(payload: bytes) -> list[bytes]:
    """The way back from `pack_parts`.

    Raises:
        WireError: the lengths do not add up.
    """
    parts, at = [], 0
    while at < len(payload):
        if at + _PART.size > len(payload):
            raise WireError("a cut length")
        (length,) = _PART.unpack_from(payload, at)
        at += _PART.size
        if at + length > len(payload):
            raise WireError("a cut part")
        parts.append(payload[at : at + length])
        at += length
    return parts


# ---- values ------------------------------------------------------------------------------------------------

_PLAIN = frozenset({type(None), bool, int, float, str})


def _seconds(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


_WRITE: dict[type, tuple[str, Callable[[Any], Any]]] = {
    Decimal: ("decimal", str),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    timedelta: ("interval", _seconds),
    UUID: ("uuid", str),
    bytes: ("bytes", lambda value: value.decode("latin-1")),
}
_READ: dict[str, Callable[[Any], Any]] = {
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "interval": lambda value: timedelta(*value),
    "uuid": UUID,
    "bytes": lambda value: value.encode("latin-1"),
}


def _tagged(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in _WRITE:
        tag, write = _WRITE[kind]
        return [tag, write(value)]
    if kind is list or kind is tuple:
        return [kind.__name__, [_tagged(item) for item in value]]
    if kind is dict:
        return ["dict", [[_tagged(key), _tagged(item)] for key, item in value.items()]]
    return ["text", str(value)]


def _untagged(value: Any) -> Any:
    if type(value) is not list:
        return value
    tag, inner = value
    if tag in _READ:
        return _READ[tag](inner)
    if tag == "list":
        return [_untagged(item) for item in inner]
    if tag == "tuple":
        return tuple(_untagged(item) for item in inner)
    if tag == "dict":
        return {_untagged(key): _untagged(item) for key, item in inner}
    return str(inner)


def _write_column(values: Row) -> list[Any]:
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return ["", values]
    kinds.discard(type(None))
    if len(kinds) == 1 and (kind := kinds.pop()) in _WRITE:
        tag, write = _WRITE[kind]
        return [tag, [None if value is None else write(value) for value in values]]
    return ["any", [_tagged(value) for value in values]]


def _read_column(tag: str, values: list[Any]) -> list[Any]:
    if tag == "":
        return values
    if tag == "any":
        return [_untagged(value) for value in values]
    read = _READ[tag]
    return [None if value is None else read(value) for value in values]


def encode_rows(rows: Sequence[Row]) -> bytes:
    """Rows of equal width as JSON, column by column; see the module for what is exact."""
    columns = [_write_column(column) for column in zip(*rows, strict=True)]
    return json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode_rows(payload: bytes) -> list[Row]:
    """The way back from `encode_rows`.

    Raises:
        WireError: the bytes are not an encoding of rows.
    """
    try:
        columns = [_read_column(tag, values) for tag, values in json.loads(payload.decode("utf-8", "surrogatepass"))]
        return list(zip(*columns, strict=True))
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, AttributeError) as error:
        raise WireError(f"rows that cannot be read: {type(error).__name__}") from error

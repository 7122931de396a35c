"""Cells as tokens: two cells hold the same value exactly when their tokens are equal.

In: one column of the gold and one of the candidate, with their DuckDB type names. Out: hashable tokens.
Not here: which columns belong together (columns.py), rows and their multiplicity (rows.py).

What counts as the same value:
- NULL only NULL: not '', not 0, not the text 'None'.
- Numbers by value across integer, decimal and float. Two exact columns (integers, decimals) compare exactly,
  also beyond 2^53; where a float takes part, within the tolerance of numbers.py.
  NaN equals NaN, infinities themselves, -0.0 equals 0.0.
- A boolean is not a number ("is there any" is not "how many"), but a gold boolean accepts 0 and 1.
- Text exactly, after Unicode NFC; an enum value or a UUID is its text. JSON by content where the gold is JSON.
- Dates, timestamps and zoned timestamps as instants (a date is its midnight, no zone is UTC); against a text
  column, the text counts as the instant it writes in ISO form.
- Intervals by length, as the engine compares them; blobs by bytes; lists and arrays in order; structs by field
  name and maps by key, in any order.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import unicodedata
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from text2sql_rl.compare.numbers import as_float, classes, has_float, numbers_in

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_ISO_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}(:?\d{2})?)?)?")
_ISO_TIME = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?")


class Family(StrEnum):
    """What kind of value a column holds."""

    BOOL = "boolean"
    NUMBER = "number"
    TEXT = "text"
    INSTANT = "date or timestamp"
    TIME = "time"
    INTERVAL = "interval"
    BLOB = "blob"
    LIST = "list"
    STRUCT = "struct"
    MAP = "map"
    NULL = "null"
    OTHER = "other"


_FAMILIES = {
    Family.BOOL: "BOOLEAN",
    Family.NUMBER: (
        "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT DECIMAL FLOAT DOUBLE "
        "BIGNUM VARINT"
    ),
    Family.TEXT: "VARCHAR CHAR TEXT ENUM UUID JSON BIT",
    Family.INSTANT: "DATE TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TIMESTAMPTZ DATETIME",
    Family.TIME: "TIME TIMETZ TIME_NS",
    Family.INTERVAL: "INTERVAL",
    Family.BLOB: "BLOB",
    Family.STRUCT: "STRUCT",
    Family.LIST: "TUPLE",
    Family.MAP: "MAP",
    Family.NULL: "NULL",
}
_BY_NAME = {name: family for family, names in _FAMILIES.items() for name in names.split()}


def family(type_name: str) -> Family:
    """The family of a DuckDB type name such as DECIMAL(10,2), INTEGER[] or TIMESTAMP WITH TIME ZONE."""
    name = type_name.strip().upper()
    if name.endswith("]"):
        return Family.LIST
    head = re.split(r"[\s(]", name, maxsplit=1)[0].strip('"')
    return _BY_NAME.get(head, Family.OTHER)


def comparable(gold: Family, candidate: Family) -> bool:
    """Whether values of the two families can be equal at all (used where there are no rows to compare)."""
    if gold == candidate or Family.NULL in (gold, candidate) or Family.OTHER in (gold, candidate):
        return True
    return {gold, candidate} in ({Family.TEXT, Family.INSTANT}, {Family.TEXT, Family.TIME}) or (
        gold == Family.BOOL and candidate == Family.NUMBER
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """How the cells of one column are read, given the column they are compared with.

    `clusters` maps every number of both columns to its class of numbers within tolerance; None reads exactly.
    """

    text_as: Callable[[str], Hashable] | None = None
    truth: bool = False
    map_pairs: bool = False
    big: bool = False
    clusters: Mapping[float, int] | None = None


def read_columns(
    gold: Sequence[Any], candidate: Sequence[Any], gold_type: str, candidate_type: str
) -> tuple[list[Hashable], list[Hashable]]:
    """Tokens of two columns that are compared with each other."""
    first, second = family(gold_type), family(candidate_type)
    clusters = None
    if any(has_float(cell) for column in (gold, candidate) for cell in column):
        clusters = classes(number for column in (gold, candidate) for cell in column for number in numbers_in(cell))

    def tokens(cells: Sequence[Any], own: Family, other: Family, type_name: str) -> list[Hashable]:
        text_as: Callable[[str], Hashable] | None = None
        if own == Family.TEXT and other == Family.INSTANT:
            text_as = _instant_of_text
        elif own == Family.TEXT and other == Family.TIME:
            text_as = _time_of_text
        elif own == Family.TEXT and gold_type.upper() == "JSON":
            text_as = _json_of_text
        reading = Reading(
            text_as=text_as,
            truth=first == Family.BOOL and own == Family.NUMBER,
            map_pairs=own == Family.MAP and _nested_key(type_name),
            big=type_name.upper() in ("BIGNUM", "VARINT"),
            clusters=clusters,
        )
        return [token(cell, reading) for cell in cells]

    return tokens(gold, first, second, gold_type), tokens(candidate, second, first, candidate_type)


EXACT = Reading()


def token(cell: Any, reading: Reading = EXACT) -> Hashable:
    """The token of one cell. Numbers, plain text, bytes and NULL stand for themselves, the rest is tagged."""
    if cell is None:
        return None
    if isinstance(cell, bool):
        return ("bool", cell)
    if isinstance(cell, int | float | Decimal):
        return _number(cell, reading)
    if isinstance(cell, str):
        return _text(cell, reading)
    if isinstance(cell, datetime.date):  # datetime too
        return ("instant", _instant(cell))
    if isinstance(cell, datetime.time):
        offset = cell.utcoffset() or datetime.timedelta()
        return ("time", (_instant(datetime.datetime.combine(_EPOCH, cell.replace(tzinfo=None)) - offset)))
    if isinstance(cell, datetime.timedelta):
        return ("interval", cell // _MICROSECOND)
    if isinstance(cell, list | tuple):
        return ("list", tuple(token(item, _inner(reading)) for item in cell))
    if isinstance(cell, dict):
        return _mapping(cell, reading)
    if isinstance(cell, uuid.UUID):
        return str(cell)
    if isinstance(cell, bytes | bytearray | memoryview):
        return bytes(cell)
    return (type(cell).__name__, repr(cell))


def _inner(reading: Reading) -> Reading:
    return Reading(clusters=reading.clusters) if reading != EXACT else EXACT


def _number(cell: int | float | Decimal, reading: Reading) -> Hashable:
    if cell != cell:
        return ("nan",)
    if reading.truth and cell in (0, 1):
        return ("bool", bool(cell))
    if reading.clusters is None:
        return cell
    number = as_float(cell)
    return ("near", reading.clusters[number]) if math.isfinite(number) else number


def _text(cell: str, reading: Reading) -> Hashable:
    text = cell if cell.isascii() else unicodedata.normalize("NFC", cell)
    if reading.big and re.fullmatch(r"-?\d+", text):
        return int(text) if reading.clusters is None else _number(int(text), reading)
    return reading.text_as(text) if reading.text_as else text


def _mapping(cell: Mapping[Any, Any], reading: Reading) -> Hashable:
    inner = _inner(reading)
    # The client returns a map whose keys Python cannot hash as two lists, key and value.
    pairs = zip(cell["key"], cell["value"], strict=True) if reading.map_pairs else cell.items()
    return ("map", frozenset((token(key, EXACT), token(value, inner)) for key, value in pairs))


def _nested_key(type_name: str) -> bool:
    """Whether the key type of MAP(key, value) is a list, struct or map."""
    depth, inside = 0, type_name[type_name.find("(") + 1 :]
    for at, char in enumerate(inside):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            return family(inside[:at]) in (Family.LIST, Family.STRUCT, Family.MAP)
    return False


def _instant(cell: datetime.date) -> int:
    """Microseconds since 1970-01-01 UTC; a date is its midnight, a value without zone is UTC."""
    if not isinstance(cell, datetime.datetime):
        cell = datetime.datetime(cell.year, cell.month, cell.day)
    if cell.tzinfo is not None:
        cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
    return (cell - _EPOCH) // _MICROSECOND


def _instant_of_text(text: str) -> Hashable:
    if not _ISO_INSTANT.fullmatch(text):
        return text
    try:
        return ("instant", _instant(datetime.datetime.fromisoformat(text)))
    except ValueError:  # a date that does not exist
        return text


def _time_of_text(text: str) -> Hashable:
    if not _ISO_TIME.fullmatch(text):
        return text
    try:
        return token(datetime.time.fromisoformat(text))
    except ValueError:
        return text


def _json_of_text(text: str) -> Hashable:
    try:
        return ("json", token(json.loads(text, parse_float=Decimal)))
    except (ValueError, RecursionError):
        return text

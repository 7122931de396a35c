"""Values as SQL literals and as words in a question.

In: a Python value as the duckdb client gives it. Out: SQL text (a date is a quoted ISO text, which DuckDB compares
with dates) and the words: texts verbatim, numbers in digits, dates in ISO form.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

_QUOTED_SHARE = 0.15


def literal(value: Any) -> str:
    """The value as a SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float | Decimal):
        return _digits(value)
    return "'" + _plain(value).replace("'", "''") + "'"


def spoken(value: Any, r: Random) -> str:
    """The value in words; a text sometimes stands in double quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return _digits(value)
    text = _plain(value)
    return f'"{text}"' if isinstance(value, str) and r.random() < _QUOTED_SHARE else text


def _plain(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _digits(value: int | float | Decimal) -> str:
    if isinstance(value, int):
        return str(value)
    whole = int(value)
    if -(10**15) < whole < 10**15 and whole == value:
        return str(whole)
    return f"{value.normalize():f}" if isinstance(value, Decimal) else repr(value)

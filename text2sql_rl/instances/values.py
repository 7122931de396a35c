"""Cells for made rows: near a real cell, unused as a key, fitting a column, or a column without one of its values.

In: cells of one column. Out: cells of the same kind, by the dice given. Not here: rows and what holds between them.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

_Day = TypeVar("_Day", bound=datetime.date)
# A column with at most this share of distinct cells holds codes or categories.
_CATEGORIES = 1 / 3
# Text that people cast: dates, dates with a time, numbers.
_FORMS = tuple(
    re.compile(form) for form in (r"\d{4}-\d\d-\d\d", r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", r"-?\d+(\.\d+)?")
)


def _order(cell: Any) -> Any:
    """A key that sorts a column's cells: by value where it has an order, by text otherwise."""
    plain = isinstance(cell, int | float | Decimal | datetime.date) and cell == cell
    return (0, cell, "") if plain else (1, 0, repr(cell))


def without_one(own: Sequence[Any], around: Sequence[Any], turn: int, name: str) -> Sequence[Any]:
    """A column's cells without one of its values, another one each turn; all of them where it has too few.

    Of numbers and dates it is the lowest or highest, else any category. A candidate that types in a column's few
    values, or its extreme, is right on rows that hold exactly them.

    Args:
        own: the real cells.
        around: values that golds speak of; they stay.
        turn: 0, 1, ...
        name: of the column; it decides the order in which categories take turns.
    """
    values = sorted({cell for cell in own if cell is not None}, key=_order)
    free = [value for value in values if value not in around]
    ordered = bool(free) and _order(free[0])[0] == 0
    categories = len(values) <= len(own) * _CATEGORIES
    if len(values) < 3 or not free or not (ordered or categories):
        return own
    if ordered:
        free = [free[0], free[-1]]
    else:
        random.Random(name).shuffle(free)
    lost = free[turn % len(free)]
    return [cell for cell in own if cell != lost]


def unused(cell: Any, used: set[Any], top: Any) -> Any:
    """A key like `cell` that is not in use; a number above `top`, the highest one in use or real."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return max(cell, top) + 1
    if isinstance(cell, str):
        return next(text for number in range(2, len(used) + 3) if (text := f"{cell}{number}") not in used)
    if isinstance(cell, datetime.date):
        return moved(max([cell, *(value for value in used if value is not None)]), 1)
    return cell


def moved(day: _Day, days: int) -> _Day:
    """So many days later; the day itself at the ends of the calendar: 9999-12-31 often stands for never."""
    try:
        return day + datetime.timedelta(days=days)
    except OverflowError:
        return day


def different(own: Sequence[Any]) -> list[Any]:
    """The different values of a column, NULL aside, in an order of their own."""
    return sorted({value for value in own if value is not None}, key=repr)


def near(cell: Any, values: Sequence[Any], count: int, draw: random.Random) -> Any:
    """A value of the same kind as `cell`; codes and categories stay among the column's own values.

    A column that holds one value only keeps it: variety that the real rows do not have would be unfair.

    Args:
        cell: the cell, not NULL.
        values: the column's, see `different`.
        count: of the column's cells.
        draw: the dice.
    """
    if len(values) < 2:
        return cell
    if isinstance(cell, bool):
        return draw.random() < 0.5
    if len(values) <= max(2, int(count * _CATEGORIES)):
        return draw.choice(values)
    if isinstance(cell, int):
        low, high = min(values), max(values)
        return max(draw.randint(low - 1, high + 1 + (high - low) // 4), 0 if low >= 0 else low - 1)
    if isinstance(cell, float):
        return round(cell * draw.choice([0.5, 0.75, 1.25, 1.5, 2.0]), 4) if cell == cell else cell
    if isinstance(cell, Decimal):
        factor = draw.choice([Decimal("0.5"), Decimal("0.75"), Decimal("1.25"), Decimal("0.9")])
        try:
            return (cell * factor).quantize(cell) if cell.is_finite() else cell
        except ArithmeticError:  # more digits than Python's decimals have room for
            return cell
    if isinstance(cell, datetime.date):  # datetime too
        return moved(cell, draw.randint(-40, 40))
    if isinstance(cell, bytes):
        return bytes(byte ^ draw.randint(0, 255) for byte in cell) or b"\x01"
    return _near_text(cell, draw) if isinstance(cell, str) else cell


def _near_text(cell: str, draw: random.Random) -> str:
    """Text of the same shape: digits for digits, letters for letters; a date stays a date."""
    try:
        return moved(datetime.date.fromisoformat(cell), draw.randint(-40, 40)).isoformat()
    except ValueError:
        pass

    def other(match: re.Match[str]) -> str:
        char = match[0]
        if char.isdigit():
            return draw.choice("0123456789" if match.start() else "123456789")
        letter = draw.choice("abcdefghiklmnoprstuvw")
        return letter.upper() if char.isupper() else letter

    places = [match.start() for match in re.finditer(r"[0-9A-Za-z]", cell)]
    chosen = set(draw.sample(places, min(len(places), 2)))
    return re.sub(r"[0-9A-Za-z]", lambda match: other(match) if match.start() in chosen else match[0], cell)


def fitting(values: Iterable[Any], own: Sequence[Any]) -> list[Any]:
    """Those of the border values that a column with these cells can hold, as its own type."""
    found = [value for value in values if _fits(value, own)]
    # Text that is a date or a number in every real row may be cast: nothing else is put there.
    if read := _read_as(own):
        found = [value for value in found if not isinstance(value, str) or read.fullmatch(value)]
    return [_like(value, own) for value in found]


def as_met(value: Any, own: Sequence[Any]) -> Any:
    """A cell of another column as this one would hold it, so that the two compare equal; None where it cannot."""
    if found := fitting((value,), own):
        return found[0]
    sample = next((cell for cell in own if cell is not None), None)
    if isinstance(sample, str) and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(sample, int) and isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value):
        return int(value)
    return None


def _read_as(own: Sequence[Any]) -> re.Pattern[str] | None:
    """The form that all cells of a text column have, where they are dates or numbers."""
    cells = [cell for cell in own if cell is not None]
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return None
    return next((form for form in _FORMS if all(map(form.fullmatch, cells))), None)


def _fits(value: Any, own: Sequence[Any]) -> bool:
    """Whether a border value is of the kind this column holds."""
    sample = next((cell for cell in own if cell is not None), None)
    if isinstance(value, str):
        if isinstance(sample, datetime.date):
            return _instant(value) is not None
        return isinstance(sample, str)
    if isinstance(value, datetime.date):
        return isinstance(sample, datetime.date)
    return isinstance(sample, int | float | Decimal) and not isinstance(sample, bool)


def _like(value: Any, own: Sequence[Any]) -> Any:
    """A border value as the column's own Python type, where the engine would not cast it."""
    sample = next((cell for cell in own if cell is not None), None)
    if isinstance(sample, int) and isinstance(value, Decimal):
        return int(value)
    if isinstance(sample, datetime.date) and isinstance(value, str | datetime.date) and (moment := _instant(value)):
        if not isinstance(sample, datetime.datetime):
            return moment.date()
        return moment.replace(tzinfo=sample.tzinfo) if moment.tzinfo is None else moment
    return value


def _instant(value: str | datetime.date) -> datetime.datetime | None:
    if isinstance(value, datetime.date):
        return value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
    try:
        return datetime.datetime.fromisoformat(value)
    except ValueError:
        return None

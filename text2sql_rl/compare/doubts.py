"""Second defensible readings of a mismatch, so that none is counted as plainly wrong without saying so.

In: a gold and an execution that did not match. Out: the first reading under which they would, or None.
A doubt the gold is to blame for (its answer is open) makes the verdict unverifiable; one the candidate caused
(other shape, other precision) stays a mismatch with a flag, so that nobody escapes judgement by being odd.
Not here: comparison itself; each reading only recasts both sides and asks for it again.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from text2sql_rl.compare.cells import Family, family, token
from text2sql_rl.compare.columns import contradicts
from text2sql_rl.compare.numbers import is_number
from text2sql_rl.compare.rows import Kind, relate
from text2sql_rl.compare.shares import column_pairs
from text2sql_rl.records import Execution, Gold

Accepts = Callable[[Gold, Execution], bool]
Recast = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A second reading: its name, its words, and whether the gold itself leaves the answer open.

    A `plain` one does not excuse the mismatch; it only names what kind of mismatch it is.
    """

    name: str
    words: str
    open: bool = False
    plain: bool = False


def weakness(gold: Gold) -> tuple[str, ...]:
    """Flags for a match on a gold whose cells do not tell all of its answer."""
    return ("ambiguous", "calendar_interval") if "calendar" in gold.loose.values() else ()


def doubt(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    """The first reading in `READINGS` that makes the two agree."""
    if not execution.rows or not gold.execution.rows:
        return None
    return next((found for reading in READINGS if (found := reading(gold, execution, accepts))), None)


def _ties_kept(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    if gold.legal_rows is None or not gold.sort_keys:
        return None
    everything = replace(gold.execution, rows=gold.legal_rows)
    if not accepts(replace(gold, execution=everything, legal_rows=None, sort_keys=()), execution):
        return None
    return Doubt("ties_kept", "all rows that tie at the limit, where the gold keeps an arbitrary choice of them")


def _unordered(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    open_columns = [at for at, what in gold.loose.items() if what == "unordered"]
    if not _recast_agrees(gold, execution, accepts, dict.fromkeys(open_columns, _shuffled)):
        return None
    words = "the same parts in another order, which the gold's aggregate leaves undefined"
    return Doubt("unordered_aggregate", words, open=True)


def _arbitrary(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    open_columns = [at for at, what in gold.loose.items() if what == "arbitrary"]
    if not _recast_agrees(gold, execution, accepts, dict.fromkeys(open_columns, lambda cell: None)):
        return None
    return Doubt("arbitrary_value", "differs only where the gold takes the value of an arbitrary row", open=True)


def _total_over_nothing(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    totals = [at for at, what in gold.loose.items() if what == "total"]
    if not _recast_agrees(gold, execution, accepts, dict.fromkeys(totals, lambda cell: 0 if cell is None else cell)):
        return None
    return Doubt("total_over_nothing", "NULL against 0 for a total over no rows")


def _gold_rounds(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    rounded = {at: int(what.partition(":")[2]) for at, what in gold.loose.items() if what.startswith("rounded:")}
    if not _recast_agrees(gold, execution, accepts, {at: _rounding(digits) for at, digits in rounded.items()}):
        return None
    return Doubt("rounding", "equal after rounding as the gold does; the candidate keeps more digits")


def _candidate_rounds(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    if len(execution.columns) != len(gold.execution.columns) - gold.hidden:
        return None
    recasts: dict[int, Recast] = {}
    for at in range(len(execution.columns)):
        digits = max((_decimals(row[at]) for row in execution.rows), default=0)
        if 0 < digits <= 6 and family(gold.execution.types[at]) == Family.NUMBER:
            recasts[at] = _rounding(digits)
    if not _recast_agrees(gold, execution, accepts, recasts):
        return None
    return Doubt("rounding", "the gold's numbers rounded to fewer digits")


def _struct_columns(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    flat_gold = replace(gold, execution=_flat(gold.execution), sort_keys=(), legal_rows=None)
    flat = _flat(execution)
    if (flat_gold.execution, flat) == (gold.execution, execution) or not accepts(flat_gold, flat):
        return None
    return Doubt("struct_columns", "the same values, but packed in a struct on one side only")


def _blob_text(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    if len(execution.columns) != len(gold.execution.columns) - gold.hidden:
        return None
    blobs = [
        at
        for at, name in enumerate(execution.types)
        if (family(gold.execution.types[at]), family(name)) == (Family.BLOB, Family.TEXT)
    ]
    for written in (lambda b: b.hex().upper(), lambda b: base64.b64encode(b).decode(), _escaped, _decoded):
        gold_side = dict.fromkeys(blobs, _on(bytes, written))
        upper = dict.fromkeys(blobs, _on(str, str.upper)) if written is not _decoded else {}
        if _recast_agrees(gold, execution, accepts, _both(gold_side, upper), upper):
            return Doubt("blob_text", "bytes against a text that writes them")
    return None


def _number_as_text(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    if len(execution.columns) != len(gold.execution.columns) - gold.hidden:
        return None
    mixed = [
        at
        for at, name in enumerate(execution.types)
        if {family(gold.execution.types[at]), family(name)} == {Family.TEXT, Family.NUMBER}
    ]
    if not _recast_agrees(gold, execution, accepts, dict.fromkeys(mixed, _integer_text)):
        return None
    return Doubt("number_as_text", "whole numbers against the text that writes them")


def _same_day(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    if len(execution.columns) != len(gold.execution.columns) - gold.hidden:
        return None
    mixed = [
        at
        for at, name in enumerate(execution.types)
        if family(name) == family(gold.execution.types[at]) == Family.INSTANT
        and (name.upper() == "DATE") != (gold.execution.types[at].upper() == "DATE")
    ]
    if not _recast_agrees(gold, execution, accepts, dict.fromkeys(mixed, _on(datetime.datetime, _date_of))):
        return None
    return Doubt("same_day", "the same days, with a time of day on one side", plain=True)


def _date_of(cell: datetime.datetime) -> datetime.date:
    return cell.date()


def _swapped(gold: Gold, execution: Execution, accepts: Accepts) -> Doubt | None:
    width = len(gold.execution.columns) - gold.hidden
    pairs = column_pairs(gold, execution)
    if len(execution.columns) != width or len(pairs) != width:
        return None
    assignment = tuple(pairs[at] for at in range(width))
    if contradicts(assignment, gold.execution.columns[:width], execution.columns):
        return None
    if relate(gold, execution, assignment).kind != Kind.SAME:
        return None
    return Doubt("swapped_columns", "the right columns in an order that neither names nor kinds of values explain")


READINGS = (
    _ties_kept,
    _unordered,
    _arbitrary,
    _total_over_nothing,
    _gold_rounds,
    _candidate_rounds,
    _struct_columns,
    _blob_text,
    _number_as_text,
    _same_day,
    _swapped,
)


# ---- recasting ---------------------------------------------------------------------------------------------


def _recast_agrees(
    gold: Gold,
    execution: Execution,
    accepts: Accepts,
    recasts: Mapping[int, Recast],
    own: Mapping[int, Recast] | None = None,
) -> bool:
    """Whether the two agree once the named columns are recast (`own`: on the candidate's side, if otherwise)."""
    if not recasts or len(execution.columns) != len(gold.execution.columns) - gold.hidden:
        return False
    # A recast cell may be of another family; the type "?" is comparable with anything.
    types = tuple("?" if at in recasts else name for at, name in enumerate(gold.execution.types))
    legal = None if gold.legal_rows is None else _rows(gold.legal_rows, recasts)
    keyed = any(key.column in recasts for key in gold.sort_keys)
    if keyed and accepts(replace(gold, sort_keys=()), execution):
        return False  # the cells agree as they are: what differs is their order
    recast_gold = replace(
        gold,
        execution=replace(gold.execution, rows=_rows(gold.execution.rows, recasts), types=types),
        legal_rows=legal,
        sort_keys=() if keyed else gold.sort_keys,
    )
    own_types = tuple("?" if at in recasts else name for at, name in enumerate(execution.types))
    own_rows = _rows(execution.rows, recasts if own is None else own)
    return accepts(recast_gold, replace(execution, rows=own_rows, types=own_types))


def _rows(rows: Sequence[tuple[Any, ...]], recasts: Mapping[int, Recast]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(recasts[at](cell) if at in recasts else cell for at, cell in enumerate(row)) for row in rows)


def _on(kind: type, function: Callable[[Any], Any]) -> Recast:
    return lambda cell: function(cell) if isinstance(cell, kind) else cell


def _both(first: Mapping[int, Recast], then: Mapping[int, Recast]) -> dict[int, Recast]:
    def joined(at: int) -> Recast:
        return lambda cell: then[at](first[at](cell)) if at in then else first[at](cell)

    return {at: joined(at) for at in first}


def _shuffled(cell: Any) -> Any:
    """A list as its bag of items; a joined text as its bag of characters, since its separator is unknown."""
    if isinstance(cell, list | tuple):
        return sorted(repr(token(item)) for item in cell)
    return "".join(sorted(cell)) if isinstance(cell, str) else cell


def _rounding(digits: int) -> Recast:
    def rounded(cell: Any) -> Any:
        if not is_number(cell, below=1e15):
            return cell
        with localcontext() as context:
            context.prec = 60
            return float(Decimal(str(cell)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))

    return rounded


def _decimals(cell: Any) -> int:
    """Digits after the point as written; 0 for anything but a number of ordinary size."""
    if not is_number(cell, below=1e15):
        return 0
    exponent = Decimal(str(cell)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _integer_text(cell: Any) -> Any:
    """A whole number as the text that writes it; '007' stays a code."""
    return str(int(cell)) if is_number(cell, below=1e40) and cell == int(cell) else cell


def _escaped(cell: bytes) -> str:
    """As DuckDB casts a blob to text: printable ASCII as it is, other bytes as \\xAB."""
    return "".join(chr(b) if 32 <= b < 127 and chr(b) not in "\\'\"" else f"\\x{b:02X}" for b in cell)


def _decoded(cell: bytes) -> Any:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return cell


def _flat(execution: Execution) -> Execution:
    """Struct columns of the answer replaced by their fields."""
    columns: list[str] = []
    types: list[str] = []
    readers: list[Callable[[tuple[Any, ...]], Any]] = []
    for at, (name, type_name) in enumerate(zip(execution.columns, execution.types, strict=True)):
        fields = _fields(type_name) if family(type_name) == Family.STRUCT else []
        for field_name, field_type in fields:
            columns.append(field_name)
            types.append(field_type)
            readers.append(lambda row, at=at, key=field_name: row[at] and row[at].get(key))  # type: ignore[misc]
        if not fields:
            columns.append(name)
            types.append(type_name)
            readers.append(lambda row, at=at: row[at])  # type: ignore[misc]
    rows = tuple(tuple(read(row) for read in readers) for row in execution.rows)
    return replace(execution, columns=tuple(columns), types=tuple(types), rows=rows)


def _fields(type_name: str) -> list[tuple[str, str]]:
    """Names and types of STRUCT(name TYPE, "other name" TYPE(..)), one level deep."""
    inside = type_name[type_name.find("(") + 1 : type_name.rfind(")")]
    parts, depth, start, quoted = [], 0, 0, False
    for at, char in enumerate(inside + ","):
        quoted ^= char == '"'
        if not quoted:
            depth += (char in "([") - (char in ")]")
            if char == "," and depth == 0:
                parts.append(inside[start:at].strip())
                start = at + 1
    found = [re.fullmatch(r'("(?:[^"]|"")*"|\S+)\s+(.+)', part) for part in parts]
    return [(m[1].strip('"').replace('""', '"'), m[2]) for m in found if m]

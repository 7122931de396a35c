"""Whether a condition can never be true, told from its text alone.

In: the parse tree of a condition. Out: true where no row of any table can meet it: `1 = 0`, `x <> x`, `x = NULL`,
`x IS NULL AND x IS NOT NULL`, `x > 5 AND x < 3`. What is not seen counts as possible.
Not here: conditions that only the rows at hand leave unmet; other rows find those out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

# Simplifying takes a time that grows faster than the text; what is longer than people write is not folded.
_MOST_NODES = 400
_COMPARES = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}


def never_true(condition: exp.Expr) -> bool:
    """True when the condition is false or NULL whatever the rows are."""
    condition = condition.unnest()
    if isinstance(condition, exp.Or):
        return all(never_true(side) for side in condition.flatten())
    if _false(condition):
        return True
    parts = [part.unnest() for part in condition.flatten()] if isinstance(condition, exp.And) else [condition]
    if any(isinstance(part, exp.Or) and never_true(part) for part in parts) or any(map(_null_or_self, parts)):
        return True
    return len(parts) > 1 and (_contradict(parts) or _empty_range(parts))


def _false(condition: exp.Expr) -> bool:
    """Folded by sqlglot, which knows no columns: so only what compares something without any."""
    nodes = list(itertools.islice(condition.walk(), _MOST_NODES + 1))
    fixed = any(
        isinstance(node, exp.Boolean | exp.Predicate) and not node.find(exp.Column, exp.Query) for node in nodes
    )
    if len(nodes) > _MOST_NODES or not (fixed or isinstance(condition, exp.Literal | exp.Null)):
        return False
    folded = simplify(condition.copy(), dialect="duckdb").unnest()
    if isinstance(folded, exp.Literal):
        return not folded.is_string and not folded.this.strip("0.")
    return isinstance(folded, exp.Null) or (isinstance(folded, exp.Boolean) and not folded.this)


def _null_or_self(part: exp.Expr) -> bool:
    """A comparison with NULL, or of a column with itself that cannot hold."""
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        return any(isinstance(end, exp.Null) for end in (low, high)) or _above(low, high)
    if isinstance(part, exp.In) and part.expressions:
        return all(isinstance(value, exp.Null) for value in part.expressions)
    if not isinstance(part, _COMPARES):
        return False
    if isinstance(part.this, exp.Null) or isinstance(part.expression, exp.Null):
        return True
    same = isinstance(part.this, exp.Column) and part.this == part.expression
    return same and isinstance(part, exp.NEQ | exp.GT | exp.LT)


def _contradict(parts: list[exp.Expr]) -> bool:
    """One part is the opposite of another."""
    texts = {part.sql("duckdb") for part in parts}
    return any(isinstance(part, exp.Not) and part.this.unnest().sql("duckdb") in texts for part in parts)


def _empty_range(parts: list[exp.Expr]) -> bool:
    """One column is over a number and under a smaller one, or equals two."""
    lows: dict[str, tuple[float, bool]] = {}
    highs: dict[str, tuple[float, bool]] = {}
    words: dict[str, set[str]] = {}
    for column, kind, value in _bounds(parts):
        if value.is_string:
            if kind is exp.EQ and value.this.isalpha():
                words.setdefault(column, set()).add(value.this)
            continue
        number, strict = float(value.this), kind in (exp.GT, exp.LT)
        if kind is not exp.LT and kind is not exp.LTE:
            lows[column] = max(lows.get(column, (number, strict)), (number, strict))
        if kind is not exp.GT and kind is not exp.GTE:
            # A strict bound is the narrower one: among highs it must come first.
            high = min((highs.get(column, (number, strict)), (number, strict)), key=lambda one: (one[0], not one[1]))
            highs[column] = high
    if any(len(found) > 1 for found in words.values()):
        return True
    both = ((lows[column], highs[column]) for column in lows.keys() & highs.keys())
    return any(low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1])) for low, high in both)


def _bounds(parts: list[exp.Expr]) -> Iterator[tuple[str, type[exp.Expr], exp.Literal]]:
    for part in parts:
        if isinstance(part, _COMPARES) and not isinstance(part, exp.NEQ):
            kind: type[exp.Expr] = type(part)
            column, value = part.this, part.expression
            if isinstance(column, exp.Literal):
                column, value, kind = value, column, _MIRRORED.get(kind, kind)
            if isinstance(column, exp.Column) and isinstance(value, exp.Literal):
                yield column.sql("duckdb"), kind, value


def _above(low: exp.Expr, high: exp.Expr) -> bool:
    pair = (low, high)
    if not all(isinstance(end, exp.Literal) and not end.is_string for end in pair):
        return False
    return float(low.this) > float(high.this)

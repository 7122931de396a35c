"""Texts against numbers: =, <>, <, >, BETWEEN, IN, and the keys of joins.

SQLite compares by affinity (https://sqlite.org/datatype3.html, section 4.2): beside a number column a text is read as a
number, beside a text column a number is written as text, and a text that stays one is greater than every number. DuckDB
refuses to compare the two, or fails on the first text that is no number.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import (
    as_text,
    as_whole,
    number_or_last,
    prefix_number,
    try_number,
    written_number,
)
from text2sql_rl.importers.dialect.names import Names, enclosing
from text2sql_rl.importers.dialect.values import Affinity, Holds, Kind

_PAIRS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ORDERING = (exp.LT, exp.LTE, exp.GT, exp.GTE)
# A text that is no number is as little equal to, or less than, a number as NULL is.
_PLAIN = (exp.EQ, exp.LT, exp.LTE)
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


def apply(tree: exp.Expr, names: Names) -> int:
    """Give both sides of every comparison one type; how many comparisons changed."""
    changed = 0
    for node in list(tree.find_all(exp.Between, exp.In, *_PAIRS, exp.Join)):
        if isinstance(node, exp.Between):
            changed += _between(node, names)
        elif isinstance(node, exp.In):
            changed += _in(node, names)
        elif isinstance(node, exp.Join):
            changed += _using(node, names)
        else:
            changed += _pair(node, names)
    return changed


def _pair(node: exp.Expr, names: Names) -> int:
    left, right = node.this, node.expression
    if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
        return 0
    if isinstance(node, _ORDERING) and _mixed_beside_text(node, names):
        return 1
    # In `text < number` it is the number that must not be greater than everything.
    plain = positive(node)
    new = (
        _fitted(left, right, names, plain and isinstance(node, _PLAIN)),
        _fitted(right, left, names, plain and type(_flip(node)) in _PLAIN),
    )
    for side, fitted in zip((left, right), new, strict=True):
        if fitted is not None:
            side.replace(fitted)
    return int(any(fitted is not None for fitted in new))


def _mixed_beside_text(node: exp.Expr, names: Names) -> bool:
    """`mixed < 'text'`: numbers are less than every text, texts compare as texts. False where that is not the case."""
    for mixed, other, operator in (
        (node.this, node.expression, type(node)),
        (node.expression, node.this, type(_flip(node))),
    ):
        own, its = names.kind(mixed), names.kind(other)
        if own.mixed and not own.clean and its.text and not its.mixed and not written_number(other):
            compared = operator(this=mixed.copy(), expression=other.copy())
            is_text = exp.Is(this=try_number(mixed.copy()), expression=exp.Null())
            less = operator in (exp.LT, exp.LTE)
            both = exp.or_(exp.not_(is_text), compared) if less else exp.and_(is_text, compared)
            node.replace(exp.paren(both))
            return True
    return False


def _flip(node: exp.Expr) -> exp.Expr:
    flipped = _FLIPPED.get(type(node))
    return flipped() if flipped else node


def _fitted(side: exp.Expr, other: exp.Expr, names: Names, plain: bool) -> exp.Expr | None:
    """What `side` becomes beside `other`; None where it stays.

    Args:
        side: may become text or number.
        other: what it is compared with.
        names: tells what both are.
        plain: NULL does for a text that is no number, because it decides the comparison the same way.
    """
    own, its = names.kind(side), names.kind(other)
    if own.holds is Holds.BOOL and its.holds in (Holds.INT, Holds.REAL):
        return as_whole(side.copy())
    if own.text and its.number:
        return _text_beside_number(side, own, its, plain, names)
    if own.mixed and its.mixed and isinstance(side.parent, _ORDERING) and side.parent is other.parent:
        return number_or_last(side.copy(), own.nullable)
    if names.dialect == "sqlite" and own.number and its.text and _writes(own, its):
        return as_text(as_whole(side.copy()) if own.holds is Holds.BOOL else side.copy())
    if own.text and own.affinity is Affinity.NUMBER and its.text and written_number(other):
        return _number(side, own, plain)
    if its.text and its.affinity is Affinity.NUMBER and written_number(side):
        return exp.Literal.number(written_number(side))
    return None


def _text_beside_number(side: exp.Expr, own: Kind, its: Kind, plain: bool, names: Names) -> exp.Expr | None:
    if names.dialect != "sqlite":
        if literal := written_number(side):
            return exp.Literal.number(literal)
        return prefix_number(side.copy(), own)  # MySQL's way
    if own.affinity is Affinity.TEXT and its.affinity is not Affinity.NUMBER:
        return None  # the number is written as text
    if own.affinity is Affinity.NONE and its.affinity is Affinity.NONE:
        return number_or_last(side.copy(), own.nullable, reads=own.dirty)
    if literal := written_number(side):
        return exp.Literal.number(literal)
    if isinstance(side, exp.Literal):
        return number_or_last(side.copy(), False, reads=False)
    return _number(side, own, plain)


def _number(side: exp.Expr, own: Kind, plain: bool) -> exp.Expr:
    if own.pure:
        return number_or_last(side.copy(), own.nullable, reads=False)
    return try_number(side.copy()) if plain or own.clean else number_or_last(side.copy(), own.nullable)


def _writes(number: Kind, text: Kind) -> bool:
    """Whether the number is compared as its text: only beside a text column."""
    return text.affinity is Affinity.TEXT and number.affinity is not Affinity.NUMBER


def positive(node: exp.Expr) -> bool:
    """Whether NULL and false do the same here: a condition of WHERE, ON or HAVING that nothing turns round."""
    up = node.parent
    while isinstance(up, exp.And | exp.Or | exp.Paren):
        up = up.parent
    return isinstance(up, exp.Where | exp.Join | exp.Having)


def _between(node: exp.Between, names: Names) -> int:
    value, low, high = node.this, node.args["low"], node.args["high"]
    new_value = [_fitted(value, bound, names, positive(node)) for bound in (low, high)]
    new_bounds = [_fitted(bound, value, names, positive(node)) for bound in (low, high)]
    if new_value[0] != new_value[1]:
        parts = exp.and_(exp.GTE(this=value.copy(), expression=low.copy()), exp.LTE(this=value.copy(), expression=high))
        wrapped = exp.paren(parts)
        node.replace(wrapped)
        return sum(_pair(part, names) for part in list(wrapped.find_all(exp.GTE, exp.LTE)))
    # A text beyond all numbers lies in no range, and NULL in none either.
    for old, new in ((value, new_value[0]), (low, new_bounds[0]), (high, new_bounds[1])):
        if new is not None:
            old.replace(new)
    return int(any(one is not None for one in (*new_value, *new_bounds)))


def _in(node: exp.In, names: Names) -> int:
    query = node.args.get("query")
    if query is not None:
        return _in_query(node, query, names)
    plain, value = positive(node), node.this
    values = [_fitted(value, item, names, plain) for item in node.expressions]
    items = [_fitted(item, value, names, plain) for item in node.expressions]
    if any(one != values[0] for one in values):
        parts = [exp.EQ(this=value.copy(), expression=item.copy()) for item in node.expressions]
        either = exp.paren(exp.or_(*parts))
        node.replace(either)
        return int(sum(_pair(part, names) for part in list(either.find_all(exp.EQ))) > 0)
    for item, new in zip(list(node.expressions), items, strict=True):
        if new is not None:
            item.replace(new)
    if values and values[0] is not None:
        value.replace(values[0])
    return int(any(new is not None for new in (*values, *items)))


def _in_query(node: exp.In, query: exp.Expr, names: Names) -> int:
    inner = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1 or inner.expressions[0].is_star:
        return 0
    item, value = inner.expressions[0], node.this
    target = item.this if isinstance(item, exp.Alias) else item
    plain = positive(node)
    # NULL among the rows of NOT IN would make the whole condition NULL.
    new = _fitted(value, target, names, plain), _fitted(target, value, names, plain)
    if new[0] is not None:
        value.replace(new[0])
    if new[1] is not None:
        target.replace(new[1])
    return int(new != (None, None))


def _using(join: exp.Join, names: Names) -> int:
    """USING and NATURAL over a text and a number column become ON."""
    using, query = join.args.get("using"), enclosing(join)
    if not using or query is None:
        return 0
    sources = names.sources(query)
    own = join.this.alias_or_name.lower()
    before = list(sources)[: list(sources).index(own)] if own in sources else []
    pairs = []
    for identifier in using:
        name = identifier.name.lower()
        left = next((alias for alias in before if name in sources[alias].columns), None)
        if left is None or name not in sources[own].columns:
            return 0
        pairs.append((left, name))
    kinds = [(sources[left].columns[name], sources[own].columns[name]) for left, name in pairs]
    if all(first.text == second.text for first, second in kinds):
        return 0
    on = exp.and_(*(exp.EQ(this=exp.column(name, left), expression=exp.column(name, own)) for left, name in pairs))
    join.set("using", None)
    join.set("on", on)
    return sum(_pair(part, names) for part in list(on.find_all(exp.EQ)))

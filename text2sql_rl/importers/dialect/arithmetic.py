"""Numbers made of texts and truth values: +, -, *, /, %, SUM, AVG, ROUND, ABS.

SQLite calculates with the number a text begins with, 0 where it begins with none, and with 1 and 0 for true and false.
Whole numbers divide to a whole number; dividing by zero gives NULL. Not here: a text that reads as a whole number is
divided as one there, and as a number with fractions here.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import as_whole, prefix_number
from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.values import Holds

_BINARY = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.BitwiseAnd, exp.BitwiseOr)
_UNARY = (exp.Neg, exp.Sum, exp.Avg, exp.Round, exp.Abs)


def apply(tree: exp.Expr, names: Names) -> int:
    """Give every calculation numbers, and every division the result SQLite has; how many operands changed."""
    changed = 0
    for node in list(tree.find_all(*_BINARY, *_UNARY)):
        operands = [node.this, node.expression] if isinstance(node, _BINARY) else [node.this]
        for operand in operands:
            inner = operand.expressions[0] if isinstance(operand, exp.Distinct) and operand.expressions else operand
            changed += _as_number(inner, names)
    for division in list(tree.find_all(exp.Div)):
        changed += _divide(division, names)
    for remainder in list(tree.find_all(exp.Mod)):
        changed += _remain(remainder, names)
    for total in list(tree.find_all(exp.Anonymous)):
        if total.name.lower() == "total" and len(total.expressions) == 1:
            _as_number(total.expressions[0], names)
            total.replace(exp.func("COALESCE", exp.Sum(this=total.expressions[0].copy()), exp.Literal.number("0.0")))
            changed += 1
    return changed


def _as_number(operand: exp.Expr | None, names: Names) -> int:
    if operand is None:
        return 0
    kind = names.kind(operand)
    if kind.text:
        operand.replace(prefix_number(operand.copy(), kind))
    elif kind.holds is Holds.BOOL:
        operand.replace(as_whole(operand.copy()))
    else:
        return 0
    return 1


def _divide(division: exp.Div, names: Names) -> int:
    whole = {names.kind(side).holds for side in (division.this, division.expression)} <= {Holds.INT, Holds.BOOL}
    divisor = division.expression
    known = isinstance(divisor, exp.Literal) and float(divisor.this) != 0
    if known:
        division.set("safe", False)
    if not (whole and division.args.get("typed")):
        division.set("typed", False)
        return 0
    by = divisor.copy() if known else exp.Nullif(this=divisor.copy(), expression=exp.Literal.number(0))
    left = division.this.copy()
    if isinstance(left, exp.Binary) and not isinstance(left, exp.Mul | exp.Div | exp.IntDiv):
        left = exp.paren(left)
    division.replace(exp.IntDiv(this=left, expression=by))
    return 1


def _remain(remainder: exp.Mod, names: Names) -> int:
    divisor = remainder.expression
    for side in (remainder.this, divisor):
        if names.kind(side).holds is Holds.REAL:  # SQLite cuts fractions off first
            side.replace(exp.Anonymous(this="TRUNC", expressions=[side.copy()]))
    divisor = remainder.expression
    if isinstance(divisor, exp.Nullif) or (isinstance(divisor, exp.Literal) and float(divisor.this)):
        return 0
    remainder.set("expression", exp.Nullif(this=divisor.copy(), expression=exp.Literal.number(0)))
    return 1

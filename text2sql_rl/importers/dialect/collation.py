"""Texts are equal in MySQL whatever their letter case: a column beside a text literal is compared in lower case.

Only =, <>, <=> and IN with literals that have letters; a BINARY side asks for the case, and keeps it. Joins, GROUP BY,
DISTINCT and ORDER BY keep the case as well: the data decides there, and mostly has one spelling.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.values import Holds


def apply(tree: exp.Expr, names: Names) -> int:
    """Compare in lower case; how many comparisons changed."""
    changed = 0
    for node in list(tree.find_all(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.In)):
        if isinstance(node, exp.In):
            literals = list(node.expressions)
            sides = [(node.this, literals)] if literals else []
        else:
            sides = [(node.this, [node.expression]), (node.expression, [node.this])]
        for side, others in sides:
            if _is_text(side, names) and all(map(_is_literal, others)) and any(map(_has_letters, others)):
                for other in others:
                    other.replace(exp.Literal.string(other.this.lower()))
                side.replace(exp.func("LOWER", side.copy()))
                changed += 1
                break
    return changed


def _is_text(node: exp.Expr, names: Names) -> bool:
    return isinstance(node, exp.Column) and names.kind(node).holds is Holds.TEXT


def _is_literal(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _has_letters(node: exp.Expr) -> bool:
    return bool(node.this.lower() != node.this.upper())

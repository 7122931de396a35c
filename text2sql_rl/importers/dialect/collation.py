"""Letter case of texts that are compared: MySQL leaves it out always, SQLite where a column is declared so.

MySQL: a column beside a text literal is compared in lower case, with =, <>, <=> and IN; a BINARY side asks for the
case, and keeps it. SQLite: a column that is declared COLLATE NOCASE says so in comparisons and in ORDER BY; COLLATE
BINARY is left out, RTRIM is a function. In both, GROUP BY, DISTINCT, MIN and MAX keep the case: the data decides there,
and mostly has one spelling.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.values import Holds

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def apply(tree: exp.Expr, names: Names) -> int:
    """Compare in lower case; how many comparisons changed."""
    if names.dialect == "sqlite":
        return _declared_collations(tree, names) + _written_collations(tree)
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


def _written_collations(tree: exp.Expr) -> int:
    changed = 0
    for node in list(tree.find_all(exp.Collate)):
        if (name := node.expression.name.upper()) in ("BINARY", "RTRIM"):
            node.replace(node.this.copy() if name == "BINARY" else exp.func("RTRIM", node.this.copy()))
            changed += 1
    return changed


def _declared_collations(tree: exp.Expr, names: Names) -> int:
    """SQLite takes the collation of the left side where that is a column, else of the right one."""
    changed = 0
    for node in list(tree.find_all(exp.Ordered, exp.In, exp.Between, *_COMPARISONS)):
        side = node.this
        if isinstance(node, _COMPARISONS):
            if any(isinstance(one, exp.Collate) for one in (node.this, node.expression)):
                continue
            side = node.this if isinstance(node.this, exp.Column) else node.expression
        if isinstance(side, exp.Column) and names.kind(side).nocase:
            side.replace(exp.Collate(this=side.copy(), expression=exp.var("NOCASE")))
            changed += 1
    return changed

"""Conditions that are no truth values: SQLite takes the number a text begins with and asks whether it is 0."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import prefix_number, written_number
from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Compare such conditions with 0; how many."""
    changed = 0
    for node in list(tree.find_all(exp.Where, exp.Having, exp.And, exp.Or, exp.Not, exp.If, exp.Join)):
        if isinstance(node, exp.Join):
            operands = [node.args.get("on")]
        elif isinstance(node, exp.If) and isinstance(node.parent, exp.Case) and node.parent.this is not None:
            continue  # CASE x WHEN y: y is compared, not asked
        else:
            operands = [node.this, node.expression] if isinstance(node, exp.And | exp.Or) else [node.this]
        for operand in operands:
            if operand is None:
                continue
            kind = names.kind(operand)
            if not kind.text:
                continue
            if isinstance(operand, exp.Literal):
                operand.replace(exp.Boolean(this=bool(float(written_number(operand) or 0))))
            else:
                operand.replace(exp.NEQ(this=prefix_number(operand.copy(), kind), expression=exp.Literal.number(0)))
            changed += 1
    return changed

"""LIMIT -1 means no limit in SQLite; DuckDB refuses it. (LIMIT a, b is read by sqlglot.)"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Drop negative limits and offsets; how many."""
    changed = 0
    for node in list(tree.find_all(exp.Limit, exp.Offset)):
        if isinstance(node.expression, exp.Neg):
            node.pop()
            changed += 1
    return changed

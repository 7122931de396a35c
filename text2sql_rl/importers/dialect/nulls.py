"""Order of NULL: sqlglot writes NULLS FIRST for SQLite's ascending order; it is dropped where there is no NULL.

A text as a key of ORDER BY orders nothing in SQLite, and is refused by DuckDB: it is dropped.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Drop what orders no NULL; how many."""
    dropped = 0
    for order in list(tree.find_all(exp.Order)):
        keys = [key for key in order.expressions if not (isinstance(key.this, exp.Literal) and key.this.is_string)]
        dropped += len(order.expressions) - len(keys)
        order.set("expressions", keys) if keys else order.pop()
    for key in tree.find_all(exp.Ordered):
        if key.args.get("nulls_first") and not key.args.get("desc") and not names.kind(key.this).nullable:
            key.set("nulls_first", False)
            dropped += 1
    return dropped

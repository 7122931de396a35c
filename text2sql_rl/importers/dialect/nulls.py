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
        meant = _meant(key)
        if key.args.get("nulls_first") and not key.args.get("desc") and meant and not names.kind(meant).nullable:
            key.set("nulls_first", False)
            dropped += 1
    return dropped


def _meant(key: exp.Ordered) -> exp.Expr | None:
    """What a key sorts by: a position is the item of the select list there; None where that is not known."""
    value: exp.Expr = key.this
    if not (isinstance(value, exp.Literal) and value.is_int):
        return value
    query = key.find_ancestor(exp.Query)
    items = query.expressions if isinstance(query, exp.Select) else []
    place = int(value.this) - 1
    known = 0 <= place < len(items) and not any(item.is_star for item in items)
    return items[place] if known else None

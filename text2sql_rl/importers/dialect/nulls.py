"""Order of NULL: sqlglot writes NULLS FIRST for SQLite's ascending order; it is dropped where there is no NULL."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Drop what orders no NULL; how many."""
    dropped = 0
    for key in tree.find_all(exp.Ordered):
        if key.args.get("nulls_first") and not key.args.get("desc") and not names.kind(key.this).nullable:
            key.set("nulls_first", False)
            dropped += 1
    return dropped

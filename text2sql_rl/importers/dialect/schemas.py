"""`public.item`: Postgres has everything in that schema by default; an imported database has its tables in `main`."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Leave the schema out, of tables and of their columns; how many."""
    changed = 0
    for node in tree.find_all(exp.Table, exp.Column):
        if node.text("db").lower() == "public":
            node.set("db", None)
            node.set("catalog", None)
            changed += 1
    return changed

"""NUMERIC and DECIMAL without digits: any precision in Postgres, whole numbers in MySQL, three decimals in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Cast to DOUBLE, or to DECIMAL(10,0), instead; how many casts changed."""
    changed = 0
    for cast in tree.find_all(exp.Cast):
        if cast.args["to"].is_type("decimal") and not cast.args["to"].expressions:
            cast.set("to", exp.DataType.build("double" if names.dialect == "postgres" else "decimal(10, 0)"))
            changed += 1
    return changed

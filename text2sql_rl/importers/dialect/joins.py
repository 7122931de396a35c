"""Joins that DuckDB reads in another order than SQLite.

SQLite lets ON name a table that is joined later, and takes it for a part of WHERE. Here such a condition moves to the
first join where all its tables are there. Joins with a side (LEFT, RIGHT, FULL) are left alone.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Move conditions to where their tables are known; how many moved."""
    moved = 0
    for select in list(tree.find_all(exp.Select)):
        joins = select.args.get("joins") or []
        if len(joins) < 2 or any(join.side or join.args.get("using") for join in joins):
            continue
        order = [join.this.alias_or_name.lower() for join in joins]
        for at, join in enumerate(joins):
            condition = join.args.get("on")
            if condition is None:
                continue
            here: list[exp.Expr] = []
            for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
                used = {column.table.lower() for column in part.find_all(exp.Column)}
                last = max([order.index(alias) for alias in used if alias in order], default=at)
                if last <= at:
                    here.append(part)
                    continue
                moved += 1
                other = joins[last].args.get("on")
                joins[last].set("on", exp.and_(other, part.copy()) if other is not None else part.copy())
                joins[last].set("kind", None)
            if len(here) < sum(1 for _ in (condition.flatten() if isinstance(condition, exp.And) else [condition])):
                join.set("on", exp.and_(*(part.copy() for part in here)) if here else None)
                if not here:
                    join.set("kind", "CROSS")
    return moved

"""Ordered-set aggregates of Postgres: what WITHIN GROUP orders by is what is aggregated.

`percentile_cont(x) WITHIN GROUP (ORDER BY y)` becomes `QUANTILE_CONT(y, x)`, and `mode() WITHIN GROUP (ORDER BY y)`
`MODE(y)`.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Write the aggregates as DuckDB has them; how many."""
    changed = 0
    for group in list(tree.find_all(exp.WithinGroup)):
        ordered = group.expression.expressions[0]
        if isinstance(group.this, exp.Mode):
            group.replace(exp.Mode(this=ordered.this.copy()))
        elif isinstance(group.this, exp.PercentileCont | exp.PercentileDisc):
            kind = "QUANTILE_CONT" if isinstance(group.this, exp.PercentileCont) else "QUANTILE_DISC"
            share = group.this.this.copy()
            if ordered.args.get("desc"):
                share = exp.paren(exp.Sub(this=exp.Literal.number(1), expression=share))
            value = ordered.this.copy()
            if kind == "QUANTILE_CONT" and names.kind(ordered.this).number:
                value = exp.cast(value, "double")  # DuckDB keeps the digits of a DECIMAL, and cuts what lies between
            group.replace(exp.AnonymousAggFunc(this=kind, expressions=[value, share]))
        else:
            continue
        changed += 1
    return changed

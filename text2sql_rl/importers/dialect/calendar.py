"""MySQL's calendar: days of the week count from 1 for Sunday (WEEKDAY: from 0 for Monday), spans count whole units.

DuckDB's DATE_DIFF counts how many borders lie between; a person born in December is not a year old in January.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Rewrite DAYOFWEEK, WEEKDAY and TIMESTAMPDIFF; how many."""
    changed = 0
    for node in list(tree.find_all(exp.DayOfWeek, exp.TimestampDiff, exp.Anonymous)):
        if isinstance(node, exp.DayOfWeek):
            day = exp.Anonymous(this="DAYOFWEEK", expressions=[_date(node.this)])
            node.replace(exp.paren(exp.Add(this=day, expression=exp.Literal.number(1))))
        elif isinstance(node, exp.TimestampDiff):
            unit = exp.Literal.string(node.text("unit").lower())
            ends = [exp.cast(end.copy(), "timestamp") for end in (node.expression, node.this)]
            node.replace(exp.Anonymous(this="DATE_SUB", expressions=[unit, *ends]))
        elif node.name.upper() == "WEEKDAY" and len(node.expressions) == 1:
            day = exp.Anonymous(this="ISODOW", expressions=[_date(node.expressions[0])])
            node.replace(exp.paren(exp.Sub(this=day, expression=exp.Literal.number(1))))
        else:
            continue
        changed += 1
    return changed


def _date(node: exp.Expr) -> exp.Expr:
    inner = node.this if isinstance(node, exp.TsOrDsToDate) else node
    return exp.cast(inner.copy(), "date")

"""COALESCE, CASE, IF, NULLIF and UNION over texts and numbers: DuckDB wants one type; numbers are written as texts."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import as_text, as_whole
from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.values import Holds


def apply(tree: exp.Expr, names: Names) -> int:
    """Write the numbers among texts as texts; how many."""
    changed = 0
    for node in list(tree.find_all(exp.Coalesce, exp.Case, exp.If, exp.Nullif)):
        values = _values(node)
        kinds = [names.kind(value) for value in values]
        if not any(kind.text for kind in kinds):
            continue
        for value, kind in zip(values, kinds, strict=True):
            if kind.number:
                value.replace(as_text(as_whole(value.copy()) if kind.holds is Holds.BOOL else value.copy()))
                changed += 1
    return changed


def _values(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Case):
        found = [branch.args.get("true") for branch in node.args.get("ifs") or ()] + [node.args.get("default")]
    elif isinstance(node, exp.If):
        if isinstance(node.parent, exp.Case):
            return []
        found = [node.args.get("true"), node.args.get("false")]
    elif isinstance(node, exp.Nullif):
        found = [node.this, node.expression]
    else:
        found = [node.this, *node.expressions]
    return [value for value in found if value is not None]

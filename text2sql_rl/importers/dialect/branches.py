"""COALESCE, CASE, IF, NULLIF and UNION over texts and numbers: DuckDB wants one type; numbers are written as texts."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import as_text, as_whole, try_number, written_number
from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.values import Holds


def apply(tree: exp.Expr, names: Names) -> int:
    """Write the numbers among texts as texts; how many."""
    changed = sum(_nullif(node, names) for node in list(tree.find_all(exp.Nullif)))
    for node in list(tree.find_all(exp.Coalesce, exp.Case, exp.If)):
        values = _values(node)
        kinds = [names.kind(value) for value in values]
        if not any(kind.text for kind in kinds):
            continue
        for value, kind in zip(values, kinds, strict=True):
            if kind.number:
                value.replace(as_text(as_whole(value.copy()) if kind.holds is Holds.BOOL else value.copy()))
                changed += 1
    return changed


def _nullif(node: exp.Nullif, names: Names) -> int:
    """A number is never equal to a text: NULLIF is a function, and beside it there is no affinity."""
    kinds = names.kind(node.this), names.kind(node.expression)
    if names.dialect == "sqlite":
        if not any(kind.number for kind in kinds) or not any(kind.text and not kind.dirty for kind in kinds):
            return 0
        node.replace(node.this.copy())
        return 1
    if not (kinds[0].number and kinds[1].text):
        return 0
    if number := written_number(node.expression):
        node.set("expression", exp.Literal.number(number))
    elif isinstance(node.expression, exp.Literal):
        node.replace(node.this.copy())
    else:
        node.set("expression", try_number(node.expression.copy()))
    return 1


def _values(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Case):
        found = [branch.args.get("true") for branch in node.args.get("ifs") or ()] + [node.args.get("default")]
    elif isinstance(node, exp.If):
        if isinstance(node.parent, exp.Case):
            return []
        found = [node.args.get("true"), node.args.get("false")]
    else:
        found = [node.this, *node.expressions]
    return [value for value in found if value is not None]

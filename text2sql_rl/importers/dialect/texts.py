"""Functions on texts that are given a number: SQLite reads its text, DuckDB refuses it."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import as_text, as_whole
from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.values import Holds

_FUNCTIONS = (exp.Length, exp.Upper, exp.Lower, exp.Substring, exp.Replace, exp.Trim, exp.StrPosition)
_MATCHES = (exp.Like, exp.ILike, exp.Glob)
_BOTH_SIDES = (exp.StrPosition, exp.Replace, *_MATCHES, exp.DPipe)


def apply(tree: exp.Expr, names: Names) -> int:
    """Hand such functions texts; how many operands changed."""
    changed = 0
    for node in list(tree.find_all(*_FUNCTIONS, *_MATCHES, exp.DPipe)):
        operands = [node.this]
        if isinstance(node, _BOTH_SIDES):
            operands += [node.args.get("expression"), node.args.get("substr")]
        for operand in operands:
            if operand is None:
                continue
            kind = names.kind(operand)
            if kind.holds is Holds.BOOL:
                operand.replace(as_text(as_whole(operand.copy())))
            elif kind.number and not isinstance(node, exp.DPipe):
                operand.replace(as_text(operand.copy()))
            else:
                continue
            changed += 1
    return changed

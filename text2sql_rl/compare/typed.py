"""Whether a statement's answer is typed in rather than read.

In: a candidate's and a gold's SQL. Out: true when every column the candidate returns is a constant expression,
although the gold reads its columns. Constants that stand in the gold's own text (`SELECT 'ops' ... WHERE dept =
'ops'`) are not held against anyone. Not here: constants behind a subquery; other instances find those out.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

_READS = (exp.Column, exp.Star, exp.AggFunc, exp.Window, exp.Subquery, exp.Query, exp.Columns)


def typed_in(sql: str, gold_sql: str) -> bool:
    """True when `sql` answers with constants of its own where `gold_sql` does not."""
    found = _constants(sql)
    if not found or _constants(gold_sql):
        return False
    try:
        known = {node.this for node in sqlglot.parse_one(gold_sql, dialect="duckdb").find_all(exp.Literal)}
    except (sqlglot.errors.SqlglotError, RecursionError):
        known = set()
    return not found <= known


def _constants(sql: str) -> set[str]:
    """The texts of all literals in the select list when it holds nothing else; empty otherwise."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return set()
    found: set[str] = set()
    todo: list[exp.Expr] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Subquery):
            todo.append(node.this)
        elif isinstance(node, exp.SetOperation):
            todo += [node.this, node.expression]
        elif isinstance(node, exp.Select) and not any(item.find(*_READS) for item in node.selects):
            found |= {literal.this for item in node.selects for literal in item.find_all(exp.Literal)}
        else:
            return set()
    return found

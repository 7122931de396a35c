"""Whether a statement's answer is typed in rather than read.

In: a candidate's and a gold's SQL. Out: true when every column the candidate returns is a constant expression,
although the gold reads its columns. Constants that stand in the gold's own text (`SELECT 'ops' ... WHERE dept =
'ops'`) are not held against anyone. Not here: constants behind a subquery; other instances find those out.
"""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from sqlglot import exp

_LITERAL = re.compile(r"['$0-9]")
# A select list that begins with a star, a common aggregate or a plain column: seen without parsing.
_BEGINS_READING = re.compile(
    r"\s*SELECT\s+(?:DISTINCT\s+)?(?:\*|(?:count|sum|avg|min|max)\s*\("
    r"|(?!null\b|true\b|false\b|current_|local|session_|user\b)[^\W\d]\w*\s*(?:[,.]|(?<=\s)(?:AS|FROM)\b))",
    re.IGNORECASE,
)
_READS = (exp.Column, exp.Star, exp.AggFunc, exp.Window, exp.Subquery, exp.Query, exp.Columns)


def typed_in(sql: str, gold_sql: str) -> bool:
    """True when `sql` answers with constants of its own where `gold_sql` does not."""
    if sql == gold_sql or not _LITERAL.search(sql) or _BEGINS_READING.match(sql):
        return False
    found = _constants(sql)
    return bool(found) and not _constants(gold_sql) and not found <= _literals(gold_sql)


@lru_cache(maxsize=4096)
def _literals(sql: str) -> frozenset[str]:
    try:
        return frozenset(node.this for node in sqlglot.parse_one(sql, dialect="duckdb").find_all(exp.Literal))
    except (sqlglot.errors.SqlglotError, RecursionError):
        return frozenset()


# A policy repeats itself, and so do the questions it is asked.
@lru_cache(maxsize=4096)
def _constants(sql: str) -> frozenset[str]:
    """The texts of all literals in the select list when it holds nothing else; empty otherwise."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return frozenset()
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
            return frozenset()
    return frozenset(found)

"""A find made small: the least statement that is still one.

In: SQL and a test of many statements at once. Out: SQL that passes the test and from which no single part can be taken
(or, after some rounds, not yet). Not here: what a find is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import sqlglot
from sqlglot import exp

_ROUNDS, _CUTS = 12, 40


def minimise(sql: str, still: Callable[[Sequence[str]], Sequence[bool]]) -> str:
    """Take parts away while it stays a find.

    Args:
        sql: a find; one that does not parse is returned as it is.
        still: for each of some statements, whether it is the same find.
    """
    best = sql
    for _ in range(_ROUNDS):
        cuts = list(dict.fromkeys(smaller for smaller in _smaller(best) if len(smaller) < len(best)))
        cuts = sorted(cuts, key=len)[:_CUTS]
        passed = [cut for cut, passes in zip(cuts, still(cuts), strict=True) if passes] if cuts else []
        if not passed:
            break
        best = passed[0]
    return best


def _smaller(sql: str) -> Iterator[str]:
    """Statements with one part less, the largest cuts first."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return
    for at, node in enumerate(tree.walk()):
        for child in node.iter_expressions():
            if isinstance(child, exp.Query | exp.Condition):
                yield from _replaced(tree, at, child.unnest() if at == 0 else child)
        if at and (isinstance(node.parent, exp.Select | exp.SetOperation) or node.key in ("where", "order", "with")):
            yield from _replaced(tree, at, None)


def _replaced(tree: exp.Expr, at: int, child: exp.Expr | None) -> Iterator[str]:
    copy = tree.copy()
    node = next(islice(copy.walk(), at, None))
    try:
        if node is copy:
            if isinstance(child, exp.Query):
                yield child.sql("duckdb")
        elif child is None:
            node.pop()
            yield copy.sql("duckdb")
        else:
            node.replace(child.copy())
            yield copy.sql("duckdb")
    except (sqlglot.errors.SqlglotError, AttributeError, ValueError):
        return  # the rest is no statement

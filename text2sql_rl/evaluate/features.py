"""What a gold's SQL uses, and how long it is: the groups in which failures are counted.

In: gold SQL. Out: names. A question counts under every feature its gold has. Not here: hardness, which the question set
states; candidates.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

FEATURES: dict[str, tuple[Any, ...]] = {
    "join": (exp.Join,),
    "where": (exp.Where,),
    "aggregate": (exp.AggFunc,),
    "group by": (exp.Group,),
    "having": (exp.Having,),
    "order by": (exp.Order,),
    "limit": (exp.Limit, exp.Fetch),
    "distinct": (exp.Distinct,),
    "subquery": (exp.Subquery, exp.Exists),
    "set operation": (exp.SetOperation,),
    "window": (exp.Window,),
    "case": (exp.Case, exp.If),
    "like": (exp.Like, exp.ILike),
    "with": (exp.CTE,),
}
_LENGTHS = ((10, "up to 10 tokens"), (20, "11 to 20 tokens"), (40, "21 to 40 tokens"))
_LONGER = "over 40 tokens"


@lru_cache(maxsize=16_384)
def features(sql: str) -> tuple[str, ...]:
    """The names of `FEATURES` this statement has, in their order; ("plain",) for none, ("unread",) for unreadable."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return ("unread",)
    found = [name for name, kinds in FEATURES.items() if tree.find(*kinds) is not None]
    return tuple(found) or ("plain",)


@lru_cache(maxsize=16_384)
def length(sql: str) -> str:
    """The length group of this statement, counted in SQL tokens."""
    try:
        tokens = len(sqlglot.tokenize(sql, read="duckdb"))
    except sqlglot.errors.SqlglotError:
        tokens = len(sql.split())
    return next((name for most, name in _LENGTHS if tokens <= most), _LONGER)


LENGTHS = (*(name for _, name in _LENGTHS), _LONGER)

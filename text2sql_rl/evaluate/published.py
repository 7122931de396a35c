"""The rules by which two public benchmarks compare rows, so that numbers can be set beside those of papers.

In: the rows of a gold and of a candidate as Python values, and SQL text. Out: yes or no. Written anew from what the
rules say, not from their code. Pure functions. Not here: the headline, whose rule is `compare`; running SQL.

- BIRD (Li et al. 2023, arXiv 2305.03111, execution accuracy): the two sets of rows are equal. Order and duplicates do
  not matter, the order of columns does.
- Test suite (Zhong et al. 2020, arXiv 2010.02840): the two bags of rows are equal under some order of the columns; as
  lists, if the words ORDER BY stand anywhere in the gold. DISTINCT is taken out of both statements before they run, and
  two empty results are equal whatever their columns. All instances must agree.

Cells are equal when Python says so: 1 == 1.0 == True, no tolerance, NaN unlike itself. One quirk of the published
test-suite code is left out on purpose: it first sorts cells as text, and so rejects (1, 10.0) against (1.0, 10).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot.tokenizer_core import TokenType

Rows = Sequence[Sequence[Any]]

_ORDER_BY = re.compile(r"\border\s+by\b", re.IGNORECASE)
# Results with many columns of equal values in other orders have very many column orders; nobody waits for those.
_MOST_TRIES = 2_000


def set_match(gold: Rows, rows: Rows) -> bool:
    """Whether the two sets of rows are equal."""
    return set(_hashable(gold)) == set(_hashable(rows))


def suite_match(gold: Rows, rows: Rows, *, ordered: bool) -> bool:
    """Whether the rows are the same under some order of the columns: as lists if `ordered`, as bags otherwise."""
    if not gold and not rows:
        return True
    if len(gold) != len(rows) or len(gold[0]) != len(rows[0]):
        return False
    wanted, found = (list(zip(*_hashable(some), strict=True)) for some in (gold, rows))
    # As lists, columns are equal or not on their own, and any pairing of equal ones will do.
    return Counter(wanted) == Counter(found) if ordered else _bags_agree(wanted, found)


def is_ordered(gold_sql: str) -> bool:
    """Whether the test suite compares this gold's rows in order."""
    return _ORDER_BY.search(gold_sql) is not None


def without_distinct(sql: str) -> str:
    """The statement with its DISTINCT taken out, as the test suite runs it; DISTINCT ON and IS DISTINCT FROM stay.

    A statement that cannot be read into words comes back as it is.
    """
    try:
        tokens = sqlglot.tokenize(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return sql
    parts, at = [], 0
    for before, token, after in zip((None, *tokens), tokens, (*tokens[1:], None), strict=False):
        keeps = (before and before.token_type in (TokenType.IS, TokenType.NOT)) or (
            after and after.token_type is TokenType.ON
        )
        if token.token_type is TokenType.DISTINCT and not keeps:
            parts.append(sql[at : token.start])
            at = token.end + 1
    return "".join((*parts, sql[at:]))


def _bags_agree(wanted: Sequence[tuple[Hashable, ...]], found: Sequence[tuple[Hashable, ...]]) -> bool:
    """Whether some order of the columns `found` gives the bag of rows of the columns `wanted`; column by column."""
    counts = [Counter(column) for column in found]
    choices = [[at for at, count in enumerate(counts) if count == Counter(column)] for column in wanted]
    tries = 0

    def extend(order: tuple[int, ...]) -> bool:
        nonlocal tries
        width = len(order)
        if width == len(wanted):
            return True
        goal = Counter(zip(*wanted[: width + 1], strict=True))
        seen: set[tuple[Hashable, ...]] = set()
        for at in choices[width]:
            if at in order or found[at] in seen:
                continue
            seen.add(found[at])
            tries += 1
            if tries > _MOST_TRIES:
                return False
            columns = [found[one] for one in (*order, at)]
            if Counter(zip(*columns, strict=True)) == goal and extend((*order, at)):
                return True
        return False

    return extend(())


def _hashable(rows: Rows) -> list[tuple[Hashable, ...]]:
    return [tuple(_frozen(cell) for cell in row) for row in rows]


def _frozen(cell: Any) -> Hashable:
    if isinstance(cell, list | tuple):
        return tuple(_frozen(one) for one in cell)
    if isinstance(cell, Mapping):
        return frozenset((_frozen(key), _frozen(value)) for key, value in cell.items())
    return cell if isinstance(cell, Hashable) else repr(cell)

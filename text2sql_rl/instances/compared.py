"""What statements compare: columns with each other, and numbers of rows with a number.

In: statements and the schema. Out: which columns meet which (`column_meets`), which ones sort (`ordering_columns`), and
the sizes of groups around every number that a count is held against (`group_sizes`), so that rows can be made on which
the comparison comes out either way. Names are resolved as far as aliases tell; a wrong guess makes a row more likely to
meet, and no more.
Not here: literals that a column is compared with (literals.py), rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from sqlglot import exp

from text2sql_rl.instances.literals import parsed
from text2sql_rl.records import Table

Place = tuple[str, str]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In)
# Groups of more rows than this are not made, and numbers of more digits not read.
_LARGEST, _DIGITS = 40, 4


def column_meets(statements: Iterable[str], tables: Sequence[Table]) -> dict[Place, tuple[Place, ...]]:
    """(table, column) in small letters -> other ones it is compared with: by =, IN, INTERSECT or EXCEPT."""
    found: dict[Place, dict[Place, None]] = {}
    for sql in statements:
        tree = parsed(sql)
        if tree is None:
            continue
        homes = _homes(tree)
        for one, other in _pairs(tree):
            for first, second in product(_places(one, homes, tables), _places(other, homes, tables)):
                if first != second:
                    found.setdefault(first, {})[second] = None
                    found.setdefault(second, {})[first] = None
    return {place: tuple(others) for place, others in found.items()}


def group_sizes(statements: Iterable[str]) -> tuple[int, ...]:
    """Sizes on, just below and just above every number that some count is compared with, in order."""
    sizes = set()
    for sql in statements:
        tree = parsed(sql) if "count" in sql.lower() else None
        if tree is None:
            continue
        counted = {alias.alias.lower() for alias in tree.find_all(exp.Alias) if alias.find(exp.Count)}
        for node in tree.find_all(*_COMPARISONS):
            names = {column.name.lower() for column in node.find_all(exp.Column)}
            if node.find(exp.Count) or names & counted:
                numbers = (one.this for one in node.find_all(exp.Literal) if len(one.this) <= _DIGITS)
                sizes |= {int(number) for number in numbers if number.isdecimal()}
    around = {size + step for size in sizes if size < _LARGEST for step in (-1, 0, 1)}
    return tuple(sorted(size for size in around if size > 0))


def ordering_columns(statements: Iterable[str]) -> frozenset[str]:
    """Names in small letters of the columns that rows are sorted by, as they are."""
    return frozenset(
        column.name.lower()
        for sql in statements
        if "order" in sql.lower() and (tree := parsed(sql)) is not None
        for key in tree.find_all(exp.Ordered)
        for column in key.find_all(exp.Column)
        if not column.find_ancestor(exp.AggFunc)
    )


def _pairs(tree: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    for node in tree.find_all(exp.EQ, exp.In, exp.SetOperation):
        if isinstance(node, exp.EQ):
            yield node.this, node.expression
        elif isinstance(node, exp.In) and isinstance(query := node.args.get("query"), exp.Expr):
            inner = query.find(exp.Select)
            if inner is not None and inner.expressions:
                yield node.this, inner.expressions[0]
        elif isinstance(node, exp.Except | exp.Intersect):
            one, other = node.this.find(exp.Select), node.expression.find(exp.Select)
            if one is not None and other is not None:
                yield from zip(one.expressions, other.expressions, strict=False)


def _homes(tree: exp.Expr) -> Mapping[str, set[str]]:
    """Alias or name in small letters -> the tables it may stand for."""
    homes: dict[str, set[str]] = {}
    for table in tree.find_all(exp.Table):
        for name in (table.alias_or_name, table.name):
            homes.setdefault(name.lower(), set()).add(table.name.lower())
    return homes


def _places(side: exp.Expr, homes: Mapping[str, set[str]], tables: Sequence[Table]) -> list[Place]:
    """Where the one column of this side may stand; none where it has no column or several."""
    columns = [side] if isinstance(side, exp.Column) else list(side.find_all(exp.Column))
    if len(columns) != 1 or side.find(exp.Select):
        return []
    name = columns[0].name.lower()
    of = homes.get(columns[0].table.lower(), set()) if columns[0].table else set().union(*homes.values())
    return [
        (table.name.lower(), name)
        for table in tables
        if table.name.lower() in of and any(column.name.lower() == name for column in table.columns)
    ]

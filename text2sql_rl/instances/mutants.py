"""Wrong queries that look like the gold: what a set of instances has to tell from it.

In: a gold's SQL and the schema. Out: other statements, each one small change away, most dangerous kinds first.
A mutant may happen to mean the same as the gold; no instance tells it apart, and nothing is lost.
Not here: running them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import sqlglot
from sqlglot import exp

from text2sql_rl.records import Table

_COMPARISONS: dict[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    exp.EQ: (exp.NEQ, exp.GTE),
    exp.NEQ: (exp.EQ,),
    exp.GT: (exp.GTE, exp.LT),
    exp.GTE: (exp.GT, exp.LTE),
    exp.LT: (exp.LTE, exp.GT),
    exp.LTE: (exp.LT, exp.GTE),
}
_AGGREGATES: dict[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    exp.Sum: (exp.Avg, exp.Max),
    exp.Avg: (exp.Sum, exp.Max),
    exp.Min: (exp.Max,),
    exp.Max: (exp.Min,),
}
_ARITHMETIC: dict[type[exp.Expr], type[exp.Expr]] = {exp.Add: exp.Sub, exp.Sub: exp.Add, exp.Mul: exp.Div}


Operator = Callable[[exp.Expr, Sequence[Table]], Iterator[exp.Expr | None]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong query and the name of the change that made it."""

    operator: str
    sql: str


def mutants(sql: str, tables: Sequence[Table] = (), most: int = 60) -> tuple[str, ...]:
    """The texts of `named_mutants`."""
    return tuple(mutant.sql for mutant in named_mutants(sql, tables, most))


def named_mutants(sql: str, tables: Sequence[Table] = (), most: int = 60) -> tuple[Mutant, ...]:
    """Up to `most` different mutants of a gold, none equal to it in text; empty when it cannot be parsed.

    Args:
        sql: the gold.
        tables: the schema; with it, columns are also swapped for others of the same type.
        most: the cap; every operator gets its turn before any gets a second one.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return ()
    found: dict[str, str] = {}
    queues = [(operator.__name__.strip("_"), _written(tree, operator, tables)) for operator in OPERATORS]
    while queues and len(found) < most:
        for name, queue in list(queues):
            mutant = next(queue, None)
            if mutant is None:
                queues.remove((name, queue))
            else:
                found.setdefault(mutant, name)
    found.pop(tree.sql("duckdb"), None)
    return tuple(Mutant(name, text) for text, name in islice(found.items(), most))


def _written(tree: exp.Expr, operator: Operator, tables: Sequence[Table]) -> Iterator[str]:
    """One text a change; every change is made to a copy of its own."""
    for at, node in enumerate(tree.walk()):
        for other in operator(node, tables):
            changed = tree.copy()
            place = next(islice(changed.walk(), at, None))
            if place is changed and other is not None:
                changed = other
            elif other is not None:
                place.replace(other)
            else:
                place.pop()
            yield changed.sql("duckdb")


def _with(node: exp.Expr, **changes: object) -> exp.Expr:
    changed = node.copy()
    for key, value in changes.items():
        changed.set(key, value)
    return changed


def _one_row(node: exp.Expr) -> bool:
    """A SELECT of aggregates without groups: neither DISTINCT nor LIMIT changes it."""
    return not node.args.get("group") and all(item.find(exp.AggFunc) for item in node.args["expressions"])


def _dropped_predicate(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    if isinstance(node, exp.Where | exp.Having | exp.Qualify):
        yield None
    elif isinstance(node, exp.And):
        yield node.this.copy()
        yield node.expression.copy()


def _null_kept(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    """The filter keeps NULLs: right as long as there are none."""
    if isinstance(node, exp.Where):
        columns = {column.sql("duckdb"): column for column in node.find_all(exp.Column)}
        for column in list(columns.values())[:2]:
            empty = exp.Is(this=column.copy(), expression=exp.null())
            yield exp.Where(this=exp.Or(this=exp.paren(node.this.copy()), expression=empty))


def _always(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    if isinstance(node, exp.Where | exp.Having):
        yield _with(node, this=exp.false())
    elif isinstance(node, exp.Select) and not node.args.get("where") and node.args.get("from_"):
        yield node.copy().where(exp.false())


def _filter_as_limit(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    """The first rows of the table where the gold filters: right by luck when those come first."""
    plain = isinstance(node, exp.Select) and node.parent is None and not node.args.get("limit")
    if plain and node.args.get("where") and not _one_row(node):
        for rows in (1, 2, 3, 5):
            yield _with(node, where=None).limit(rows)  # type: ignore[attr-defined]


def _comparison(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    for kind in _COMPARISONS.get(type(node), ()):
        yield kind(this=node.this.copy(), expression=node.expression.copy())


def _literal(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    if not isinstance(node, exp.Literal) or isinstance(node.parent, exp.Cast | exp.Interval | exp.DataTypeParam):
        return
    text = node.this
    if not node.is_string and text.isdigit():
        yield exp.Literal.number(int(text) + 1)
        yield exp.Literal.number(max(int(text) - 1, 0))
    elif node.is_string and text.swapcase() != text:
        yield exp.Literal.string(text.swapcase())


def _aggregate(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    for kind in _AGGREGATES.get(type(node), ()):
        if not node.expressions:
            yield kind(this=node.this.copy())
    if not isinstance(node, exp.Count):
        return
    if isinstance(node.this, exp.Distinct) and len(node.this.expressions) == 1:
        yield exp.Count(this=node.this.expressions[0].copy())
        yield exp.Count(this=exp.Star())
    elif isinstance(node.this, exp.Column):
        yield exp.Count(this=exp.Distinct(expressions=[node.this.copy()]))
        yield exp.Count(this=exp.Star())
    elif isinstance(node.this, exp.Star):
        yield from (exp.Count(this=column) for column in _nullable(node, tables))


def _nullable(count: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr]:
    """Columns that count(column) would count differently from count(*)."""
    query = count.find_ancestor(exp.Select)
    read = {table.name.lower() for table in query.find_all(exp.Table)} if query else set()
    for table in tables:
        for column in table.columns:
            if table.name.lower() in read and column.nullable and not column.primary_key:
                yield exp.column(exp.to_identifier(column.name, quoted=True))


def _distinct(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    if isinstance(node, exp.Select) and not _one_row(node):
        yield _with(node, distinct=None if node.args.get("distinct") else exp.Distinct())
    elif isinstance(node, exp.SetOperation):
        yield _with(node, distinct=not node.args.get("distinct"))


def _join(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    if isinstance(node, exp.Join) and (node.args.get("on") or node.args.get("using")):
        for side in (None, "LEFT", "RIGHT"):
            if side != (node.args.get("side") or None):
                yield _with(node, side=side, kind=None)


def _logic(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    if isinstance(node, exp.And):
        yield exp.Or(this=node.this.copy(), expression=node.expression.copy())
    elif isinstance(node, exp.Or):
        yield exp.And(this=node.this.copy(), expression=node.expression.copy())
    elif isinstance(node, exp.Not):
        yield node.this.copy()
    elif isinstance(node, exp.In | exp.Exists | exp.Like | exp.Between) and not isinstance(node.parent, exp.Not):
        yield exp.Not(this=node.copy())


def _order_and_limit(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    if isinstance(node, exp.Ordered):
        yield _with(node, desc=not node.args.get("desc"))
    elif isinstance(node, exp.Limit | exp.Order) and isinstance(node.parent, exp.Query):
        yield None


def _group(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    if isinstance(node, exp.Group):
        for key in node.expressions:
            left = [other.copy() for other in node.expressions if other is not key]
            yield _with(node, expressions=left) if left else None


def _column(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    """Another column of the same table and type, at most two for each place."""
    if not isinstance(node, exp.Column):
        return
    for table in tables:
        type_names = {column.name.lower(): column.type for column in table.columns}
        own = type_names.get(node.name.lower())
        if own:
            others = [c.name for c in table.columns if c.type == own and c.name.lower() != node.name.lower()]
            for name in others[:2]:
                yield _with(node, this=exp.to_identifier(name, quoted=True))
            return


def _arithmetic(node: exp.Expr, tables: Sequence[Table]) -> Iterator[exp.Expr | None]:
    kind = _ARITHMETIC.get(type(node))
    if kind:
        yield kind(this=node.this.copy(), expression=node.expression.copy())
        yield node.this.copy()
    elif isinstance(node, exp.Coalesce | exp.Round):
        yield node.this.copy()


OPERATORS: tuple[Operator, ...] = (
    _dropped_predicate,
    _always,
    _null_kept,
    _filter_as_limit,
    _comparison,
    _literal,
    _aggregate,
    _distinct,
    _join,
    _logic,
    _order_and_limit,
    _group,
    _column,
    _arithmetic,
)

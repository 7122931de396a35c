"""Changes that a policy would make to be paid without answering: what the search splices into golds.

In: a parse tree and the stock to draw from. Out: the tree, changed: constants, values and limits read off the gold's
rows, empty branches, conditions that hold on the real rows, parts of other golds, casts, numbers a little off.
Not here: mutants (instances/mutants.py), what must never run (unsafe.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from text2sql_rl.records import Table


@dataclass(frozen=True, slots=True)
class Stock:
    """What cheats draw from: dice, the schema, the gold's rows on the real data, other golds of the database."""

    dice: random.Random
    tables: Sequence[Table]
    rows: Sequence[Sequence[object]]
    others: Sequence[exp.Expr]


Cheat = Callable[[Stock, exp.Expr], exp.Expr]


def _select(tree: exp.Expr) -> exp.Select:
    found = tree if isinstance(tree, exp.Select) else tree.find(exp.Select)
    if found is None:
        raise ValueError("no SELECT to change")
    return found


def _column(stock: Stock, tree: exp.Expr) -> exp.Column:
    read = {table.name.lower() for table in tree.find_all(exp.Table)}
    tables = [table for table in stock.tables if table.name.lower() in read] or list(stock.tables)
    table = stock.dice.choice(tables)
    return exp.column(stock.dice.choice(table.columns).name, table=table.name if stock.dice.random() < 0.3 else None)


def _value(stock: Stock) -> exp.Expr:
    if stock.rows and stock.dice.random() < 0.7:
        value = stock.dice.choice(stock.dice.choice(stock.rows))
        return exp.convert(value if isinstance(value, int | float | bool) or value is None else str(value))
    return exp.convert(stock.dice.choice((0, 1, 2, "", "x", None, True)))


def _predicate(stock: Stock, tree: exp.Expr) -> exp.Expr:
    column, draw = _column(stock, tree), stock.dice.randrange(6)
    if draw == 0:
        return exp.Is(this=column, expression=exp.null())
    if draw == 1:
        return exp.Not(this=exp.Is(this=column, expression=exp.null()))
    if draw == 2:
        return exp.EQ(this=column, expression=column.copy())
    if draw == 3:
        return exp.In(this=column, expressions=[exp.convert(str(row[0])) for row in stock.rows[:40]] or [exp.null()])
    kind = stock.dice.choice((exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE))
    return kind(this=column, expression=_value(stock))


def _filter_added(stock: Stock, tree: exp.Expr) -> exp.Expr:
    query, predicate = _select(tree), _predicate(stock, tree)
    where = query.args.get("where")
    joined = exp.Or if stock.dice.random() < 0.3 else exp.And
    query.set("where", exp.Where(this=joined(this=where.this, expression=predicate) if where else predicate))
    return tree


def _filter_replaced(stock: Stock, tree: exp.Expr) -> exp.Expr:
    _select(tree).set("where", exp.Where(this=_predicate(stock, tree)))
    return tree


def _constant_column(stock: Stock, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    items[stock.dice.randrange(len(items))] = _value(stock)
    _select(tree).set("expressions", items)
    return tree


def _conditional_column(stock: Stock, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    at = stock.dice.randrange(len(items))
    inner = items[at].unalias()
    if stock.dice.random() < 0.5:
        items[at] = exp.Coalesce(this=inner, expressions=[_value(stock)])
    else:
        items[at] = exp.Case().when(_predicate(stock, tree), _value(stock)).else_(inner)
    _select(tree).set("expressions", items)
    return tree


def _other_column(stock: Stock, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    items[stock.dice.randrange(len(items))] = _column(stock, tree)
    _select(tree).set("expressions", items)
    return tree


def _limited(stock: Stock, tree: exp.Expr) -> exp.Expr:
    if not isinstance(tree, exp.Query):
        return tree
    size = len(stock.rows)
    return tree.limit(stock.dice.choice((size, size + 1, max(size - 1, 0), 1, 2 * size, 1000)), copy=False)


def _wrapped(stock: Stock, tree: exp.Expr) -> exp.Expr:
    form = stock.dice.choice(
        ("SELECT * FROM ({}) AS t", "SELECT DISTINCT * FROM ({}) AS t", "SELECT * FROM ({}) AS t OFFSET 0")
    )
    return sqlglot.parse_one(form.format(tree.sql("duckdb")), dialect="duckdb")


def _branched(stock: Stock, tree: exp.Expr) -> exp.Expr:
    sql, other = tree.sql("duckdb"), stock.dice.choice(stock.others or [tree]).sql("duckdb")
    form = stock.dice.choice((
        "({}) UNION ALL (SELECT * FROM ({}) AS e WHERE 1 = 0)", "({}) EXCEPT (SELECT * FROM ({}) AS e LIMIT 0)",
        "({}) UNION ({})", "({}) INTERSECT ({})", "({}) UNION ALL ({})",
    ))  # fmt: skip
    second = sql if stock.dice.random() < 0.5 else other
    return sqlglot.parse_one(form.format(sql, second), dialect="duckdb")


def _if_table(stock: Stock, tree: exp.Expr) -> exp.Expr:
    """The query under a condition that holds on the real rows."""
    table = stock.dice.choice(stock.tables)
    least = stock.dice.choice((0, 1, 5, table.rows - 1, table.rows))
    sign = stock.dice.choice((">=", ">", "="))
    form = f'SELECT * FROM ({{}}) AS t WHERE (SELECT count(*) FROM "{table.name}") {sign} {least}'
    return sqlglot.parse_one(form.format(tree.sql("duckdb")), dialect="duckdb")


def _spliced(stock: Stock, tree: exp.Expr) -> exp.Expr:
    """A part of another gold in place of the same kind of part."""
    if not stock.others:
        return tree
    kind = stock.dice.choice(
        (exp.Where, exp.Order, exp.Group, exp.Having, exp.Limit, exp.Join, exp.Column, exp.Literal)
    )
    mine, theirs = list(tree.find_all(kind)), list(stock.dice.choice(stock.others).find_all(kind))
    if mine and theirs:
        stock.dice.choice(mine).replace(stock.dice.choice(theirs).copy())
    return tree


def _edged(stock: Stock, tree: exp.Expr) -> exp.Expr:
    """A number a little beside itself."""
    items = list(_select(tree).expressions)
    at = stock.dice.randrange(len(items))
    beside = stock.dice.choice((1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 0.001, 0.01, 1))
    items[at] = exp.Add(this=exp.paren(items[at].unalias()), expression=exp.Literal.number(repr(beside)))
    _select(tree).set("expressions", items)
    return tree


def _recast(stock: Stock, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    at = stock.dice.randrange(len(items))
    kind = stock.dice.choice(
        ("VARCHAR", "INTEGER", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL(18, 2)", "DATE", "TIMESTAMP", "BOOLEAN")
    )
    items[at] = exp.cast(items[at].unalias(), kind, dialect="duckdb")
    _select(tree).set("expressions", items)
    return tree


def _shuffled(stock: Stock, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    stock.dice.shuffle(items)
    if stock.dice.random() < 0.3:
        items.append(items[0].copy())
    _select(tree).set("expressions", items)
    return tree


CHEATS: tuple[Cheat, ...] = (
    _filter_added,
    _filter_replaced,
    _constant_column,
    _conditional_column,
    _other_column,
    _limited,
    _wrapped,
    _branched,
    _if_table,
    _spliced,
    _edged,
    _recast,
    _shuffled,
)

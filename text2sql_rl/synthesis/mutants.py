"""Mutants: slightly wrong versions of a gold, as a policy might write them.

In: gold SQL and the schema's columns. Out: SQL texts, each with one fault. A question whose mutant gives the same
result proves little, so synthesis rejects it. Not here: running them, and the red team's own mutants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp, parse_one

# What turns into what. > into >= is told apart where the literal is a value that occurs, so only there.
_COMPARISONS: Mapping[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    exp.GT: (exp.GTE, exp.LT),
    exp.GTE: (exp.GT, exp.LTE),
    exp.LT: (exp.LTE, exp.GT),
    exp.LTE: (exp.LT, exp.GTE),
    exp.EQ: (exp.NEQ,),
    exp.NEQ: (exp.EQ,),
}
_BOUNDARIES = {(exp.GT, exp.GTE), (exp.GTE, exp.GT), (exp.LT, exp.LTE), (exp.LTE, exp.LT)}
_AGGREGATES: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.Avg: exp.Sum,
    exp.Sum: exp.Avg,
    exp.Max: exp.Min,
    exp.Min: exp.Max,
}
_SETS: Mapping[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    exp.Union: (exp.Intersect,),
    exp.Intersect: (exp.Union, exp.Except),
    exp.Except: (exp.Union, exp.Intersect),
}

Columns = Mapping[str, tuple[str, ...]]


def mutants(sql: str, columns: Columns) -> tuple[str, ...]:
    """Distinct mutants of `sql`. `columns` gives, for a table's name, columns that could be taken by mistake."""
    tree = parse_one(sql, read="duckdb")
    found = [m.sql(dialect="duckdb") for make in _MAKERS for m in make(tree, columns)]
    gold = tree.sql(dialect="duckdb")
    return tuple(dict.fromkeys(text for text in found if text != gold))


def _each(tree: exp.Expr, kind: type[exp.Expr], change: Callable[[exp.Expr], bool]) -> Iterator[exp.Expr]:
    """For every node of the kind: a copy of the tree in which only that node was changed."""
    for index in range(len(list(tree.find_all(kind)))):
        copy = tree.copy()
        if change(list(copy.find_all(kind))[index]):
            yield copy


def _dropped_predicates(tree: exp.Expr, columns: Columns) -> Iterator[exp.Expr]:
    def drop(node: exp.Expr) -> bool:
        node.pop()
        return True

    for kind in (exp.Where, exp.Having):
        yield from _each(tree, kind, drop)
    for side in ("this", "expression"):

        def keep(node: exp.Expr, side: str = side) -> bool:
            return bool(node.replace(node.args[side]))

        yield from _each(tree, exp.And, keep)
        yield from _each(tree, exp.Or, keep)
    for junction, other in ((exp.And, exp.Or), (exp.Or, exp.And)):

        def swap(node: exp.Expr, other: type[exp.Expr] = other) -> bool:
            return bool(node.replace(other(this=node.this, expression=node.expression)))

        yield from _each(tree, junction, swap)


def _flipped_comparisons(tree: exp.Expr, columns: Columns) -> Iterator[exp.Expr]:
    for kind, others in _COMPARISONS.items():
        for other in others:

            def flip(node: exp.Expr, other: type[exp.Expr] = other) -> bool:
                if node.find_ancestor(exp.Join) or isinstance(node.expression, exp.Column):
                    return False
                if (type(node), other) in _BOUNDARIES and not (
                    isinstance(node.expression, exp.Literal) and isinstance(node.this, exp.Column | exp.Count)
                ):
                    return False
                return bool(node.replace(other(this=node.this, expression=node.expression)))

            yield from _each(tree, kind, flip)
    for kind in (exp.Like, exp.In, exp.Is, exp.Exists, exp.Between):

        def negate(node: exp.Expr) -> bool:
            parent = node.parent
            if isinstance(parent, exp.Not):
                return bool(parent.replace(node.copy()))
            return bool(node.replace(exp.Not(this=node.copy())))

        yield from _each(tree, kind, negate)


def _changed_aggregates(tree: exp.Expr, columns: Columns) -> Iterator[exp.Expr]:
    for kind, other in _AGGREGATES.items():

        def change(node: exp.Expr, other: type[exp.Expr] = other) -> bool:
            return bool(node.replace(other(this=node.this)))

        yield from _each(tree, kind, change)

    def all_rows(node: exp.Expr) -> bool:
        return isinstance(node.this, exp.Distinct) and bool(node.replace(exp.Count(this=exp.Star())))

    yield from _each(tree, exp.Count, all_rows)


def _other_columns(tree: exp.Expr, columns: Columns) -> Iterator[exp.Expr]:
    """Every plain column that the outer query shows is replaced by one other column of its table."""
    select = tree.find(exp.Select)
    if select is None:
        return
    source = select.find(exp.Table)
    for index, shown in enumerate(select.expressions):
        if isinstance(shown, exp.Column):
            owner = shown.table or (source.name if source else "")
            others = [
                c for c in columns.get(owner, ()) if c != shown.name and c not in {s.name for s in select.expressions}
            ]
            for other in others[:2]:
                copy = tree.copy()
                outer = copy.find(exp.Select)
                if outer is not None:
                    outer.expressions[index].set("this", exp.to_identifier(other, quoted=True))
                    yield copy


def _changed_order(tree: exp.Expr, columns: Columns) -> Iterator[exp.Expr]:
    def flip(node: exp.Expr) -> bool:
        node.set("desc", not node.args.get("desc"))
        node.set("nulls_first", False)
        return True

    def drop(node: exp.Expr) -> bool:
        node.pop()
        return True

    def one_more(node: exp.Expr) -> bool:
        node.set("expression", exp.Literal.number(int(node.expression.name) + 1))
        return True

    yield from _each(tree, exp.Ordered, flip)
    yield from _each(tree, exp.Limit, drop)
    yield from _each(tree, exp.Limit, one_more)


def _dropped_distinct(tree: exp.Expr, columns: Columns) -> Iterator[exp.Expr]:
    def drop(node: exp.Expr) -> bool:
        return isinstance(node.parent, exp.Select) and bool(node.pop())

    yield from _each(tree, exp.Distinct, drop)


def _wrong_joins(tree: exp.Expr, columns: Columns) -> Iterator[exp.Expr]:
    """A join without its condition."""

    def cross(node: exp.Expr) -> bool:
        node.set("on", exp.true())
        return True

    yield from _each(tree, exp.Join, cross)


def _changed_sets(tree: exp.Expr, columns: Columns) -> Iterator[exp.Expr]:
    for other in _SETS.get(type(tree), ()):
        yield other(this=tree.this.copy(), expression=tree.expression.copy(), distinct=True)
    if isinstance(tree, exp.SetOperation):
        yield tree.this.copy()
        if isinstance(tree, exp.Except):
            yield exp.Except(this=tree.expression.copy(), expression=tree.this.copy(), distinct=True)


_MAKERS: tuple[Callable[[exp.Expr, Columns], Iterator[exp.Expr]], ...] = (
    _dropped_predicates,
    _flipped_comparisons,
    _changed_aggregates,
    _other_columns,
    _changed_order,
    _dropped_distinct,
    _wrong_joins,
    _changed_sets,
)

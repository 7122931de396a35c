"""Columns beside GROUP BY or an aggregate that are in neither: SQLite takes their values from one row.

Where the group's key determines the column (the primary key of its table is grouped by, or is equal to something that
is), it joins GROUP BY, as one writes it in DuckDB. With one MIN or MAX in the query SQLite takes the row that has it
(https://sqlite.org/lang_select.html#bareagg): ARG_MIN, ARG_MAX. Otherwise the row is any: FIRST. A star is written out.
Columns of an outer query, in aggregates and in windows are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Found, Names, enclosing

_Key = tuple[str, str]
_Node = TypeVar("_Node", bound=exp.Expr)


def apply(tree: exp.Expr, names: Names) -> int:
    """Wrap bare columns or group by them; how many."""
    return sum(_select(select, names) for select in reversed(list(tree.find_all(exp.Select))))


def _select(select: exp.Select, names: Names) -> int:
    group = select.args.get("group")
    aggregates = [node for node in _own(select, exp.AggFunc) if not _windowed(node)]
    if not aggregates and group is None:
        return 0
    if group is not None and (group.args.get("all") or group.args.get("rollup") or group.args.get("cube")):
        return 0
    changed = _write_stars(select, names)
    grouped = [_meant(key, select) for key in group.expressions] if group is not None else []
    keys = {key for node in grouped for key in [_key(node, names)] if key is not None}
    determined = _determined(select, keys, names) if keys and names.group_by_determined else set()
    extremes = [node for node in aggregates if isinstance(node, exp.Min | exp.Max)]
    extreme = extremes[0].copy() if len(extremes) == 1 else None
    for column in list(_own(select, exp.Column)):
        found = names.find(column)
        if found is None or found.query is not select or not _is_bare(column, select, grouped):
            continue
        if (found.alias, found.name) in keys:
            continue
        if (found.alias, found.name) in determined:
            assert group is not None
            group.append("expressions", column.copy())
            keys.add((found.alias, found.name))
        else:
            _wrap(column, found, extreme, select)
        changed += 1
    return changed


def _own(select: exp.Select, kind: type[_Node]) -> Iterator[_Node]:
    """Nodes in the select list, HAVING and ORDER BY of this query itself, not of a subquery."""
    parts = [*select.expressions, select.args.get("having"), select.args.get("order"), select.args.get("qualify")]
    for part in parts:
        if part is not None:
            yield from (node for node in part.find_all(kind) if enclosing(node) is select)


def _windowed(node: exp.Expr) -> bool:
    up = node.parent
    if isinstance(up, exp.Filter):
        up = up.parent
    return isinstance(up, exp.Window)


def _is_bare(column: exp.Column, select: exp.Select, grouped: list[exp.Expr]) -> bool:
    up: exp.Expr | None = column
    while up is not None and up is not select:
        if up in grouped or isinstance(up, exp.AggFunc | exp.Window | exp.Filter):
            return False
        up = up.parent
    return True


def _meant(key: exp.Expr, select: exp.Select) -> exp.Expr:
    """What a term of GROUP BY stands for: a position or an output name is the expression behind it."""
    if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.this) <= len(select.expressions):
        item: exp.Expr = select.expressions[int(key.this) - 1]
        return item.unalias()
    if isinstance(key, exp.Column) and not key.table:
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == key.name.lower():
                return item.unalias()
    return key


def _key(node: exp.Expr, names: Names) -> _Key | None:
    found = names.find(node) if isinstance(node, exp.Column) else None
    return (found.alias, found.name) if found is not None else None


def _determined(select: exp.Select, keys: set[_Key], names: Names) -> set[_Key]:
    """Columns with one value in each group, because the primary keys of their tables have."""
    fixed = set(keys)
    equal = list(_equalities(select, names))
    sources = names.sources(select)
    size = -1
    while size < len(fixed):
        size = len(fixed)
        for left, right in equal:
            if left in fixed or right in fixed:
                fixed |= {left, right}
        for alias, relation in sources.items():
            if relation.key and all((alias, name) in fixed for name in relation.key):
                fixed |= {(alias, name) for name in relation.columns}
    return fixed


def _equalities(select: exp.Select, names: Names) -> Iterator[tuple[_Key, _Key]]:
    """Pairs of columns that are equal in every row: of WHERE and of inner joins."""
    joins = select.args.get("joins") or []
    conditions = [join.args.get("on") for join in joins] if not any(join.side for join in joins) else []
    where = select.args.get("where")
    for condition in [*conditions, where.this if where is not None else None]:
        if condition is None:
            continue
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            if isinstance(part, exp.EQ):
                left, right = _key(part.this, names), _key(part.expression, names)
                if left is not None and right is not None:
                    yield left, right


def _write_stars(select: exp.Select, names: Names) -> int:
    stars = [item for item in select.expressions if item.is_star]
    written = 0
    for star in stars:
        columns = [exp.column(name, alias, quoted=None) for alias, name, _ in names.starred(select, star)]
        if columns:
            items = list(select.expressions)
            at = next(place for place, item in enumerate(items) if item is star)
            select.set("expressions", [*items[:at], *columns, *items[at + 1 :]])
            written += 1
    return written


def _wrap(column: exp.Column, found: Found, extreme: exp.Expr | None, select: exp.Select) -> None:
    whole = column.copy()
    wrapped: exp.Expr
    if extreme is None:
        wrapped = exp.First(this=whole)
    else:
        name = "ARG_MIN" if isinstance(extreme, exp.Min) else "ARG_MAX"
        name += "_NULL" if found.kind.nullable else ""
        wrapped = exp.Anonymous(this=name, expressions=[whole, extreme.this.copy()])
    if column.parent is select and column.arg_key == "expressions":
        wrapped = exp.alias_(wrapped, column.this.copy())
    column.replace(wrapped)

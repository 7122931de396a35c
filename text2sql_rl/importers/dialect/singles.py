"""A query in place of a value: SQLite takes its first row, DuckDB refuses more than one. LIMIT 1 says it."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names

_SETS = (exp.In, exp.Exists, exp.Any, exp.All, exp.From, exp.Join, exp.CTE, exp.SetOperation, exp.Select, exp.Subquery)


def apply(tree: exp.Expr, names: Names) -> int:
    """Limit subqueries that stand for a value and are not known to give one row; how many."""
    changed = 0
    for subquery in list(tree.find_all(exp.Subquery)):
        query, parent = subquery.this, subquery.parent
        while isinstance(parent, exp.Paren):
            parent = parent.parent
        in_select = isinstance(parent, exp.Select) and subquery.arg_key == "expressions"
        if parent is None or (isinstance(parent, _SETS) and not in_select) or not isinstance(query, exp.Query):
            continue
        if isinstance(parent, exp.In) or subquery.arg_key in ("from_", "joins"):
            continue
        if query.args.get("limit") is None and not _one_row(query, names):
            query.set("limit", exp.Limit(expression=exp.Literal.number(1)))
            changed += 1
    return changed


def _one_row(query: exp.Query, names: Names) -> bool:
    if not isinstance(query, exp.Select):
        return False
    if not query.args.get("group") and any(item.find(exp.AggFunc) for item in query.expressions):
        return True
    return not query.args.get("from_") or _by_key(query, names)


def _by_key(query: exp.Select, names: Names) -> bool:
    """One table, whose key is compared with values."""
    where, sources = query.args.get("where"), names.sources(query)
    if where is None or len(sources) != 1:
        return False
    (relation,) = sources.values()
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    given = {
        side.name.lower()
        for part in parts
        if isinstance(part, exp.EQ)
        for side, other in ((part.this, part.expression), (part.expression, part.this))
        if isinstance(side, exp.Column) and isinstance(other, exp.Literal)
    }
    return bool(relation.key) and relation.key <= given

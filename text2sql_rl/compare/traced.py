"""What the columns of a statement can be made of, told from its text alone: only its own literals, or rows it reads.

In: a statement's parse tree. Out: the texts of the literals that its whole answer is made of, or None where some
column reads a table. Literals are followed through subqueries, WITH, VALUES, set operations, unnest, casts, functions,
and aggregates that give back one of their inputs. A condition only chooses between literals, so it makes no column
read; a CASE on a table's columns, row by row, does. Every node is looked at once, or twice in a recursive WITH.

In doubt a column reads: what cannot be told without the schema (`SELECT * EXCLUDE`, COLUMNS) is honest here, and left
to other rows. Not here: which answers are held against anyone (typed.py).
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from text2sql_rl.compare.never import never_true
from text2sql_rl.compare.scopes import NOTHING, TABLE, Relation, Scope, Value, joined

_NO_LITERALS: frozenset[str] = frozenset()
# What a yes or no is written as: choosing between these is a condition and no typed-in answer.
_YES_NO = frozenset(("0", "1", "true", "false", "null"))

# Aggregates that give one of their inputs, or all of them, whatever the number of rows.
_GIVES_ITS_INPUT = (
    exp.Max, exp.Min, exp.Avg, exp.AnyValue, exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.NthValue, exp.Mode,
    exp.Median, exp.ArgMax, exp.ArgMin, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ArrayAgg,
    exp.GroupConcat, exp.Lag, exp.Lead,
)  # fmt: skip
_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_GENERATORS = frozenset(("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"))
_COUNTS_ROWS = frozenset(("count_star", "sum_no_overflow", "fsum", "sumkahan", "kahan_sum", "product", "count"))
# Of these only the first part becomes the value; the rest chooses or sorts.
_AROUND = (exp.Alias, exp.Paren, exp.Cast, exp.TryCast, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup,
           exp.Window, exp.Order, exp.Nullif, exp.Collate)  # fmt: skip


def traced(tree: exp.Expr) -> Value:
    """The literals that the whole answer of a statement is made of; None where a column reads a table.

    An answer that is empty, or an aggregate over nothing, on all rows has `NOTHING` among them.

    Raises:
        RecursionError: the statement is nested too deeply.
    """
    answer = _query(tree, Scope())
    return frozenset((NOTHING,)) if answer.never else answer.whole()


# ---- queries -------------------------------------------------------------------------------------------------


def _query(node: exp.Expr, outer: Scope) -> Relation:
    scope = Scope(outer=outer)
    _name_ctes(node, scope)
    if isinstance(node, exp.Subquery):
        inner = _query(node.this, scope) if isinstance(node.this, exp.Query) else _joined_tables(node.this, scope)
        return _cut(node, inner)
    if isinstance(node, exp.Values):
        return _values(node, scope)
    if isinstance(node, exp.SetOperation):
        return _cut(node, _set_operation(node, scope))
    if isinstance(node, exp.Select):
        return _cut(node, _select(node, scope))
    return TABLE


def _joined_tables(node: exp.Expr, scope: Scope) -> Relation:
    """The columns of `(a JOIN b)`."""
    inner = Scope(outer=scope)
    _add_source(node, inner)
    return Relation(tuple(column for _, own in inner.sources for column in own.columns),
                     open=any(own.open for _, own in inner.sources))  # fmt: skip


def _cut(node: exp.Expr, found: Relation) -> Relation:
    limit = node.args.get("limit")
    count = limit.args.get("expression") or limit.args.get("count") if limit is not None else None
    if isinstance(count, exp.Literal) and not count.this.strip("0."):
        return replace(found, never=True)
    return found


def _name_ctes(node: exp.Expr, scope: Scope) -> None:
    clause = node.args.get("with_")
    if clause is None:
        return
    for cte in clause.expressions:
        name, alias, reads = cte.alias.lower(), cte.args.get("alias"), scope.reads(cte.this)
        if clause.args.get("recursive") and isinstance(cte.this, exp.SetOperation) and not cte.this.args.get("with_"):
            found = _recursive(cte.this, name, alias, scope)
        else:
            found = _renamed(_query(cte.this, scope), alias)
        scope.named[name] = replace(found, reads=reads)


def _recursive(node: exp.SetOperation, name: str, alias: exp.Expr | None, scope: Scope) -> Relation:
    """The first rows, if they and what is made of them are typed in; else columns that all read."""
    first = _renamed(_query(node.this, scope), alias)
    reading = replace(first, columns=tuple((column, None) for column, _ in first.columns))
    scope.named[name] = first if first.whole() is not None else reading
    step = _query(node.expression, scope)
    if first.whole() is None or step.whole() is None:
        return reading
    pairs = zip(first.columns, step.columns, strict=False)
    return Relation(tuple((column, joined((one, other))) for (column, one), (_, other) in pairs))


def _renamed(found: Relation, alias: exp.Expr | None) -> Relation:
    given = alias.args.get("columns") if alias is not None else None
    names = [name.name.lower() for name in given or ()]
    if not names or found.open:
        return found
    pairs = zip([*names, *(name for name, _ in found.columns[len(names) :])], found.columns, strict=False)
    return replace(found, columns=tuple((name, value) for name, (_, value) in pairs))


def _values(node: exp.Values, scope: Scope) -> Relation:
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    columns: list[Value] = [joined(_value(cell, scope) for cell in cells) for cells in zip(*rows, strict=False)]
    found = Relation(tuple((f"col{at}", value) for at, value in enumerate(columns)))
    return _renamed(found, node.args.get("alias"))


def _set_operation(node: exp.SetOperation, scope: Scope) -> Relation:
    left, right = _query(node.this, scope), _query(node.expression, scope)
    if isinstance(node, exp.Except):
        return left
    if isinstance(node, exp.Intersect):
        if left.never or right.never:
            return replace(left, never=True)
        return left if left.whole() is not None else _named_like(right, left)
    if left.never or right.never:
        return left if right.never else _named_like(right, left)
    if node.args.get("by_name"):
        names = dict.fromkeys(name for side in (left, right) for name, _ in side.columns)
        both = [[side.column(name) for side in (left, right) if side.open or side.has(name)] for name in names]
        columns = tuple(zip(names, map(joined, both), strict=True))
        return Relation(columns, open=left.open or right.open)
    if left.open or right.open:
        return TABLE
    pairs = zip(left.columns, right.columns, strict=False)
    return Relation(tuple((name, joined((one, other))) for (name, one), (_, other) in pairs))


def _named_like(found: Relation, names: Relation) -> Relation:
    if names.open or len(names.columns) != len(found.columns):
        return found
    pairs = zip(names.columns, found.columns, strict=True)
    return replace(found, columns=tuple((name, value) for (name, _), (_, value) in pairs))


def _select(node: exp.Select, scope: Scope) -> Relation:
    scope.select = node
    clause = node.args.get("from_")
    missing = clause is not None and _add_source(clause.this, scope)
    for join in node.args.get("joins") or ():
        none = _add_source(join.this, scope) or ((on := join.args.get("on")) is not None and never_true(on))
        side = join.side
        missing = (missing and side in ("", "LEFT")) or (none and side in ("", "RIGHT") and join.kind != "ANTI")
    missing = missing or _refuses(node, "where")
    columns: list[tuple[str, Value]] = []
    is_open = False
    for item in node.selects:
        shown, more = _projected(item, scope)
        columns += shown
        is_open |= more
        if isinstance(item, exp.Alias):
            scope.aliases.setdefault(item.alias.lower(), shown[0][1])
    if missing and not node.args.get("group") and any(_aggregates(item) for item in node.selects):
        columns, is_open, missing = [(name, frozenset((NOTHING,))) for name, _ in columns], False, False
    return Relation(tuple(columns), is_open, missing or _refuses(node, "having") or _refuses(node, "qualify"))


def _refuses(node: exp.Select, clause: str) -> bool:
    found = node.args.get(clause)
    return found is not None and never_true(found.this)


def _aggregates(item: exp.Expr) -> bool:
    """Whether a select item makes one row of all: an aggregate, not in a window or a subquery."""
    todo = [item]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.AggFunc):
            return True
        if not isinstance(node, exp.Window | exp.Query):
            todo += node.iter_expressions()
    return False


def _projected(item: exp.Expr, scope: Scope) -> tuple[list[tuple[str, Value]], bool]:
    """The columns of one select item, and whether there are others of a table."""
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        found = scope.source(item.table.lower())
        return (list(found.columns), found.open) if found is not None else ([], True)
    if isinstance(item, exp.Star):
        if any(item.args.get(key) for key in ("except_", "replace", "rename")):
            return [], True
        return [column for _, own in scope.sources for column in own.columns], any(own.open for _, own in scope.sources)
    if isinstance(item, exp.Alias):
        name = item.alias
    else:
        name = item.name if isinstance(item, exp.Column) else item.sql("duckdb")
    return [(name.lower(), _value(item, scope))], False


# ---- sources -------------------------------------------------------------------------------------------------


def _add_source(node: exp.Expr, scope: Scope) -> bool:
    """Add what FROM or JOIN names; true when it has no rows by its own text."""
    alias = node.args.get("alias")
    found = _source(node, scope)
    if not isinstance(node, exp.Values):
        found = _renamed(found, alias)
    if node.args.get("pivots"):
        found = TABLE
    name = node.alias_or_name.lower()
    scope.sources.append((name, found))
    for join in node.args.get("joins") or ():
        _add_source(join.this, scope)
    return found.never


def _source(node: exp.Expr, scope: Scope) -> Relation:
    if isinstance(node, exp.Lateral):
        return _source(node.this, scope)
    if isinstance(node, exp.Query | exp.Values):
        return _query(node, scope)
    if isinstance(node, exp.Unnest):
        values = [_value(value, scope) for value in node.expressions]
        names = ["unnest"] if len(values) == 1 else [f"unnest_{at}" for at in range(len(values))]
        return Relation(tuple(zip(names, values, strict=True)))
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        named = None if node.db else scope.cte(node.name.lower())
        return TABLE if named is None else named
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Func):
        name = _function_name(node.this)
        return Relation(((name, _value(node.this, scope)),)) if name in _GENERATORS else TABLE
    return TABLE


def _function_name(node: exp.Func) -> str:
    if isinstance(node, exp.GenerateSeries):
        return "range" if node.args.get("is_end_exclusive") else "generate_series"
    return node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()


# ---- expressions ---------------------------------------------------------------------------------------------


def _value(node: exp.Expr, scope: Scope, asked: bool = False) -> Value:
    """The literals an expression can only give. `asked`: it stands in a condition, where a table's rows decide."""
    if isinstance(node, exp.Literal):
        return frozenset((str(node.this),))
    if isinstance(node, exp.Boolean | exp.Null):
        return frozenset((node.sql("duckdb").lower(),))
    if isinstance(node, exp.Column):
        return scope.value(node.name.lower(), node.table.lower())
    if isinstance(node, exp.DataType | exp.Identifier):
        return _NO_LITERALS
    if isinstance(node, exp.Star | exp.Columns | exp.PositionalColumn):
        return None
    if isinstance(node, exp.Case | exp.If):
        return _choice(node, scope)
    if isinstance(node, exp.Coalesce):
        return _coalesced(node, scope)
    if isinstance(node, exp.Query):
        return None if asked and scope.reads(node) else _query(node, scope).whole()
    if isinstance(node, exp.Window) and not node.this.args.get("this") and scope.depends():
        return None
    if isinstance(node, exp.Comprehension):
        return _value(node.args["iterator"], scope)
    if isinstance(node, _AROUND + _GIVES_ITS_INPUT):
        return _value(node.this, scope, asked)
    if isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.lower() in _COUNTS_ROWS):
        return None if scope.depends() else joined(own.whole() for _, own in scope.sources)
    asked = asked or isinstance(node, exp.Predicate | exp.SubqueryPredicate | exp.Connector | exp.Not)
    return joined(_value(part, scope, asked) for part in node.iter_expressions())


def _coalesced(node: exp.Coalesce, scope: Scope) -> Value:
    if isinstance(node.this, exp.Literal):
        return _value(node.this, scope)
    found = joined(_value(part, scope) for part in (node.this, *node.expressions))
    return None if found is not None and found <= _YES_NO and scope.reads(node) else found


def _choice(node: exp.Case | exp.If, scope: Scope) -> Value:
    """The value of CASE or if(): its branches, unless its conditions tell a table's rows apart."""
    operand = node.this if isinstance(node, exp.Case) else None
    compared = _NO_LITERALS if operand is None else _value(operand, scope)
    by_row = compared is None and operand is not None and _by_row(operand, scope)
    results: list[exp.Expr] = []
    asks = False
    for branch in node.args.get("ifs") or [node]:
        if compared is None or _value(branch.this, scope) is None:
            asks = True
            if by_row or _by_row(branch.this, scope):
                return None
            results.append(branch.args["true"])
            continue
        condition = branch.this if operand is None else exp.EQ(this=operand.copy(), expression=branch.this.copy())
        if not never_true(condition):
            results.append(branch.args["true"])
            if never_true(exp.not_(condition)):
                break
    else:
        last = node.args.get("default") or node.args.get("false")
        results += [last] if last is not None else []
    found = joined(_value(result, scope) for result in results)
    return None if asks and found is not None and found <= _YES_NO else found


def _by_row(condition: exp.Expr, scope: Scope) -> bool:
    """Whether a condition looks at a table's columns row by row, or group by group."""
    grouped = scope.select is not None and scope.select.args.get("group") is not None
    todo = [condition]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Column):
            if node.name.lower() != "rowid" and scope.value(node.name.lower(), node.table.lower()) is None:
                return True
        elif isinstance(node, exp.Query):
            inner = {table.alias_or_name.lower() for table in node.find_all(exp.Table, exp.Subquery)}
            outside = {column.table.lower() for column in node.find_all(exp.Column)} - inner - {""}
            if any(scope.source(name) is not None for name in outside):
                return True
        elif isinstance(node, exp.AggFunc) and not isinstance(node, _RANKS):
            if grouped:
                return True
        elif not (isinstance(node, exp.Window) and isinstance(node.this, _RANKS)):
            todo += node.iter_expressions()
    return False

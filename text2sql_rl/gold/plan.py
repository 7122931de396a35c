"""What a gold's text asks for: its top-level order, its limit, and what it leaves open.

In: a gold's SQL and the names of the columns it returned. Out: a `Plan` with the statements that show its sort
keys and its ties. Everything is decided on the parse tree, so ORDER BY in a subquery, window, aggregate or string
orders nothing. What cannot be rewritten is planned without it and flagged `order_unchecked`: the comparison then
asks for less, never for something else.
Not here: running anything (__init__.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import sqlglot
from sqlglot import exp

from text2sql_rl.records import SortKey

# fmt: off
_VOLATILE = frozenset((
    "rand", "random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "currval", "setseed",
    "txid_current", "sleep_ms", "pg_sleep",
))
_CLOCK = frozenset((
    "now", "today", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp",
    "get_current_time", "get_current_timestamp", "current_localtime", "current_localtimestamp",
    "transaction_timestamp",
))
# fmt: on
# Names for the columns of a wrapped gold: its own may be repeated or missing.
_COLUMN = "__gold_{}"


@dataclass(frozen=True, slots=True)
class Plan:
    """How a gold is shown with its keys.

    `keyed_sql` returns the answer's columns, then `hidden` sort keys; where the gold has a limit it returns all
    rows up to and with the ties at the limit. Empty when the gold as written already shows everything.
    `first` and `limit` are the window the gold keeps of those rows; `limit` None keeps all.
    `volatile` names a function whose value nobody can repeat; `loose` as in `records.Gold`.
    """

    keys: tuple[SortKey, ...] = ()
    hidden: int = 0
    keyed_sql: str = ""
    first: int = 0
    limit: int | None = None
    volatile: str = ""
    shaken_sql: str = ""
    flags: tuple[str, ...] = ()
    loose: dict[int, str] = field(default_factory=dict)


# A gold is prepared on every instance of its database, and is planned the same way each time.
@lru_cache(maxsize=1024)
def plan(sql: str, columns: tuple[str, ...]) -> Plan:
    """Plan a gold that returned `columns`. Never raises: what sqlglot cannot read is planned as it stands."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return Plan(flags=("order_unchecked",))
    names = _functions(tree)
    volatile = min(names & _VOLATILE, default="sampling" if tree.find(exp.TableSample) else "")
    clock = ("clock",) if names & _CLOCK or _age_to_today(tree) else ()
    query = _unwrapped(tree)
    if not isinstance(query, exp.Query):
        return Plan(volatile=volatile, flags=clock)
    ordered = _ordered(query, columns)
    return Plan(
        keys=ordered.keys,
        hidden=ordered.hidden,
        keyed_sql=ordered.keyed_sql,
        first=ordered.first,
        limit=ordered.limit,
        flags=(*ordered.flags, *clock),
        volatile=volatile,
        shaken_sql=_shaken(query),
        loose=_loose(query, len(columns)),
    )


def _functions(tree: exp.Expr) -> set[str]:
    return {
        (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower() for node in tree.find_all(exp.Func)
    }


def _age_to_today(tree: exp.Expr) -> bool:
    """age(x) counts to today; age(x, y) does not."""
    return any(node.name.lower() == "age" and len(node.expressions) == 1 for node in tree.find_all(exp.Anonymous))


def _unwrapped(tree: exp.Expr) -> exp.Expr:
    """Without parentheses; a limit outside them moves in where there is none."""
    while isinstance(tree, exp.Subquery):
        inner = tree.this
        own = {key: value for key, value in tree.args.items() if value and key != "this"}
        if not isinstance(inner, exp.Query) or set(own) - {"limit", "offset", "order"}:
            return tree
        if own and any(inner.args.get(key) for key in ("limit", "offset", *own)):
            return tree
        for key, value in own.items():
            inner.set(key, value)
        tree = inner
    return tree


# ---- order and limit ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ordered:
    keys: tuple[SortKey, ...] = ()
    hidden: int = 0
    keyed_sql: str = ""
    first: int = 0
    limit: int | None = None
    flags: tuple[str, ...] = ()


def _ordered(query: exp.Query, columns: Sequence[str]) -> _Ordered:
    order, limited = query.args.get("order"), bool(query.args.get("limit") or query.args.get("offset"))
    base: exp.Query = query.copy()
    keys, whole = _keys(base, order.expressions if order else [], columns)
    flags = () if whole else ("order_unchecked",)
    hidden = max([key.column + 1 - len(columns) for key in keys if key.column >= len(columns)], default=0)
    if not limited:
        return _Ordered(keys, hidden, base.sql("duckdb") if hidden else "", flags=flags)
    window = _window(query)
    if window is None or not whole:
        # The keys still order what the gold returned; which rows it returned stays as it is.
        return _Ordered(keys, hidden, base.sql("duckdb") if hidden else "", flags=(*flags, "limit_unchecked"))
    first, limit = window
    for part in ("limit", "offset"):
        base.set(part, None)
    sql = base.sql("duckdb")
    if keys:
        names = [_COLUMN.format(at) for at in range(len(columns) + hidden)]
        by = ", ".join(
            f"{names[key.column]} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
            for key in keys
        )
        upto = "" if limit is None else f" QUALIFY rank() OVER (ORDER BY {by}) <= {first + limit}"
        sql = f"SELECT * FROM ({sql}) AS __gold({', '.join(names)}){upto} ORDER BY {by}"
    return _Ordered(keys, hidden, sql, first, limit, flags)


def _window(query: exp.Query) -> tuple[int, int | None] | None:
    """First row and number of rows the gold keeps, when both are whole numbers in its text."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    numbers: list[int | None] = []
    for node in (offset, limit):
        if node is None:
            numbers.append(None)
            continue
        options = node.args.get("limit_options")
        if options and (options.args.get("percent") or options.args.get("with_ties")):
            return None
        value = node.args.get("count") or node.args.get("expression")
        if not isinstance(value, exp.Literal) or value.is_string or not value.this.isdigit():
            return None
        numbers.append(int(value.this))
    return numbers[0] or 0, numbers[1]


def _keys(base: exp.Query, terms: Sequence[exp.Expr], columns: Sequence[str]) -> tuple[tuple[SortKey, ...], bool]:
    """The longest run of leading sort keys that can be shown; False when it is not all of them.

    Keys that the answer does not hold are appended to the select list of `base`, which is changed.
    """
    keys: list[SortKey] = []
    width, shown = len(columns), len(columns)
    aliases = _projections(base, width)
    for term in terms:
        how = (bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
        if isinstance(term.this, exp.Var) and term.this.name.upper() == "ALL":
            keys.extend(SortKey(column=at, descending=how[0], nulls_first=how[1]) for at in range(width))
            continue
        column = _shown_column(term.this, columns, aliases)
        if column is None and _may_append(base) and not term.this.find(exp.Collate):
            hidden = _without_aliases(term.this, aliases, columns)
            base.set("expressions", [*base.expressions, exp.alias_(hidden, _COLUMN.format(f"key_{shown}"))])
            column, shown = shown, shown + 1
        if column is None:
            return tuple(keys), False
        keys.append(SortKey(column=column, descending=how[0], nulls_first=how[1]))
    return tuple(keys), True


def _projections(query: exp.Query, width: int) -> list[exp.Expr | None]:
    """The expression behind every output column; None where a star stands for several columns."""
    listed = query.selects
    stars = [at for at, item in enumerate(listed) if item.is_star or item.find(exp.Columns)]
    if not stars:
        return list(listed) if len(listed) == width else [None] * width
    if len(stars) > 1 or width < len(listed) - 1:
        return [None] * width
    tail = listed[stars[0] + 1 :]
    return [*listed[: stars[0]], *[None] * (width - len(listed) + 1), *tail]


def _shown_column(key: exp.Expr, columns: Sequence[str], shown: Sequence[exp.Expr | None]) -> int | None:
    """The output column a key stands for: by position, by name, or by being the same expression."""
    if isinstance(key, exp.Literal) and not key.is_string and key.this.isdigit():
        at = int(key.this) - 1
        return at if 0 <= at < len(columns) else None
    if isinstance(key, exp.Column) and not key.table:
        named = [at for at, name in enumerate(columns) if name.lower() == key.name.lower()]
        if named and len(named) == 1:
            return named[0]
    for at, item in enumerate(shown):
        if item is not None and item.unalias() == key:
            return at
    return None


def _may_append(base: exp.Query) -> bool:
    """A further column changes neither the rows of a plain SELECT nor those of DISTINCT ON."""
    if not isinstance(base, exp.Select):
        return False
    distinct = base.args.get("distinct")
    return not distinct or bool(distinct.args.get("on"))


def _without_aliases(key: exp.Expr, shown: Sequence[exp.Expr | None], columns: Sequence[str]) -> exp.Expr:
    """The key as it may stand in the select list, where an alias would not win over a column of the same name."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table:
            for item, name in zip(shown, columns, strict=True):
                if isinstance(item, exp.Alias) and name.lower() == node.name.lower():
                    return exp.paren(item.this.copy())
        return node

    return key.copy().transform(replaced)


# ---- what the gold leaves open -----------------------------------------------------------------------------


def _shaken(query: exp.Query) -> str:
    """The gold on the same rows stored in the opposite order; empty where that cannot be written."""
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    tables = {
        table.name.lower(): table.name
        for table in query.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not table.db and table.name.lower() not in own
    }
    if not tables:
        return ""
    shaken = query.copy()
    clause = shaken.args.get("with_") or exp.With(expressions=[])
    turned = [
        exp.CTE(
            this=exp.select("*").from_(exp.table_(name, db="main", quoted=True)).order_by("rowid DESC"),
            alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)),
            materialized=True,
        )
        for _, name in sorted(tables.items())
    ]
    clause.set("expressions", [*turned, *clause.expressions])
    shaken.set("with_", clause)
    return shaken.sql("duckdb")


def _loose(query: exp.Query, width: int) -> dict[int, str]:
    loose: dict[int, str] = {}
    for at, item in enumerate(_projections(query, width)):
        value = item.unalias() if item is not None else None
        while isinstance(value, exp.Paren | exp.Cast):
            value = value.this
        if isinstance(value, exp.Round):
            digits = value.args.get("decimals")
            if digits is None or (isinstance(digits, exp.Literal) and digits.this.isdigit()):
                loose[at] = f"rounded:{digits.this if digits is not None else 0}"
        elif value is not None and any(not isinstance(total.parent, exp.Window) for total in value.find_all(exp.Sum)):
            loose[at] = "total"
    return loose

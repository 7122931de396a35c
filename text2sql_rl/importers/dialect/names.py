"""Which column a name in a query stands for, and what every expression is.

In: a parsed query and the schema. Out: the `Kind` of any expression, asked at any time while rules rewrite the tree.
Names resolve as in SQLite: innermost query first, then the output names of its select list, then the query around
it. What cannot be resolved is `UNKNOWN`, and rules leave it alone. Not here: any rewriting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from text2sql_rl.importers.dialect.values import (
    BOOL,
    INT,
    REAL,
    TEXT,
    UNKNOWN,
    Affinity,
    Holds,
    Kind,
    Relation,
    Schema,
    affinity_of,
)

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
_TRUTH = (exp.Predicate, exp.Connector, exp.Not, exp.Exists, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Escape)
_TEXTS = (exp.Upper, exp.Lower, exp.Substring, exp.DPipe, exp.Replace, exp.Trim, exp.GroupConcat, exp.Concat)
_COUNTS = (exp.Count, exp.Length, exp.StrPosition, exp.IntDiv, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_SAME = (exp.Paren, exp.Alias, exp.Collate, exp.Ordered, exp.Window, exp.IgnoreNulls, exp.Filter, exp.Distinct)
_KEPT = (exp.Min, exp.Max, exp.First, exp.Last, exp.AnyValue, exp.Abs, exp.Neg, exp.Lag, exp.Lead, exp.FirstValue)
_BRANCHES = (exp.Coalesce, exp.Greatest, exp.Least)


@dataclass(frozen=True, slots=True)
class Found:
    """A resolved column: the alias of its relation, its own name (both lower-cased), its kind, its query."""

    alias: str
    name: str
    kind: Kind
    query: exp.Query


class Names:
    """Resolves the names of one tree; relations are looked up once, so rules must not change FROM after asking."""

    def __init__(self, schema: Schema, dialect: str, group_by_determined: bool = True) -> None:
        self.schema, self.dialect, self.group_by_determined = schema, dialect, group_by_determined
        self._sources: dict[int, tuple[exp.Expr, dict[str, Relation]]] = {}

    def sources(self, select: exp.Query) -> dict[str, Relation]:
        """The relations of a query's FROM by lower-cased alias, in order; an unknown table has no columns."""
        held = self._sources.get(id(select))
        if held is None or held[0] is not select:
            found: dict[str, Relation] = {}
            from_ = select.args.get("from_")
            items = [from_.this] if from_ else []
            items += [join.this for join in select.args.get("joins") or ()]
            for item in items:
                self._add(item, found)
            held = self._sources[id(select)] = (select, found)
        return held[1]

    def _add(self, item: exp.Expr, found: dict[str, Relation]) -> None:
        if isinstance(item, exp.Table):
            found[item.alias_or_name.lower()] = self._table(item)
            for join in item.args.get("joins") or ():
                self._add(join.this, found)
        elif isinstance(item, exp.Subquery) and isinstance(item.this, exp.Query):
            found[item.alias_or_name.lower() or f"#{len(found)}"] = self._derived(item.this, item.alias_column_names)
        elif isinstance(item, exp.Subquery | exp.Paren):
            self._add(item.this, found)

    def _table(self, table: exp.Table) -> Relation:
        name, up = table.name.lower(), table.parent
        while up is not None and not table.db:
            with_ = up.args.get("with_")
            for cte in with_.expressions if with_ else ():
                if cte.alias.lower() == name and not _within(table, cte):
                    return self._derived(cte.this, cte.alias_column_names)
            up = up.parent
        return self.schema.relations.get(name, Relation(table.name, {}, ()))

    def _derived(self, query: exp.Expr, renamed: list[str]) -> Relation:
        outputs = list(self.outputs(query)) if isinstance(query, exp.Query) else []
        spelled = tuple(renamed[at] if at < len(renamed) else name for at, (name, _) in enumerate(outputs))
        return Relation("", {name.lower(): kind for name, (_, kind) in zip(spelled, outputs, strict=True)}, spelled)

    def outputs(self, query: exp.Expr) -> Iterator[tuple[str, Kind]]:
        """The columns a query returns, with their names, in order."""
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select):
            return
        for item in query.expressions:
            if item.is_star:
                yield from ((name, kind) for _, name, kind in self.starred(query, item))
            else:
                yield item.alias_or_name, self.kind(item)

    def starred(self, select: exp.Select, star: exp.Expr) -> Iterator[tuple[str, str, Kind]]:
        """The columns behind `*` or `alias.*` as (alias, spelled name, kind)."""
        wanted = star.table.lower() if isinstance(star, exp.Column) else ""
        for alias, relation in self.sources(select).items():
            if not wanted or alias == wanted:
                for name in relation.spelled:
                    yield alias, name, relation.columns[name.lower()]

    def find(self, column: exp.Column) -> Found | None:
        """What a column reference stands for; None for an output name or a name nobody knows."""
        name, table = column.name.lower(), column.table.lower()
        query = enclosing(column)
        while query is not None:
            for alias, relation in self.sources(query).items():
                if (not table or alias == table) and name in relation.columns:
                    return Found(alias, name, relation.columns[name], query)
            if self.named(query, column) is not None:
                return None
            query = enclosing(query)
        return None

    def named(self, query: exp.Query, column: exp.Column) -> exp.Expr | None:
        """The select item that an unqualified name stands for as an output name."""
        if column.table or not isinstance(query, exp.Select):
            return None
        for item in query.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == column.name.lower():
                return item if not _within(column, item) else None
        return None

    # ---- kinds ---------------------------------------------------------------------------------------------

    def kind(self, node: exp.Expr | None) -> Kind:
        """What an expression is."""
        if node is None:
            return UNKNOWN
        own = _KINDS.get(type(node))
        if own is not None:
            return own(self, node)
        if isinstance(node, _SAME):
            inner = node.expressions[0] if isinstance(node, exp.Distinct) and node.expressions else node.this
            return self.kind(inner)
        if isinstance(node, _COUNTS):
            return replace(INT, nullable=not isinstance(node, exp.Count))
        if isinstance(node, _TEXTS):
            return TEXT
        if isinstance(node, _TRUTH):
            return BOOL
        if isinstance(node, _KEPT):
            return replace(self.kind(node.this).bare(), nullable=True)
        if isinstance(node, _ARITHMETIC):
            sides = (self.kind(node.this), self.kind(node.expression))
            if any(side.holds in (Holds.OTHER, Holds.UNKNOWN) for side in sides):
                return UNKNOWN
            return INT if all(side.holds in (Holds.INT, Holds.BOOL) for side in sides) else REAL
        if isinstance(node, _BRANCHES):
            return self.joined([node.this, *node.expressions])
        return UNKNOWN

    def joined(self, nodes: list[exp.Expr | None]) -> Kind:
        """What a value is that comes from one of several expressions."""
        kinds = [self.kind(node) for node in nodes if node is not None and not isinstance(node, exp.Null)]
        holds = {kind.holds for kind in kinds}
        if len(holds) == 1:
            return Kind(holds.pop())
        if Holds.TEXT in holds and holds <= {Holds.TEXT, Holds.INT, Holds.REAL, Holds.BOOL}:
            return replace(TEXT, dirty=True)  # rule `branches` writes the numbers as texts
        return REAL if holds <= {Holds.INT, Holds.REAL} and holds else UNKNOWN

    def _column(self, node: exp.Expr) -> Kind:
        assert isinstance(node, exp.Column)
        found = self.find(node)
        if found is not None:
            return replace(found.kind, nullable=True) if self._padded(found) else found.kind
        query = enclosing(node)
        item = self.named(query, node) if query is not None else None
        if item is None and isinstance(query, exp.SetOperation):
            return dict((name.lower(), kind) for name, kind in self.outputs(query)).get(node.name.lower(), UNKNOWN)
        return self.kind(item)

    def _padded(self, found: Found) -> bool:
        """Whether an outer join may put NULL where the column itself never is."""
        return any(join.side for join in found.query.args.get("joins") or ())

    def _literal(self, node: exp.Expr) -> Kind:
        if node.is_string:
            return replace(TEXT, nullable=False)
        return Kind(Holds.INT if node.is_int else Holds.REAL, nullable=False)

    def _cast(self, node: exp.Expr) -> Kind:
        to = node.args["to"]
        if to.is_type("boolean"):
            return BOOL
        if to.is_type("text", "varchar", "char"):
            return replace(TEXT, affinity=Affinity.TEXT)
        if to.is_type("float", "double", "decimal"):
            return replace(REAL, affinity=Affinity.NUMBER)
        if to.is_type(*exp.DataType.INTEGER_TYPES):
            return replace(INT, affinity=Affinity.NUMBER)
        return Kind(Holds.OTHER, affinity_of(to.sql()))

    def _divided(self, node: exp.Expr) -> Kind:
        whole = all(self.kind(side).holds in (Holds.INT, Holds.BOOL) for side in (node.this, node.expression))
        return INT if whole and node.args.get("typed") else REAL

    def _summed(self, node: exp.Expr) -> Kind:
        return INT if self.kind(node.this).holds in (Holds.INT, Holds.BOOL) else REAL

    def _rounded(self, node: exp.Expr) -> Kind:
        return REAL

    def _subquery(self, node: exp.Expr) -> Kind:
        if not isinstance(node.this, exp.Query):
            return self.kind(node.this)
        return replace(next((kind for _, kind in self.outputs(node.this)), UNKNOWN), nullable=True)

    def _case(self, node: exp.Expr) -> Kind:
        branches = [branch.args.get("true") for branch in node.args.get("ifs") or ()]
        return self.joined([*branches, node.args.get("default")])

    def _if(self, node: exp.Expr) -> Kind:
        return self.joined([node.args.get("true"), node.args.get("false")])

    def _named_function(self, node: exp.Expr) -> Kind:
        name = node.name.upper()
        if name == "STRFTIME":
            return replace(TEXT, clean=len(node.expressions[1].this) == 2)
        return REAL if name in ("JULIAN", "TRUNC") else UNKNOWN

    def _nullif(self, node: exp.Expr) -> Kind:
        return replace(self.kind(node.this), nullable=True)


_KINDS: Mapping[type[exp.Expr], Callable[[Names, exp.Expr], Kind]] = {
    exp.Column: Names._column,
    exp.Literal: Names._literal,
    exp.Cast: Names._cast,
    exp.TryCast: Names._cast,
    exp.Div: Names._divided,
    exp.Sum: Names._summed,
    exp.Avg: Names._rounded,
    exp.Round: Names._rounded,
    exp.Subquery: Names._subquery,
    exp.Select: Names._subquery,
    exp.Case: Names._case,
    exp.If: Names._if,
    exp.Nullif: Names._nullif,
    exp.TimeToStr: lambda _names, _node: TEXT,
    exp.Anonymous: Names._named_function,
}


def enclosing(node: exp.Expr) -> exp.Query | None:
    """The query in whose clauses a node stands; of a query itself, the one around it."""
    up = node.parent
    while up is not None and not isinstance(up, exp.Select | exp.SetOperation):
        up = up.parent
    return up if isinstance(up, exp.Query) else None


def _within(node: exp.Expr, container: exp.Expr) -> bool:
    up: exp.Expr | None = node
    while up is not None and up is not container:
        up = up.parent
    return up is container

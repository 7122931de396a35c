"""Candidates for the search: golds and attacks, changed and spliced.

In: parents (SQL), other golds of the same database, its schema, dice. Out: one new text each time, and the unsafe
fragment in it where one was put in. Half of the changes are those of instances/mutants.py, one to four on top of each
other; the others are cheats: constants, values and limits read off the gold's rows, empty branches, conditions that
hold on the real rows, parts of other golds. Not here: running or judging them (search.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from text2sql_rl.instances.mutants import OPERATORS
from text2sql_rl.records import Table

# What must never run, wherever it stands: scalars and tables. `{t}` is a table of the database.
UNSAFE_SCALARS = (
    "current_setting('threads')", "getenv('HOME')", "version()", "random()", "uuid()", "nextval('s')",
    "getvariable('x')", "current_query()", "current_schema()", "current_database()", "txid_current()",
    "sleep_ms(1)", "setseed(0.5)", "pg_sleep(0.01)", "user", "gen_random_uuid()", "pg_backend_pid()",
)  # fmt: skip
UNSAFE_TABLES = (
    "duckdb_settings()", "duckdb_tables()", "duckdb_databases()", "duckdb_secrets()", "information_schema.tables",
    "sqlite_master", "pg_catalog.pg_class", "read_text('/etc/hostname')", "read_csv('/etc/hostname')",
    "read_blob('/proc/self/environ')", "'/etc/hostname'", '"/etc/hostname"', "glob('/etc/*')", "query('SELECT 1')",
    "query_table('{t}')", "pragma_version()", "pragma_table_info('{t}')", "(SUMMARIZE {t})", "(DESCRIBE {t})",
    "(SHOW TABLES)", "parquet_metadata('/etc/hostname')", "sniff_csv('/etc/hostname')",
)  # fmt: skip
_Cheat = Callable[["Maker", exp.Expr], exp.Expr]


@dataclass(frozen=True, slots=True)
class Made:
    """A candidate; `fragment` is the unsafe part in it, empty when there is none."""

    sql: str
    fragment: str = ""


class Maker:
    """Makes candidates for one gold."""

    def __init__(
        self,
        dice: random.Random,
        gold: str,
        others: Sequence[str],
        attacks: Sequence[str],
        tables: Sequence[Table],
        rows: Sequence[Sequence[object]],
    ) -> None:
        """Take what to make them of.

        Args:
            dice: every choice comes from it.
            gold: the gold's SQL.
            others: golds of the same database, for splices.
            attacks: SQL of attacks on this gold.
            tables: the schema.
            rows: the gold's rows on the real data.
        """
        self.dice, self.tables, self.rows = dice, tables, rows
        self._trees: dict[str, exp.Expr | None] = {}
        self.others = [tree for sql in others if (tree := self._parsed(sql)) is not None]
        self._attacks = [sql for sql in attacks if self._parsed(sql) is not None]
        self._gold = gold

    def make(self, parents: Sequence[str]) -> Made | None:
        """One candidate from the gold, an attack or one of `parents`; None where the change came to nothing."""
        draw = self.dice.random()
        start = self._gold
        if parents and draw < 0.4:
            start = self.dice.choice(parents)
        elif self._attacks and draw > 0.9:
            start = self.dice.choice(self._attacks)
        tree = self._parsed(start)
        if tree is None:
            return None
        tree = tree.copy()
        try:
            for _ in range(self.dice.choice((1, 1, 2, 2, 3, 4))):
                tree = self._mutated(tree) if self.dice.random() < 0.5 else self.dice.choice(CHEATS)(self, tree)
            sql = tree.sql("duckdb")
        except (sqlglot.errors.SqlglotError, AttributeError, KeyError, RecursionError, ValueError):
            return None  # a change that makes no tree
        if self.dice.random() < 0.15:
            return self._unsafe(sql)
        return None if sql == self._gold else Made(sql)

    def _parsed(self, sql: str) -> exp.Expr | None:
        if sql not in self._trees:
            try:
                self._trees[sql] = sqlglot.parse_one(sql, dialect="duckdb")
            except (sqlglot.errors.SqlglotError, RecursionError):
                self._trees[sql] = None
        return self._trees[sql]

    def _mutated(self, tree: exp.Expr) -> exp.Expr:
        nodes = list(tree.walk())
        for _ in range(12):
            node, operator = self.dice.choice(nodes), self.dice.choice(OPERATORS)
            found = list(operator(node, self.tables))
            if found:
                other = self.dice.choice(found)
                if node is tree:
                    return tree if other is None else other
                if other is None:
                    node.pop()
                else:
                    node.replace(other)
                return tree
        return tree

    def _unsafe(self, sql: str) -> Made:
        """The statement with an unsafe fragment in some place and some spelling."""
        table = self.dice.choice(self.tables).name
        place = self.dice.randrange(8)
        if place < 3:
            fragment = self._spelt(self.dice.choice(UNSAFE_SCALARS))
            text = (
                f"SELECT *, {fragment} FROM ({sql}) AS t",
                f"SELECT * FROM ({sql}) AS t WHERE coalesce(CAST({fragment} AS VARCHAR), '') IS NOT NULL",
                f"SELECT * FROM ({sql}) AS t ORDER BY CASE WHEN {fragment} IS NULL THEN 1 ELSE 0 END",
            )[place]
            return Made(text, fragment)
        fragment = self._spelt(self.dice.choice(UNSAFE_TABLES).replace("{t}", table))
        text = (
            f"SELECT t.* FROM ({sql}) AS t, (SELECT 1 FROM {fragment} LIMIT 1) AS u",
            f"SELECT * FROM ({sql}) AS t WHERE (SELECT count(*) FROM {fragment}) >= 0",
            f"WITH u AS (SELECT * FROM {fragment}) {sql}",
            f"WITH u AS MATERIALIZED (SELECT count(*) AS n FROM {fragment}) SELECT t.* FROM ({sql}) AS t, u",
            f"SELECT * FROM ({sql}) AS t WHERE EXISTS (FROM {fragment})",
        )[place - 3]
        return Made(text, fragment)

    def _spelt(self, fragment: str) -> str:
        name, bracket, rest = fragment.partition("(")
        plain = bool(bracket) and name.isidentifier()
        spellings = [fragment, fragment.upper() if "'" not in fragment else fragment]
        if plain:
            spellings += [
                f'"{name}"({rest}',
                f"main.{name}({rest}",
                f"system.main.{name}({rest}",
                f"{name} /**/ ({rest}",
            ]
        return self.dice.choice(spellings)


# ---- cheats ------------------------------------------------------------------------------------------------


def _select(tree: exp.Expr) -> exp.Select:
    found = tree if isinstance(tree, exp.Select) else tree.find(exp.Select)
    if found is None:
        raise ValueError("no SELECT to change")
    return found


def _column(maker: Maker, tree: exp.Expr) -> exp.Column:
    read = {table.name.lower() for table in tree.find_all(exp.Table)}
    tables = [table for table in maker.tables if table.name.lower() in read] or list(maker.tables)
    table = maker.dice.choice(tables)
    return exp.column(maker.dice.choice(table.columns).name, table=table.name if maker.dice.random() < 0.3 else None)


def _value(maker: Maker) -> exp.Expr:
    if maker.rows and maker.dice.random() < 0.7:
        value = maker.dice.choice(maker.dice.choice(maker.rows))
        return exp.convert(value if isinstance(value, int | float | bool) or value is None else str(value))
    return exp.convert(maker.dice.choice((0, 1, 2, "", "x", None, True)))


def _predicate(maker: Maker, tree: exp.Expr) -> exp.Expr:
    column, draw = _column(maker, tree), maker.dice.randrange(6)
    if draw == 0:
        return exp.Is(this=column, expression=exp.null())
    if draw == 1:
        return exp.Not(this=exp.Is(this=column, expression=exp.null()))
    if draw == 2:
        return exp.EQ(this=column, expression=column.copy())
    if draw == 3:
        return exp.In(this=column, expressions=[exp.convert(str(row[0])) for row in maker.rows[:40]] or [exp.null()])
    kind = maker.dice.choice((exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE))
    return kind(this=column, expression=_value(maker))


def _filter_added(maker: Maker, tree: exp.Expr) -> exp.Expr:
    query, predicate = _select(tree), _predicate(maker, tree)
    where = query.args.get("where")
    joined = exp.Or if maker.dice.random() < 0.3 else exp.And
    query.set("where", exp.Where(this=joined(this=where.this, expression=predicate) if where else predicate))
    return tree


def _filter_replaced(maker: Maker, tree: exp.Expr) -> exp.Expr:
    _select(tree).set("where", exp.Where(this=_predicate(maker, tree)))
    return tree


def _constant_column(maker: Maker, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    items[maker.dice.randrange(len(items))] = _value(maker)
    _select(tree).set("expressions", items)
    return tree


def _conditional_column(maker: Maker, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    at = maker.dice.randrange(len(items))
    inner = items[at].unalias()
    if maker.dice.random() < 0.5:
        items[at] = exp.Coalesce(this=inner, expressions=[_value(maker)])
    else:
        items[at] = exp.Case().when(_predicate(maker, tree), _value(maker)).else_(inner)
    _select(tree).set("expressions", items)
    return tree


def _other_column(maker: Maker, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    items[maker.dice.randrange(len(items))] = _column(maker, tree)
    _select(tree).set("expressions", items)
    return tree


def _limited(maker: Maker, tree: exp.Expr) -> exp.Expr:
    if not isinstance(tree, exp.Query):
        return tree
    size = len(maker.rows)
    return tree.limit(maker.dice.choice((size, size + 1, max(size - 1, 0), 1, 2 * size, 1000)), copy=False)


def _wrapped(maker: Maker, tree: exp.Expr) -> exp.Expr:
    form = maker.dice.choice(
        ("SELECT * FROM ({}) AS t", "SELECT DISTINCT * FROM ({}) AS t", "SELECT * FROM ({}) AS t OFFSET 0")
    )
    return sqlglot.parse_one(form.format(tree.sql("duckdb")), dialect="duckdb")


def _branched(maker: Maker, tree: exp.Expr) -> exp.Expr:
    sql, other = tree.sql("duckdb"), maker.dice.choice(maker.others or [tree]).sql("duckdb")
    form = maker.dice.choice((
        "({}) UNION ALL (SELECT * FROM ({}) AS e WHERE 1 = 0)", "({}) EXCEPT (SELECT * FROM ({}) AS e LIMIT 0)",
        "({}) UNION ({})", "({}) INTERSECT ({})", "({}) UNION ALL ({})",
    ))  # fmt: skip
    second = sql if maker.dice.random() < 0.5 else other
    return sqlglot.parse_one(form.format(sql, second), dialect="duckdb")


def _if_table(maker: Maker, tree: exp.Expr) -> exp.Expr:
    """The query under a condition that holds on the real rows."""
    table = maker.dice.choice(maker.tables)
    least = maker.dice.choice((0, 1, 5, table.rows - 1, table.rows))
    sign = maker.dice.choice((">=", ">", "="))
    form = f'SELECT * FROM ({{}}) AS t WHERE (SELECT count(*) FROM "{table.name}") {sign} {least}'
    return sqlglot.parse_one(form.format(tree.sql("duckdb")), dialect="duckdb")


def _spliced(maker: Maker, tree: exp.Expr) -> exp.Expr:
    """A part of another gold in place of the same kind of part."""
    if not maker.others:
        return tree
    kind = maker.dice.choice(
        (exp.Where, exp.Order, exp.Group, exp.Having, exp.Limit, exp.Join, exp.Column, exp.Literal)
    )
    mine, theirs = list(tree.find_all(kind)), list(maker.dice.choice(maker.others).find_all(kind))
    if mine and theirs:
        maker.dice.choice(mine).replace(maker.dice.choice(theirs).copy())
    return tree


def _edged(maker: Maker, tree: exp.Expr) -> exp.Expr:
    """A number a little beside itself."""
    items = list(_select(tree).expressions)
    at = maker.dice.randrange(len(items))
    beside = maker.dice.choice((1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 0.001, 0.01, 1))
    items[at] = exp.Add(this=exp.paren(items[at].unalias()), expression=exp.Literal.number(repr(beside)))
    _select(tree).set("expressions", items)
    return tree


def _recast(maker: Maker, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    at = maker.dice.randrange(len(items))
    kind = maker.dice.choice(
        ("VARCHAR", "INTEGER", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL(18, 2)", "DATE", "TIMESTAMP", "BOOLEAN")
    )
    items[at] = exp.cast(items[at].unalias(), kind, dialect="duckdb")
    _select(tree).set("expressions", items)
    return tree


def _shuffled(maker: Maker, tree: exp.Expr) -> exp.Expr:
    items = list(_select(tree).expressions)
    maker.dice.shuffle(items)
    if maker.dice.random() < 0.3:
        items.append(items[0].copy())
    _select(tree).set("expressions", items)
    return tree


CHEATS: tuple[_Cheat, ...] = (
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

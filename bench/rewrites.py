"""Whether right answers written otherwise are rejected: the golds rewritten without changing what they mean.

In: Spider dev questions (or the bundled ones), with instances. Out: the number of rewritten golds that are judged
different; the goal is none among at least 200. Each is judged on the real rows and on all instances of its question.
Rewrites follow from SQL's rules alone, not from the rows: nothing is assumed unique or not NULL that no key declares.
Not here: proving that a rewrite is right; every rejected one is printed, for a person to read.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import sqlglot
from measure import Result, scaled
from spider import Asked, dev_questions, spread
from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql_rl.compare import compare, overall
from text2sql_rl.content import cache_folder
from text2sql_rl.gold import prepare_golds
from text2sql_rl.instances import fair
from text2sql_rl.instances.store import with_instances
from text2sql_rl.records import Database, Match, Outcome, Verdict
from text2sql_rl.sandbox import Job, Sandbox

_QUESTIONS = 100
_ALIAS = "rewritten_{}"
Rewrite = Callable[[exp.Query, Database], exp.Expr | None]


def measure() -> Result:
    """How many are rejected, with how many were judged as `n`."""
    judged: Counter[str] = Counter()
    rejected = 0
    with Sandbox(workers=min(2, os.cpu_count() or 1)) as sandbox:
        for asked in spread(dev_questions(), scaled(_QUESTIONS)):
            for name, sql, verdict in _judged(asked, sandbox):
                judged[name] += 1
                if verdict.match is not Match.MATCH:
                    rejected += 1
                    print(f"{asked.question.id} {name}: {verdict.words}\n  {asked.question.gold_sql}\n  {sql}",
                          file=sys.stderr)  # fmt: skip
    print(", ".join(f"{name} {count}" for name, count in sorted(judged.items())), file=sys.stderr)
    return Result("rewrites.wrongly_rejected", rejected, "count", 0, judged.total(), 0.0)


def _judged(asked: Asked, sandbox: Sandbox) -> Iterator[tuple[str, str, Verdict]]:
    """Every rewrite that applies and runs, with its verdict over all instances."""
    made = list(rewritten(asked.question.gold_sql, asked.database))
    database = with_instances(asked.database, [asked.question], cache_folder(), sandbox)
    golds = prepare_golds([(one, asked.question.gold_sql) for one in database.instances], sandbox)
    if golds[0].unverifiable or not made:
        return
    golds = (golds[0], *fair(golds[0], golds[1:]))
    for name, sql in made:
        ran = sandbox.run([Job(instance, sql) for instance in database.instances])
        if ran[0].outcome is Outcome.ERROR:
            print(f"{asked.question.id} {name} does not run: {ran[0].reason}\n  {sql}", file=sys.stderr)
            continue
        yield name, sql, overall([compare(gold, one, sql) for gold, one in zip(golds, ran, strict=True)])


def rewritten(sql: str, database: Database) -> Iterator[tuple[str, str]]:
    """The names and texts of all rewrites that apply to a gold; none where sqlglot cannot read it."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except SqlglotError:
        return
    if not isinstance(tree, exp.Query):
        return
    for rewrite in REWRITES:
        other = rewrite(tree.copy(), database)
        if other is not None and other != tree:
            yield rewrite.__name__, other.sql("duckdb")
    yield "laid_out", f"{tree.sql('duckdb', pretty=True)};"


# ---- rewrites: each gets a copy and gives the rewritten statement, or None where it does not apply -------------


def _replaced(tree: exp.Query, kind: type[exp.Expr], change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Query:
    """The tree with every node of a kind replaced where `change` gives something; inner nodes first."""
    for node in reversed(list(tree.find_all(kind))):
        other = change(node)
        if other is not None:
            node.replace(other)
    return tree


def aliases_renamed(tree: exp.Query, database: Database) -> exp.Expr | None:
    """Other names for the tables' aliases."""
    named = {table.alias.lower() for table in tree.find_all(exp.Table) if table.alias}
    names = {old: _ALIAS.format(at) for at, old in enumerate(sorted(named))}
    for table in tree.find_all(exp.Table):
        if table.alias:
            table.args["alias"].set("this", exp.to_identifier(names[table.alias.lower()]))
    for column in tree.find_all(exp.Column):
        if column.table.lower() in names:
            column.set("table", exp.to_identifier(names[column.table.lower()]))
    return tree


def predicates_turned(tree: exp.Query, database: Database) -> exp.Expr | None:
    """AND and OR with their sides exchanged."""

    def change(node: exp.Expr) -> exp.Expr:
        return type(node)(this=node.expression.copy(), expression=node.this.copy())

    return _replaced(_replaced(tree, exp.And, change), exp.Or, change)


def comparisons_turned(tree: exp.Query, database: Database) -> exp.Expr | None:
    """3 < x for x > 3."""
    turned = {exp.EQ: exp.EQ, exp.NEQ: exp.NEQ, exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}
    for node in list(tree.find_all(*turned)):
        node.replace(turned[type(node)](this=node.expression.copy(), expression=node.this.copy()))
    return tree


def join_commuted(tree: exp.Query, database: Database) -> exp.Expr | None:
    """The two tables of an inner join exchanged, where no star shows their order."""
    joins = tree.args.get("joins") or []
    if not isinstance(tree, exp.Select) or len(joins) != 1 or any(item.is_star for item in tree.selects):
        return None
    join, source = joins[0], tree.args["from_"]
    if join.args.get("side") or join.args.get("kind") or not join.args.get("on"):
        return None
    first, second = source.this.copy(), join.this.copy()
    source.set("this", second)
    join.set("this", first)
    return tree


def between_split(tree: exp.Query, database: Database) -> exp.Expr | None:
    """x >= a AND x <= b for x BETWEEN a AND b."""

    def change(node: exp.Expr) -> exp.Expr:
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        return exp.paren(
            exp.And(this=low, expression=exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()))
        )

    return _replaced(tree, exp.Between, change)


def between_joined(tree: exp.Query, database: Database) -> exp.Expr | None:
    """x BETWEEN a AND b for x >= a AND x <= b."""

    def change(node: exp.Expr) -> exp.Expr | None:
        low, high = node.this, node.expression
        if isinstance(low, exp.GTE) and isinstance(high, exp.LTE) and low.this == high.this:
            return exp.Between(this=low.this.copy(), low=low.expression.copy(), high=high.expression.copy())
        return None

    return _replaced(tree, exp.And, change)


def in_as_or(tree: exp.Query, database: Database) -> exp.Expr | None:
    """x = a OR x = b for x IN (a, b)."""

    def change(node: exp.Expr) -> exp.Expr | None:
        values = node.expressions
        if not values or node.args.get("query"):
            return None
        return exp.paren(exp.or_(*(exp.EQ(this=node.this.copy(), expression=value.copy()) for value in values)))

    return _replaced(tree, exp.In, change)


def or_as_in(tree: exp.Query, database: Database) -> exp.Expr | None:
    """x IN (a, b) for x = a OR x = b."""

    def change(node: exp.Expr) -> exp.Expr | None:
        one, other = node.this, node.expression
        if not (isinstance(one, exp.EQ) and isinstance(other, exp.EQ) and one.this == other.this):
            return None
        return exp.In(this=one.this.copy(), expressions=[one.expression.copy(), other.expression.copy()])

    return _replaced(tree, exp.Or, change)


def in_as_exists(tree: exp.Query, database: Database) -> exp.Expr | None:
    """EXISTS for an IN (SELECT ...) that is a whole condition: there NULL and false are the same."""

    def change(node: exp.Expr) -> exp.Expr | None:
        query = node.args.get("query")
        if query is None or not isinstance(node.this, exp.Column) or not isinstance(node.parent, exp.Where | exp.And):
            return None
        value = _ALIAS.format("value")
        inner = f"SELECT 1 FROM ({query.this.sql('duckdb')}) AS {_ALIAS.format('set')}({value})"
        found = sqlglot.parse_one(f"{inner} WHERE {value} = {node.this.sql('duckdb')}", dialect="duckdb")
        return exp.Exists(this=found)

    top = tree.args.get("where")
    return _replaced(tree, exp.In, change) if top is not None and not tree.find(exp.Or, exp.Not) else None


def counted_otherwise(tree: exp.Query, database: Database) -> exp.Expr | None:
    """COUNT(key) for COUNT(*) where one table with a declared key is read, else COUNT(1)."""
    read = [table.name.lower() for table in tree.find_all(exp.Table)]
    keys = [
        column.name
        for table in database.tables
        for column in table.columns
        if read == [table.name.lower()] and column.primary_key and not column.nullable
    ]

    def change(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node.this, exp.Star):
            return None
        return exp.Count(this=exp.column(keys[0], quoted=True) if keys else exp.Literal.number(1))

    return _replaced(tree, exp.Count, change)


def negated_twice(tree: exp.Query, database: Database) -> exp.Expr | None:
    """NOT (NOT (...)) around every condition."""
    for node in list(tree.find_all(exp.Where, exp.Having)):
        node.set("this", exp.Not(this=exp.paren(exp.Not(this=exp.paren(node.this.copy())))))
    return tree


def unequal_as_not(tree: exp.Query, database: Database) -> exp.Expr | None:
    """NOT a = b for a <> b."""

    def change(node: exp.Expr) -> exp.Expr:
        return exp.Not(this=exp.paren(exp.EQ(this=node.this.copy(), expression=node.expression.copy())))

    return _replaced(tree, exp.NEQ, change)


def conditions_as_case(tree: exp.Query, database: Database) -> exp.Expr | None:
    """CASE WHEN condition THEN true ELSE false END: a filter treats NULL as false anyway."""
    for node in list(tree.find_all(exp.Where, exp.Having)):
        node.set("this", exp.Case(ifs=[exp.If(this=node.this.copy(), true=exp.true())], default=exp.false()))
    return tree


def tables_as_subqueries(tree: exp.Query, database: Database) -> exp.Expr | None:
    """(SELECT * FROM t) AS t for t."""
    for table in list(tree.find_all(exp.Table)):
        if isinstance(table.this, exp.Identifier) and isinstance(table.parent, exp.From | exp.Join):
            inner = exp.select("*").from_(exp.table_(table.name, quoted=True))
            table.replace(inner.subquery(table.alias or table.name))
    return tree


def wrapped_in_a_cte(tree: exp.Query, database: Database) -> exp.Expr | None:
    """WITH a AS (gold) SELECT * FROM a, where no order could get lost."""
    if tree.args.get("order") or tree.args.get("limit") or tree.args.get("with_"):
        return None
    name = _ALIAS.format("answer")
    return exp.select("*").from_(name).with_(name, as_=tree)


def distinct_as_group(tree: exp.Query, database: Database) -> exp.Expr | None:
    """GROUP BY all columns for DISTINCT."""
    plain = isinstance(tree, exp.Select) and tree.args.get("distinct") and not tree.args.get("group")
    if not plain or tree.args.get("order") or not all(isinstance(item, exp.Column) for item in tree.selects):
        return None
    tree.set("distinct", None)
    return tree.group_by(*(item.copy() for item in tree.selects)) if isinstance(tree, exp.Select) else None


def columns_named(tree: exp.Query, database: Database) -> exp.Expr | None:
    """Other names for the answer's columns, where nothing sorts by a name."""
    if not isinstance(tree, exp.Select) or tree.args.get("order") or any(item.is_star for item in tree.selects):
        return None
    named = [exp.alias_(item.unalias().copy(), _ALIAS.format(at)) for at, item in enumerate(tree.selects)]
    tree.set("expressions", named)
    return tree


def sets_commuted(tree: exp.Query, database: Database) -> exp.Expr | None:
    """The sides of UNION and INTERSECT exchanged."""
    if not isinstance(tree, exp.Union | exp.Intersect) or tree.args.get("order") or tree.args.get("limit"):
        return None
    first, second = tree.this.copy(), tree.expression.copy()
    tree.set("this", second)
    tree.set("expression", first)
    return tree


REWRITES: tuple[Rewrite, ...] = (
    aliases_renamed,
    predicates_turned,
    comparisons_turned,
    join_commuted,
    between_split,
    between_joined,
    in_as_or,
    or_as_in,
    in_as_exists,
    counted_otherwise,
    negated_twice,
    unequal_as_not,
    conditions_as_case,
    tables_as_subqueries,
    wrapped_in_a_cte,
    distinct_as_group,
    columns_named,
    sets_commuted,
)

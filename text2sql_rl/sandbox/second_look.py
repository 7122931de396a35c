"""sqlglot's opinion on a statement that DuckDB's parser has let pass.

In: SQL text and names. Out: nothing, or `SecondRefusal`. sqlglot reads less SQL than DuckDB does; where it cannot
parse, it has no opinion, because a right answer is not refused for its form and DuckDB's own tree is the one that
describes what will run. Where it can parse, anything but one query, any writing or administrative node, any call of
a refused function and any table that is a file or of the catalogue is refused.

Not here: DuckDB's tree (gate.py).
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql_rl.sandbox.names import VALUE_FUNCTIONS, FunctionNames, refused_table

_FORBIDDEN = (
    exp.DML,
    exp.DDL,
    exp.Drop,
    exp.Alter,
    exp.Command,
    exp.Set,
    exp.Pragma,
    exp.Use,
    exp.Attach,
    exp.Detach,
    exp.Describe,
    exp.Summarize,
    exp.Show,
    exp.Copy,
    exp.Transaction,
    exp.Commit,
    exp.Rollback,
    exp.Merge,
    exp.Into,
    exp.Install,
    exp.Kill,
    exp.Analyze,
    exp.TruncateTable,
    exp.LoadData,
    exp.Export,
)
_QUERIES = (exp.Query, exp.Table, exp.Values, exp.Pivot, exp.From)


class SecondRefusal(Exception):
    """sqlglot sees something that must not run; the text says what."""


def check(sql: str, tables: frozenset[str], functions: FunctionNames) -> None:
    """Look at a statement that DuckDB's tree has cleared.

    Raises:
        SecondRefusal: the statement must not run.
    """
    try:
        parsed = sqlglot.parse(sql, dialect="duckdb")
    except (SqlglotError, RecursionError, ValueError, AttributeError, LookupError, TypeError):
        return  # the last three: sqlglot stumbles over text it was not made for
    _look(parsed, tables, functions)


def _look(parsed: Iterable[exp.Expr | None], tables: frozenset[str], functions: FunctionNames) -> None:
    statements = [tree for tree in parsed if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(statements) != 1:
        raise SecondRefusal(f"{len(statements)} statements (second parser)")
    tree = statements[0]
    if not isinstance(tree, _QUERIES):
        raise SecondRefusal(f"is not a query ({tree.key}, second parser)")
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for node in tree.walk():
        if isinstance(node, _FORBIDDEN) and not isinstance(node, exp.Query):
            raise SecondRefusal(f"is not a read-only query ({node.key}, second parser)")
        if isinstance(node, exp.Table):
            _look_at_table(node, tables, ctes, functions)
        elif isinstance(node, exp.Func):
            for name in _names(node) - VALUE_FUNCTIONS:
                if functions.refuses_call(name) and not isinstance(node.parent, exp.Table):
                    raise SecondRefusal(f"calls {name}() (second parser)")


def _names(node: exp.Func) -> set[str]:
    """All names under which sqlglot knows this call, lower-cased."""
    if isinstance(node, exp.Anonymous) or type(node) is exp.Func:
        return {node.name.lower()}
    return {name.lower() for name in node.sql_names()}


def _look_at_table(node: exp.Table, tables: frozenset[str], ctes: set[str], functions: FunctionNames) -> None:
    if isinstance(node.this, exp.Func):
        for name in _names(node.this):
            if functions.refuses_table(name):
                raise SecondRefusal(f"calls {name}() in FROM (second parser)")
        return
    name = node.name.lower()
    if name and name not in tables and name not in ctes:
        reason = refused_table(tuple(part for part in (node.catalog, node.db, node.name) if part))
        if reason:
            raise SecondRefusal(f"{reason} (second parser)")

"""sqlglot's opinion on a statement that DuckDB's parser has let pass.

In: SQL text and names. Out: nothing, or `SecondRefusal`. sqlglot reads less SQL than DuckDB does; where it cannot
parse, it has no opinion, because a right answer is not refused for its form and DuckDB's own tree is the one that
describes what will run. Where it can parse, anything but one query, any writing or administrative node, any call of
a refused function and any table that is a file or of the catalogue is refused.

Parsing with sqlglot costs more than most statements take to run, so the text is first asked for the words and marks
without which none of these refusals can come about (`may_refuse`): over all of the text, strings and comments included,
so that it errs towards looking. Most honest statements hold none.

Not here: DuckDB's tree (gate.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql_rl.sandbox.names import VALUE_FUNCTIONS, FunctionNames, path_in, refused_table, suspect_name, words

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
# What sqlglot must read to make one of these nodes, besides the word that begins a statement.
_WRITING = words(
    "insert update delete drop alter create replace copy attach detach into install pragma set reset use merge commit"
    " rollback begin transaction abort kill analyze truncate load export import describe summarize show explain call"
    " execute prepare deallocate vacuum checkpoint grant revoke comment declare cache uncache refresh unload command"
)
_BEGINNINGS = words("select with from")
_WORD = re.compile(r"[^\W\d]\w*")
# Where these occur, what is text and what is a name is not told by counting quotes.
_INTRICATE = re.compile(r"[`$\\]|--|/\*|//|\be'", re.IGNORECASE)
_QUERIES = (exp.Query, exp.Table, exp.Values, exp.Pivot, exp.From)


class SecondRefusal(Exception):
    """sqlglot sees something that must not run; the text says what."""


def check(sql: str, tables: frozenset[str], functions: FunctionNames) -> None:
    """Look at a statement that DuckDB's tree has cleared.

    Raises:
        SecondRefusal: the statement must not run.
    """
    if not may_refuse(sql, functions):
        return
    try:
        parsed = sqlglot.parse(sql, dialect="duckdb")
    except (SqlglotError, RecursionError, ValueError, AttributeError, LookupError, TypeError):
        return  # the last three: sqlglot stumbles over text it was not made for
    _look(parsed, tables, functions)


def may_refuse(sql: str, functions: FunctionNames) -> bool:
    """Whether the text holds anything that `check` could refuse it for; false only when it surely does not.

    A second statement needs a semicolon, another kind of statement its first word, a writing node its keyword, a
    refused function or a catalogue table its name, a file a path mark between quotes.
    """
    found = set(_WORD.findall(sql.upper().lower()))  # as sqlglot does: some letters have a capital of another kind
    first = _WORD.search(sql)
    if first is None or first[0].lower() not in _BEGINNINGS or sql[: first.start()].strip(" \t\r\n"):
        return True
    if found & _WRITING or found & functions.refused or any(map(suspect_name, found)):
        return True
    if ";" in sql.rstrip().removesuffix(";") or _INTRICATE.search(sql) or ("'" in sql and '"' in sql):
        return True
    return any(map(path_in, re.split("[\"']", sql)[1::2]))


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

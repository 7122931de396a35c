"""The dialect bridge: SQL of another dialect becomes DuckDB SQL with the same answer.

In: one query, its dialect, the schema. Out: a `Translation`, or a `TranslationError` that says why not. sqlglot parses
and writes; what it cannot know (types, SQLite's habits) is written by rules of our own, one a file, in the order of
`RULES`. Every rule is a function from a tree and its names to the number of places it changed, and does nothing where
it cannot resolve a name. tests/importers/cases/ holds the cases of every rule. Not here: running anything; whether a
translation gives the original's answer is asked by `proof.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from text2sql_rl.errors import DataError
from text2sql_rl.importers.dialect import (
    arithmetic,
    bare,
    branches,
    calendar,
    casts,
    collation,
    comparisons,
    dates,
    extremes,
    formats,
    functions,
    joins,
    like,
    limits,
    nulls,
    ordered,
    patterns,
    precision,
    rowids,
    samples,
    schemas,
    singles,
    texts,
    truth,
)
from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.quotes import read_quotes
from text2sql_rl.importers.dialect.values import Schema, schema_of
from text2sql_rl.records import Table

__all__ = ["DIALECTS", "RULES", "Translation", "TranslationError", "translate"]

DIALECTS = ("sqlite", "postgres", "mysql", "duckdb")


class TranslationError(DataError):
    """A query that cannot be translated: `reason` is one word for counting, the text says more."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Translation:
    """DuckDB SQL, and the names of the rules that changed something on the way."""

    sql: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, the dialects whose habits it repairs, and what it does."""

    name: str
    dialects: tuple[str, ...]
    apply: Callable[[exp.Expr, Names], int]


_LOOSE = ("sqlite", "mysql")
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "PIVOT", "UNPIVOT")
# The first word, after parentheses and comments.
_WORD = re.compile(r"(?:[\s(;]|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)

# Types are settled before what depends on them; bare columns come last, because they wrap what is there.
RULES = (
    Rule("schemas", ("postgres",), schemas.apply),
    Rule("limits", ("sqlite",), limits.apply),
    Rule("rowids", ("sqlite",), rowids.apply),
    Rule("joins", _LOOSE, joins.apply),
    Rule("dates", ("sqlite",), dates.apply),
    Rule("calendar", ("mysql",), calendar.apply),
    Rule("formats", ("postgres",), formats.apply),
    Rule("ordered", ("postgres",), ordered.apply),
    Rule("functions", _LOOSE, functions.apply),
    Rule("texts", _LOOSE, texts.apply),
    Rule("casts", _LOOSE, casts.apply),
    Rule("precision", ("mysql", "postgres"), precision.apply),
    Rule("arithmetic", ("sqlite", "mysql", "postgres"), arithmetic.apply),
    Rule("comparisons", _LOOSE, comparisons.apply),
    Rule("truth", _LOOSE, truth.apply),
    Rule("branches", _LOOSE, branches.apply),
    Rule("like", _LOOSE, like.apply),
    Rule("collation", _LOOSE, collation.apply),
    Rule("patterns", ("mysql", "postgres"), patterns.apply),
    Rule("extremes", ("sqlite",), extremes.apply),
    Rule("nulls", _LOOSE, nulls.apply),
    Rule("singles", ("sqlite",), singles.apply),
    Rule("bare", ("sqlite", "mysql", "postgres"), bare.apply),
    Rule("samples", ("sqlite", "mysql", "postgres", "duckdb"), samples.apply),
)


def translate(
    sql: str, dialect: str, schema: Schema | Sequence[Table], *, group_by_determined: bool = True
) -> Translation:
    """One query in DuckDB's dialect.

    Args:
        sql: a single SELECT (WITH, UNION and VALUES too); a semicolon at its end is dropped.
        dialect: one of `DIALECTS`.
        schema: of the DuckDB database it will run on.
        group_by_determined: false wraps columns that the group's key determines as well (rule `bare`): the same answer,
            but groups may come in another order.

    Raises:
        TranslationError: `dialect` is unknown, the text is no query or several, or it says what cannot be translated.
    """
    if dialect not in DIALECTS:
        raise TranslationError("unknown_dialect", f"the dialect {dialect!r} is none of {', '.join(DIALECTS)}")
    known = schema if isinstance(schema, Schema) else schema_of(schema)
    text, applied = sql.strip(), []
    try:
        if dialect == "sqlite":
            text, quoted, _ = read_quotes(text, known)
            applied += ["quotes"] if quoted else []
        tree = _parsed(text, dialect)
        names = Names(known, dialect, group_by_determined)
        applied += [rule.name for rule in RULES if dialect in rule.dialects and rule.apply(tree, names)]
        if dialect == "duckdb" and not applied:
            return Translation(text.rstrip("; \n\t"))
        return Translation(tree.sql(dialect="duckdb", unsupported_level=sqlglot.ErrorLevel.IGNORE), tuple(applied))
    except sqlglot.errors.SqlglotError as error:
        raise TranslationError("no_parse", f"cannot be read as {dialect} SQL ({_first_line(error)})") from error
    except dates.UnknownModifierError as error:
        raise TranslationError("no_rule", f"there is no rule for {error}") from error
    except RecursionError as error:
        raise TranslationError("no_parse", "is nested too deeply") from error


def _parsed(sql: str, dialect: str) -> exp.Expr:
    first = _WORD.match(sql)
    if first is None or first[1].upper() not in _QUERIES:
        shown = f"begins with {first[1].upper()}" if first else "does not begin with a word"
        raise TranslationError("not_a_query", f"is no query: it {shown}")
    trees = [tree for tree in sqlglot.parse(sql, read=dialect) if tree is not None]
    if len(trees) != 1:
        raise TranslationError("not_a_query", f"holds {len(trees)} statements; one query is needed")
    tree = trees[0]
    if not isinstance(tree, exp.Query | exp.Values | exp.Pivot) or tree.find(exp.Into):
        raise TranslationError("not_a_query", f"is no query but {type(tree).__name__.upper()}")
    return tree


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]

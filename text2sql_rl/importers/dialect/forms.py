"""The DuckDB expressions that several rules write in place of what SQLite does by itself.

In: an expression and its kind. Out: a new expression; the one given is used up. Not here: when to write them.
"""

from __future__ import annotations

import re

from sqlglot import exp

from text2sql_rl.importers.dialect.values import Kind

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_PREFIX = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"


def try_number(node: exp.Expr) -> exp.Expr:
    """The text as a number; NULL where it is none."""
    return exp.TryCast(this=node, to=exp.DataType.build("double"))


def number_or_last(node: exp.Expr, nullable: bool, reads: bool = True) -> exp.Expr:
    """The text as a number where it reads as one, else what is greater than every number, as texts are in SQLite.

    Args:
        node: a text.
        nullable: whether it may be NULL, which stays NULL.
        reads: false where SQLite does not try to read it as a number.
    """
    last = exp.cast(exp.Literal.string("inf"), "double")
    value = exp.func("COALESCE", try_number(node.copy()), last) if reads else last
    if not nullable:
        return value
    return exp.Case().when(exp.Is(this=node, expression=exp.Null()), exp.Null()).else_(value)


def prefix_number(node: exp.Expr, kind: Kind) -> exp.Expr:
    """The number a text begins with, 0 where it begins with none: what SQLite calculates with."""
    inner: exp.Expr = node.this
    if isinstance(node, exp.Cast) and node.is_type("text") and _is_whole(inner):
        return inner  # seconds since 1970, which were written as text
    if isinstance(node, exp.Anonymous) and kind.clean:
        return exp.TryCast(this=node, to=exp.DataType.build("bigint"))  # one part of a date
    if kind.clean:
        return try_number(node)
    digits = exp.Anonymous(this="REGEXP_EXTRACT", expressions=[node.copy(), exp.Literal.string(_PREFIX)])
    value = exp.func("COALESCE", try_number(digits), exp.Literal.number(0))
    if not kind.nullable:
        return value
    return exp.Case().when(exp.Is(this=node, expression=exp.Null()), exp.Null()).else_(value)


def _is_whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.is_type("bigint")


def as_text(node: exp.Expr) -> exp.Expr:
    """A number as its text; a literal becomes one."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return exp.Literal.string(node.this)
    return exp.cast(node, "text")


def as_whole(node: exp.Expr) -> exp.Expr:
    """A truth value as 0 or 1."""
    return exp.cast(node, "int")


def written_number(node: exp.Expr) -> str:
    """The number a text literal reads as, in SQL; empty where it reads as none or is no literal."""
    if isinstance(node, exp.Literal) and node.is_string and _NUMBER.fullmatch(node.this):
        return str(node.this).strip().lstrip("+")
    return ""

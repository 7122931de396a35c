"""Whether a statement says anything otherwise than its gold: by their words, in some microseconds.

In: two statements and the schema. Out: a yes or no, and the words. Not here: what it means, rows (aimed.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from text2sql_rl.records import Table
from text2sql_rl.sandbox.names import words

_TOKEN = re.compile(
    r"(\$\w*\$).*?\1|[<>=!]+|'(?:[^']|'')*'|\d[\d.]*(?:e[+-]?\d+)?|[^\W\d]\w*(?:\s*\()?|\|\||[-+/%]"
    r"|\*(?=\s*[\w(])(?!\s*(?:from|exclude|replace)\b)",  # times, not all columns
    re.IGNORECASE | re.DOTALL,
)
# Words that change what a statement means; those that only lay it out are no functions where a bracket follows.
_TELLING = words(
    "all and any anti between case cross desc distinct except exists false filter full group having ilike in intersect"
    " is left like limit natural not null offset or outer over qualify right semi some true union using where"
)
_JOINING = words("and or")
_LAYOUT = words("as by else end from inner join on order select then values when with")


def says_otherwise(sql: str, gold_sql: str, tables: Sequence[Table]) -> bool:
    """Whether one statement holds a literal, operator, name of the schema, function or telling word the other lacks.

    Names that either makes up (aliases) do not count, nor does where NULLs are put: engines differ in their default.
    """
    apart = tokens(sql) ^ tokens(gold_sql)
    joining = (tokens(sql) | tokens(gold_sql)) & _JOINING
    if apart <= joining and len(joining) < len(_JOINING):
        return False  # the same conditions, said twice; beside AND, an OR means something else
    if any(token[0] in "'$0123456789<>=!+-*/%|" or token[-1] == "(" or token in _TELLING for token in apart):
        return True
    return bool(apart & _names(tuple(tables)))


@lru_cache(maxsize=4096)
def tokens(sql: str) -> frozenset[str]:
    """Literals, words, and functions with their bracket; in small letters."""
    found = set()
    for match in _TOKEN.finditer(sql):
        literal = match[0][0] in "'$"
        word, bracket, _ = (match[0], "", "") if literal else match[0].lower().partition("(")
        word = word.rstrip()
        found.add(f"{word}(" if bracket and word not in _TELLING | _LAYOUT else word)
    return frozenset(found)


@lru_cache(maxsize=64)
def _names(tables: tuple[Table, ...]) -> frozenset[str]:
    return frozenset(
        word.lower()
        for table in tables
        for name in (table.name, *(column.name for column in table.columns))
        for word in re.findall(r"\w+", name)
    )

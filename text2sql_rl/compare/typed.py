"""Whether a statement's answer is typed in rather than read.

In: a candidate's and a gold's SQL. Out: true when every column the candidate returns can only be literals of its own
text, however they are wrapped (traced.py), or when it returns nothing whatever the rows are, although the gold reads
its columns. Literals that stand in the gold's own text (`SELECT 'ops' ... WHERE dept = 'ops'`) are not held against
anyone. Not here: answers that read a table and still only guess; other instances find those out.
"""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from sqlglot import exp

from text2sql_rl.compare.traced import traced

_LITERAL = re.compile(r"['$0-9]|\b(?:true|false|null)\b", re.IGNORECASE)
# A select list that begins with a star, a common aggregate or a plain column: seen without parsing.
_BEGINS_READING = re.compile(
    r"[\s(]*SELECT\s+(?:DISTINCT\s+)?(?:\*|(?:count|sum)\s*\("
    r"|(?:avg|min|max)\s*\(\s*(?:DISTINCT\s+)?(?!null\b|true\b|false\b|current_|local|session_|user\b)"
    r"[^\W\d]\w*\s*[.)]"
    r"|(?!null\b|true\b|false\b|current_|local|session_|user\b)[^\W\d]\w*\s*(?:[,.]|(?<=\s)(?:AS|FROM)\b))",
    re.IGNORECASE,
)
# What may stand for a table, with columns of constants: then the text is parsed. All in small letters.
_ROWS_OF_THEIR_OWN = ("values", "unnest", "range", "generate_series", "repeat", "json_", "pivot", "--", "/*")
_SUBQUERY_AS_SOURCE = ("from (", "from(", "join (", "join(", "lateral (", "lateral(", ", (", ",(")
_SETS = ("union", "intersect", "except")
_SET_OPERATION = re.compile(r"\b(?:union|intersect|except)(?:\s+all)?\b")


def typed_in(sql: str, gold_sql: str, *, proves_little: bool = False) -> bool:
    """True when `sql` answers with constants of its own where `gold_sql` does not.

    Args:
        sql: the candidate's text.
        gold_sql: the gold's text.
        proves_little: the answer is what an empty selection gives; then a text that can only give that is looked for.
    """
    if sql == gold_sql:
        return False
    if not proves_little and (not _LITERAL.search(sql) or _plainly_reads(sql)):
        return False
    found = _constants(sql)
    return bool(found) and not _constants(gold_sql) and not _excused(found, _literals(gold_sql))


def _plainly_reads(sql: str) -> bool:
    """Whether each SELECT of the answer begins with a column of a table; false where only parsing could tell."""
    if not _BEGINS_READING.match(sql):
        return False
    text = " ".join(sql.lower().split())
    # Plain loops over few words: this runs for every right answer, and a generator costs more than they do.
    for word in _ROWS_OF_THEIR_OWN:
        if word in text:
            return False
    if "(" in text:
        for word in _SUBQUERY_AS_SOURCE:
            if word in text:
                return False
    if not any(word in text for word in _SETS):
        return True
    return all(_BEGINS_READING.match(side) for side in _SET_OPERATION.split(text)[1:])


def _excused(found: frozenset[str], own: frozenset[str]) -> bool:
    """Whether all constants stand in the gold's text. NULL beside others is no answer: unions are padded with it."""
    return (found - {"null"} if len(found) > 1 else found) <= own


@lru_cache(maxsize=4096)
def _literals(sql: str) -> frozenset[str]:
    """What a gold's text speaks of: its literals but those of LIMIT, and NULL where it asks for NULL."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return frozenset()
    found = {
        str(node.this) for node in tree.find_all(exp.Literal) if not isinstance(node.parent, exp.Limit | exp.Offset)
    }
    found |= {node.sql().lower() for node in tree.find_all(exp.Boolean)}
    asked = [node.parent for node in tree.find_all(exp.Null) if isinstance(node.parent, exp.Is)]
    return frozenset(found | ({"null"} if any(not isinstance(node.parent, exp.Not) for node in asked) else set()))


# A policy repeats itself, and so do the questions it is asked.
@lru_cache(maxsize=4096)
def _constants(sql: str) -> frozenset[str]:
    """The texts of the literals that the whole answer is made of; empty where a column reads, or none is a literal."""
    try:
        return traced(sqlglot.parse_one(sql, dialect="duckdb")) or frozenset()
    except (sqlglot.errors.SqlglotError, RecursionError):
        return frozenset()

"""SQL with its names and literals replaced by placeholders, and back: the answers of the slot style.

In: DuckDB SQL and the placeholders of one prompt. Out: a line of tokens such as `SELECT C3 FROM T1 WHERE C9 = V0`,
or None where the placeholders cannot express the SQL (aliases, common table expressions, a literal that the
question does not mention). `restore` never fails: what is no placeholder stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import sqlglot
from sqlglot import exp

from text2sql_rl.prompts.linking import sql_text

_TOKEN = re.compile(r"[A-Za-z_]\w*|<=|>=|!=|<>|\d+(?:\.\d+)?|\S")
_MARKS = {"CONTAINS_": "%{}%", "PREFIX_": "{}%", "SUFFIX_": "%{}"}
_FUNCTIONS = frozenset(
    ("COUNT", "SUM", "AVG", "MIN", "MAX", "YEAR", "MONTH", "DAY", "EXTRACT", "CAST", "LOWER", "UPPER", "LENGTH")
)
_SMALL = frozenset(str(number) for number in range(11))


def to_slots(sql: str, restore: Mapping[str, str]) -> str | None:
    """DuckDB SQL -> a line of tokens, or None where the placeholders cannot express it.

    Args:
        sql: one query over `database`.
        restore: placeholder -> SQL text, as in the prompt.
    """
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return None
    slots = {text.lower(): token for token, text in restore.items() if token[0] in "TC"}
    literals = {text: token for token, text in restore.items() if token[0] in "VND"}
    if tree.find(exp.With, exp.TableAlias, exp.Alias) is not None:
        return None
    replacements: list[tuple[exp.Expression, exp.Expression]] = []
    for node in tree.find_all(exp.Column, exp.Table, exp.Literal):
        token = _slot(node, slots, literals)
        if token is None:
            return None
        replacements.append((node, exp.Var(this=token)))
    for node, var in replacements:
        if node is tree:
            return None
        node.replace(var)
    return " ".join(_TOKEN.findall(tree.sql(dialect="duckdb")))


def _slot(node: exp.Expression, slots: Mapping[str, str], literals: Mapping[str, str]) -> str | None:
    if isinstance(node, exp.Table):
        return slots.get(_quoted(node.name).lower())
    if isinstance(node, exp.Literal):
        return _literal(node, literals)
    if isinstance(node.this, exp.Star):
        return None
    owner = node.args.get("table")
    if owner is not None:
        return slots.get(f"{_quoted(owner.name)}.{_quoted(node.name)}".lower())
    scope = node.parent_select
    while scope is not None:
        for table in _sources(scope):
            found = slots.get(f"{_quoted(table)}.{_quoted(node.name)}".lower())
            if found is not None:
                return found
        scope = scope.parent_select
    return None


def _sources(select: exp.Expression) -> list[str]:
    clauses = [select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or [])]
    return [clause.this.name for clause in clauses if clause is not None and isinstance(clause.this, exp.Table)]


def _literal(node: exp.Literal, literals: Mapping[str, str]) -> str | None:
    if not node.is_string:
        for text, token in literals.items():
            if token[0] == "N" and _equal(text, node.name):
                return token
        return node.name if node.name in _SMALL else None
    value = node.name
    exact = literals.get(sql_text(value))
    if exact is not None or not isinstance(node.parent, exp.Like | exp.ILike):
        return exact
    for mark, pattern in (("CONTAINS_", r"%(.+)%"), ("PREFIX_", r"(.+)%"), ("SUFFIX_", r"%(.+)")):
        found = re.fullmatch(pattern, value)
        inner = literals.get(sql_text(found[1])) if found else None
        if inner is not None:
            return f"{mark} {inner}"
    return None


def _equal(left: str, right: str) -> bool:
    return left == right or float(left) == float(right)


def _quoted(name: str) -> str:
    """The identifier as SQL text: bare where DuckDB reads it so, quoted otherwise."""
    return exp.to_identifier(name).sql(dialect="duckdb")


def identifier(table: str, column: str | None = None) -> str:
    """The SQL text of a table, or of a column with its table."""
    return _quoted(table) if column is None else f"{_quoted(table)}.{_quoted(column)}"


def from_slots(raw: str, restore: Mapping[str, str]) -> str:
    """A line of tokens -> SQL text. Columns keep their table's name only where several tables are read."""
    tokens = raw.split()
    several = len({token for token in tokens if token in restore and token[0] == "T"}) > 1
    sql, before, mark = "", "", ""
    for token in tokens:
        if token in _MARKS:
            mark = token
            continue
        text = restore.get(token, token)
        if mark and text.startswith("'"):
            text = "'" + _MARKS[mark].format(text[1:-1]) + "'"
        elif token in restore and token[0] == "C" and not several:
            text = text[_dot(text) + 1 :]
        glue = text in (")", ",") or before in ("(", "") or (text == "(" and before in _FUNCTIONS)
        sql += text if glue else f" {text}"
        before, mark = text, ""
    return sql


def _dot(text: str) -> int:
    """Where the table's name ends in `table.column`, quoted names included."""
    quoted = False
    for at, letter in enumerate(text):
        quoted ^= letter == '"'
        if letter == "." and not quoted:
            return at
    return -1

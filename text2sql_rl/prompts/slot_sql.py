"""SQL with its names and literals replaced by placeholders, and back: the answers of the slot style.

In: DuckDB SQL and the placeholders of one prompt. Out: a line of tokens such as `SELECT C3 FROM T1 WHERE C9 = V0`,
or None where the placeholders cannot express the SQL (aliases, common table expressions, a literal that the
question does not mention). An inner join along the one declared key between two tables is `T1 + T2`. `restore`
never fails: what is no placeholder stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import sqlglot
from sqlglot import exp

from text2sql_rl.prompts.linking import sql_text
from text2sql_rl.records import Table

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
    slots = {text.lower(): token for token, text in restore.items() if token[0] in "TC" and "+" not in token}
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
    tokens = " ".join(_TOKEN.findall(tree.sql(dialect="duckdb")))
    return _short_joins(tokens, slots, restore)


def _short_joins(answer: str, slots: Mapping[str, str], restore: Mapping[str, str]) -> str:
    """`T1 INNER JOIN T2 ON C3 = C4` -> `T1 + T2` where that is the declared key."""
    for pair, condition in restore.items():
        first, plus, second = pair.partition("+")
        if plus:
            left, right = (slots.get(side.lower(), "") for side in condition.split(" = "))
            for on in (f"{left} = {right}", f"{right} = {left}"):
                answer = answer.replace(f" INNER JOIN {second} ON {on}", f" + {second}")
                answer = answer.replace(f" INNER JOIN {first} ON {on}", f" + {first}")
    return answer


def joins(tables: Sequence[Table], tokens: Mapping[str, str]) -> dict[str, str]:
    """What `T1 + T2` stands for: the condition of each pair of tables with exactly one declared one-column key."""
    found: dict[str, list[str]] = {}
    for table in tables:
        for key in table.foreign_keys:
            if key.table in tokens and key.table != table.name:
                pair = "+".join(sorted((tokens[table.name], tokens[key.table])))
                sides = zip(key.columns, key.references, strict=True)
                condition = " AND ".join(
                    f"{identifier(table.name, own)} = {identifier(key.table, its)}" for own, its in sides
                )
                found.setdefault(pair, []).append(condition)
    return {pair: only[0] for pair, only in found.items() if len(only) == 1 and " AND " not in only[0]}


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


@lru_cache(maxsize=65_536)
def _quoted(name: str) -> str:
    """The identifier as SQL text: bare where DuckDB reads it so, quoted otherwise."""
    return exp.to_identifier(name).sql(dialect="duckdb")


def identifier(table: str, column: str | None = None) -> str:
    """The SQL text of a table, or of a column with its table."""
    return _quoted(table) if column is None else f"{_quoted(table)}.{_quoted(column)}"


def from_slots(raw: str, restore: Mapping[str, str]) -> str:
    """A line of tokens -> SQL text. Columns keep their table's name only where several tables are read."""
    tokens = _long_joins(raw.split(), restore)
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


def _long_joins(tokens: list[str], restore: Mapping[str, str]) -> list[str]:
    """`T1 + T2` -> `T1 INNER JOIN T2 ON <condition>`, along the key to the nearest table before it."""
    out: list[str] = []
    read: list[str] = []
    for at, token in enumerate(tokens):
        if token == "FROM":
            read = []
        if token == "+" and at + 1 < len(tokens):
            pairs = ("+".join(sorted((before, tokens[at + 1]))) for before in reversed(read))
            condition = next((restore[pair] for pair in pairs if pair in restore), "")
            out += ["INNER", "JOIN", tokens[at + 1], "ON", condition] if condition else [token]
            continue
        if not (at and tokens[at - 1] == "+" and out[-2:-1] == ["ON"]):
            out.append(token)
        if token[0] == "T" and token in restore:
            read.append(token)
    return out


def _dot(text: str) -> int:
    """Where the table's name ends in `table.column`, quoted names included."""
    quoted = False
    for at, letter in enumerate(text):
        quoted ^= letter == '"'
        if letter == "." and not quoted:
            return at
    return -1

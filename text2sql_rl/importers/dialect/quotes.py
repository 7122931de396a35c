"""Double-quoted texts: SQLite takes "x" for a text where it names no column, DuckDB always for a name.

In: SQL as written, the schema. Out: the same SQL with 'x' in the places where SQLite reads a text. It works on tokens,
before parsing, since functions are parsed by their literals (strftime("%Y", d)). Names of tables, aliases and what
stands beside a dot stay names. Also here, because it must be done before parsing as well: SQLite's date functions are
renamed, so that they arrive at the rule `dates` as they were written. Not here: `x` and [x], which sqlglot reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import sqlglot
from sqlglot.tokenizer_core import Token, TokenType

from text2sql_rl.importers.dialect.values import Schema

DATE_FUNCTIONS = ("date", "time", "datetime", "julianday", "strftime", "unixepoch")
DATE_PREFIX = "sqlite_"

# After these, a name in double quotes is an alias or the name of a table, a collation, a window.
_NAMES_FOLLOW = {"as", "from", "join", "into", "update", "table", "collate", "over", "window", "using", "with"}
_ENDS_VALUE = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.NUMBER, TokenType.STRING}


def read_quotes(sql: str, schema: Schema) -> tuple[str, int, int]:
    """The SQL with texts for double-quoted texts; how many were texts, and how many date functions were renamed.

    Raises:
        sqlglot.errors.TokenError: the SQL cannot be split into tokens.
    """
    tokens = sqlglot.tokenize(sql, read="sqlite")
    known = _columns(tokens, schema)
    pieces: list[str] = []
    end = texts = dates = 0
    for at, token in enumerate(tokens):
        new = None
        if sql[token.start] == '"' and token.token_type is TokenType.IDENTIFIER:
            if _is_text(tokens, at, known):
                new, texts = _literal(token.text), texts + 1
        elif token.text.lower() in DATE_FUNCTIONS and _calls(tokens, at):
            new, dates = DATE_PREFIX + token.text.lower(), dates + 1
        if new is not None:
            pieces += [sql[end : token.start], new]
            end = token.end + 1
    return "".join([*pieces, sql[end:]]), texts, dates


def _columns(tokens: Sequence[Token], schema: Schema) -> set[str]:
    """Lower-cased names that may be columns here: of the tables the SQL names, and its aliases."""
    words = {token.text.lower() for token in tokens}
    known = {name for table, relation in schema.relations.items() if table in words for name in relation.columns}
    for before, token in pairwise(tokens):
        if before.text.lower() == "as" and token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            known.add(token.text.lower())
    return known


def _is_text(tokens: Sequence[Token], at: int, known: set[str]) -> bool:
    token = tokens[at]
    before = tokens[at - 1] if at else None
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    if token.text.lower() in known:
        return False
    if any(near is not None and near.token_type in (TokenType.DOT,) for near in (before, after)):
        return False
    if after is not None and after.token_type is TokenType.L_PAREN:
        return False
    if before is None or (before.text.lower() in _NAMES_FOLLOW and before.token_type is not TokenType.STRING):
        return False
    if before.token_type is TokenType.COMMA and _in_from(tokens, at):
        return False
    return before.token_type not in _ENDS_VALUE


def _in_from(tokens: Sequence[Token], at: int) -> bool:
    """Whether a comma before this token separates tables: FROM is the nearest clause at this depth."""
    depth = 0
    for token in reversed(tokens[:at]):
        depth += (token.token_type is TokenType.R_PAREN) - (token.token_type is TokenType.L_PAREN)
        if depth < 0:
            return False
        if depth == 0 and token.text.lower() in ("select", "where", "by", "having", "on", "values"):
            return False
        if depth == 0 and token.token_type is TokenType.FROM:
            return True
    return False


def _calls(tokens: Sequence[Token], at: int) -> bool:
    before = tokens[at - 1].token_type if at else None
    return at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.L_PAREN and before is not TokenType.DOT


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

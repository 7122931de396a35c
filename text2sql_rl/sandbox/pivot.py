"""PIVOT with values taken from the data, made into a text that DuckDB can show as a tree.

In: SQL text of which DuckDB's parser makes several statements. Out: the same text with each pivoted expression `c`
that has no list of values written as `(c) IN ('')`. DuckDB makes several statements of `PIVOT t ON c USING ...` (it
first reads the values into a type), and those have no JSON form; with a list of values it is one statement and has
one. The two texts hold the same tokens but for the lists, so the tables and functions in the second one's tree are
those of the first. The original is what runs.

Not here: the decision (gate.py). A text that this cannot complete stays several statements, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from text2sql_rl.sandbox.names import words

_ENDS = words("USING GROUP ORDER LIMIT OFFSET UNION EXCEPT INTERSECT WHERE QUALIFY HAVING WINDOW")
_BEFORE, _AFTER = b" (", b") IN ('') "


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    word: str
    """Upper-cased when the token is a bare word, a single operator sign, or empty for literals and comments."""


def _tokens(sql: str) -> list[_Token]:
    encoded = sql.encode()
    found = duckdb.tokenize(sql)
    starts = [start for start, _ in found] + [len(encoded)]
    tokens = []
    for (start, kind), end in zip(found, starts[1:], strict=True):
        text = encoded[start:end].decode().rstrip()
        if kind is duckdb.token_type.operator:
            tokens += [_Token(start + at, sign) for at, sign in enumerate(text) if not sign.isspace()]
        elif kind is duckdb.token_type.comment:
            tokens.append(_Token(start, ""))
        elif kind in (duckdb.token_type.keyword, duckdb.token_type.identifier):
            tokens.append(_Token(start, text.upper() if text.isidentifier() else "word"))
        else:
            tokens.append(_Token(start, "literal"))
    return [*tokens, _Token(len(encoded), ";")]


def with_values(sql: str) -> str:
    """`sql` with a list of values after each pivoted expression that lacks one; see the module."""
    tokens = _tokens(sql)
    places: list[tuple[int, bytes]] = []
    for at, token in enumerate(tokens):
        if token.word in ("PIVOT", "PIVOT_WIDER"):
            places += _places(tokens, at + 1)
    encoded = sql.encode()
    for place, text in sorted(set(places), reverse=True):
        encoded = encoded[:place] + text + encoded[place:]
    return encoded.decode()


def _places(tokens: list[_Token], at: int) -> list[tuple[int, bytes]]:
    """What is to be put at which byte offset in the pivot clause that begins at token `at`."""
    depth, begin, end, has_list = 0, 0, 0, False
    places = []
    for here, token in enumerate(tokens[at:], at):
        word = token.word
        closing = depth == 0 and (word in _ENDS or word in (")", ";"))
        if begin and depth == 0 and (closing or word == ","):
            if not has_list:
                places += [(begin, _BEFORE), (end, _AFTER)]
            has_list, begin = False, tokens[here + 1].start if word == "," else begin
        if closing:
            break
        if depth == 0 and word == "ON":
            begin = tokens[here + 1].start
        elif depth == 0 and word == "IN":
            has_list = True
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if word:
            end = tokens[here + 1].start
    return places

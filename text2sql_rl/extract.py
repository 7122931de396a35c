"""Completion text -> the one candidate in it, or a named reason why there is none.

In: the text of a completion, after the prompt style's way back. Out: a `Candidate`. Accepted forms: bare SQL; one
fenced block; `<answer>` or `<sql>` tags, also around a fence; any of these after reasoning that ends in `</think>`.
Reasons for none: `empty` (nothing there, or an empty block), `no_sql` (text that does not begin as a statement),
`unclosed` (a block or a thought that was opened and never closed).

Not done here: parsing, running or judging SQL. What begins like a statement is handed on as it is, also when it is
forbidden or broken, so that the sandbox can refuse it by name. SQL hidden in prose or in inline code is not searched.
The time taken is linear in the length of the text, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from text2sql_rl.records import Candidate

# Statements the sandbox refuses are listed too: `DROP TABLE` is a refusal, not a missing answer.
# fmt: off
_STATEMENTS = frozenset((
    "select", "with", "from", "values", "table", "pivot", "unpivot", "describe", "desc", "show", "summarize",
    "explain", "pragma", "set", "reset", "insert", "update", "delete", "merge", "replace", "create", "drop",
    "alter", "truncate", "copy", "export", "import", "attach", "detach", "use", "install", "load", "call",
    "execute", "prepare", "deallocate", "begin", "start", "commit", "rollback", "abort", "checkpoint", "force",
    "vacuum", "analyze", "comment", "grant", "revoke",
))
# fmt: on
_SQL_LANGUAGES = frozenset(("sql", "duckdb", "sqlite", "sqlite3", "postgres", "postgresql", "mysql", "tsql", "plsql"))

# A hostile text can open thousands of blocks; more than this many are more answers than one in any case.
_MAX_BLOCKS = 16

_MARK = re.compile(r"'|\"|`+|--|/\*|\$|;|</?(?:think|answer|sql)>", re.IGNORECASE)
_WRAPPER = re.compile(r"`{3,}|</?(?:think|answer|sql)>", re.IGNORECASE)
_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)
_OPENER = re.compile(r"`{3,}|<(?:answer|sql)>", re.IGNORECASE)
_LEAD = re.compile(r"\s*(?:(?:`{3,}\w*|<answer>|<sql>)\s*)*+", re.IGNORECASE)
_NESTING = re.compile(r"/\*|\*/")
_DOLLAR = re.compile(r"\$(?:[A-Za-z_]\w*)?\$")
_CONTRACTION = re.compile(r"'(?:s|t|re|ll|ve|d|m)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]\w*")
_INFO = re.compile(r"[ \t]*([A-Za-z0-9_+.#-]*)")


class _Mark(NamedTuple):
    """A place the scan stops at: `;`, a fence, a tag (lower case), or a `literal`, `comment` or `unclosed` span."""

    kind: str
    start: int
    end: int


class _Found(NamedTuple):
    """What one stretch of text holds: its SQL, the distinct statements in it, whether there is nothing beside them.

    `ended` is true when a semicolon closes the last statement.
    """

    sql: str
    fingerprints: tuple[str, ...]
    clean: bool
    ended: bool


def extract(text: str) -> Candidate:
    """Find the one answer in a completion.

    Several different answers are counted in `answers` and the first is kept as `sql`; where they stand in one block
    the whole block is kept, so that the sandbox sees every statement. Repeats of the same answer (up to white space,
    case and comments) count once and make the completion not clean.

    Args:
        text: the completion's text; any string, of any length.

    Returns:
        A candidate with `sql` set, or with `sql=None` and one of the reasons `empty`, `no_sql`, `unclosed`.
    """
    body = _after_reasoning(text)
    if body is None:
        return Candidate(sql=None, reason="unclosed", clean=False)
    body = body.strip()
    if not body:
        return Candidate(sql=None, reason="empty", clean=False)
    bare = _begins_as_statement(body)
    first = _first_opener(body, as_sql=bare)
    if first is None:
        found = _statements(body) if bare else None
        if found is None:
            return Candidate(sql=None, reason="no_sql", clean=False)
        return Candidate(sql=found.sql, answers=len(found.fingerprints), clean=found.clean)
    return _from_blocks(body, first, bare=bare)


def _after_reasoning(text: str) -> str | None:
    """The text after the first closed thought; None when a thought is opened and never closed."""
    tag = _THINK.search(text)
    if tag is None or _is_data(text, tag.start()):
        return text
    if tag.group(1):
        return text[tag.end() :]
    close = re.compile("</think>", re.IGNORECASE).search(text, tag.end())
    return None if close is None else text[close.end() :]


def _is_data(text: str, position: int) -> bool:
    """Whether `position` lies inside a closed literal of SQL that the text begins with, bare or in a block."""
    lead = _LEAD.match(text)
    start = lead.end() if lead else 0
    if not _begins_as_statement(text[start:]):
        return False
    for mark in _marks(text, start):
        if mark.start <= position < mark.end:
            return mark.kind == "literal"
        if mark.kind not in ("literal", "comment", ";"):
            return False
    return False


def _first_opener(body: str, *, as_sql: bool) -> int | None:
    """Position of the first fence or opening tag; in a text that begins as SQL, those inside literals are data."""
    raw = _OPENER.search(body)
    if raw is None:
        return None
    if as_sql:
        for mark in _marks(body, 0):
            if mark.kind == "unclosed":
                break  # apostrophes of prose: the reading as SQL cannot be trusted
            if mark.kind in ("fence", "<answer>", "<sql>"):
                return mark.start
        else:
            return None
    return raw.start()


def _from_blocks(body: str, first: int, *, bare: bool) -> Candidate:
    """Collect the answers of all blocks from `first` on, and of a finished statement before it."""
    answers: list[_Found] = []
    before = body[:first].strip()
    clean, unclosed, empty = not before, False, False
    # Prose may begin with "Select" or "With"; only a semicolon tells that a statement ended there.
    if bare and (lead := _statements(before)) is not None and lead.ended:
        answers.append(lead)
    position, blocks = first, 0
    while (opener := _OPENER.search(body, position)) is not None:
        if body[position : opener.start()].strip():
            clean = False
        blocks += 1
        if blocks > _MAX_BLOCKS:
            clean = False
            break
        closer = _closer(body, opener)
        content = _content(body[opener.end() : closer.start if closer else len(body)], opener.group())
        found = None if content is None else _unwrapped(content)
        if closer is None:
            # The cut-off second answer still counts as one; alone it is no answer.
            unclosed, clean, position = True, False, len(body)
            if answers and found is not None:
                answers.append(found)
            break
        position = closer.end
        if found is not None:
            answers.append(found)
        else:
            clean = False
            empty = empty or (content is not None and not content.strip())
            if opener.group().startswith("<"):
                position = opener.end()  # "in <sql> tags: <sql>SELECT ..." names the tag before it uses it
    if body[position:].strip():
        clean = False
    if not answers:
        return Candidate(sql=None, reason="unclosed" if unclosed else "empty" if empty else "no_sql", clean=False)
    distinct = {print_ for found in answers for print_ in found.fingerprints}
    clean = clean and len(answers) == 1 and answers[0].clean
    return Candidate(sql=answers[0].sql, answers=len(distinct), clean=clean)


def _closer(body: str, opener: re.Match[str]) -> _Mark | None:
    """The end of the block: the first fence or closing tag outside literals, else the first of any kind."""
    fence = opener.group().startswith("`")
    wanted = "fence" if fence else "</" + opener.group()[1:].lower()
    for mark in _marks(body, opener.end()):
        if mark.kind == "unclosed":
            break
        if mark.kind == wanted:
            return mark
    raw = re.compile("`{3,}" if fence else re.escape(wanted), re.IGNORECASE).search(body, opener.end())
    return None if raw is None else _Mark(wanted, raw.start(), raw.end())


def _content(inside: str, opener: str) -> str | None:
    """The block's text without a fence's language; None when the fence names another language."""
    info = _INFO.match(inside)
    if not opener.startswith("`") or info is None:
        return inside
    language, after = info.group(1).lower(), inside[info.end() : info.end() + 1]
    if language in _SQL_LANGUAGES and (not after or after.isspace()):
        return inside[info.end() :]
    if language and after in ("\n", "\r") and language not in _STATEMENTS:
        return None
    return inside


def _unwrapped(content: str) -> _Found | None:
    """The statements of a block's content, looking through one fence or tag inside a tag."""
    inner = content.strip()
    opener = _OPENER.match(inner)
    for _ in range(2):
        if opener is None or (closer := _closer(inner, opener)) is None or inner[closer.end :].strip():
            break
        inside = _content(inner[opener.end() : closer.start], opener.group())
        if inside is None:
            return None
        inner = inside.strip()
        opener = _OPENER.match(inner)
    return _statements(inner)


def _statements(text: str) -> _Found | None:
    """The leading statements of a text, split only at semicolons that are SQL's own; None when it begins otherwise."""
    spans: list[tuple[int, int]] = []
    start = 0
    for mark in (*_marks(text, 0), _Mark(";", len(text), len(text))):
        if mark.kind == ";":
            spans.append((start, mark.start))
            start = mark.end
    spans = [(a, b) for a, b in spans if not _is_blank(text[a:b])]
    leading = 0
    while leading < len(spans) and _begins_as_statement(text[slice(*spans[leading])]):
        leading += 1
    if not leading:
        return None
    prints = tuple(dict.fromkeys(_fingerprint(text[a:b]) for a, b in spans[:leading]))
    end = spans[leading - 1][1] if len(prints) > 1 else spans[0][1]
    return _Found(text[spans[0][0] : end].strip(), prints, len(spans) == 1, spans[leading - 1][1] < len(text))


def _after_comments(text: str) -> int:
    """Position of the first character that is neither white space, an opening parenthesis nor a comment."""
    position = 0
    while position < len(text):
        if text[position].isspace() or text[position] == "(":
            position += 1
        elif text.startswith("--", position):
            end = text.find("\n", position)
            position = len(text) if end < 0 else end + 1
        elif text.startswith("/*", position):
            position = _comment_end(text, position) or len(text)
        else:
            break
    return position


def _is_blank(text: str) -> bool:
    return _after_comments(text) == len(text)


def _begins_as_statement(text: str) -> bool:
    word = _WORD.match(text, _after_comments(text))
    return word is not None and word.group().lower() in _STATEMENTS


def _fingerprint(sql: str) -> str:
    """The statement without comments and white space, lower case outside literals: equal for the same answer."""
    parts, position = [], 0
    for mark in (*_marks(sql, 0), _Mark("comment", len(sql), len(sql))):
        if mark.kind in ("literal", "comment"):
            parts.append("".join(sql[position : mark.start].lower().split()))
            parts.append(sql[mark.start : mark.end] if mark.kind == "literal" else "")
            position = mark.end
    return "".join(parts)


def _comment_end(text: str, start: int) -> int | None:
    """End of the block comment that starts at `start`, with nesting as DuckDB has it; None when unclosed."""
    depth = 0
    for edge in _NESTING.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


def _marks(text: str, start: int) -> Iterator[_Mark]:
    """Scan `text` as SQL from `start`; stops after an `unclosed` mark. One pass: no position is visited twice."""
    position = start
    while (found := _MARK.search(text, position)) is not None:
        token, at = found.group(), found.start()
        position = found.end()
        if token == ";":
            yield _Mark(";", at, position)
        elif token.startswith("<"):
            yield _Mark(token.lower(), at, position)
        elif token.startswith("```"):
            yield _Mark("fence", at, position)
        elif token == "--":
            newline = text.find("\n", position)
            end = len(text) if newline < 0 else newline
            yield _Mark("comment", at, end)
            # A fence or tag that ends the block on the comment's own line still ends it.
            for wrapper in _WRAPPER.finditer(text, position, end):
                kind = "fence" if wrapper.group().startswith("`") else wrapper.group().lower()
                yield _Mark(kind, wrapper.start(), wrapper.end())
            position = end
        elif token == "/*":
            closed = _comment_end(text, at)
            yield _Mark("unclosed" if closed is None else "comment", at, closed or len(text))
            if closed is None:
                return
            position = closed
        else:
            end_of = _literal_end(text, at, token)
            if end_of is None:
                yield _Mark("unclosed", at, len(text))
                return
            if end_of > at:
                yield _Mark("literal", at, end_of)
                position = end_of


def _literal_end(text: str, at: int, token: str) -> int | None:
    """End of the literal or quoted name that opens at `at`; `at` itself when nothing opens; None when unclosed."""
    before = text[at - 1] if at else ""
    if token == "$":
        tag = _DOLLAR.match(text, at)
        if tag is None or before.isalnum() or before in ("_", "$"):
            return at
        close = text.find(tag.group(), tag.end())
        return None if close < 0 else close + len(tag.group())
    if token == "``":
        return at
    if token == "'" and before in ("e", "E") and not text[at - 2 : at - 1].isalnum():
        escaped = re.compile(r"[^'\\]*(?:\\.[^'\\]*)*'", re.DOTALL).match(text, at + 1)
        return None if escaped is None else escaped.end()
    if token == "'" and before.isalpha() and _CONTRACTION.match(text, at):
        return at
    close = text.find(token, at + 1)
    return None if close < 0 else close + 1

"""Where a question names its database: spans of words that are tables, columns, stored values, numbers, dates.

In: a question's text and a `Lexicon` of one database. Out: `Mention`s in reading order that cover the text.
Linking is lexical only: equal words up to case and plural. Not here: synonyms, guesses, the gold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from text2sql_rl.records import Database

_TOKEN = re.compile(
    r"(?:(?<=^)|(?<=[\s(]))(?P<quote>['\"])(?P<quoted>.+?)(?P=quote)(?=$|[\s).,;:?!])"
    r"|(?P<date>\b\d{4}-\d{2}-\d{2}\b)"
    r"|(?P<number>(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?!\w))"
    r"|(?P<word>\w+(?:['\u2019\-.]\w+)*|[<>=!]+)"
)
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS, start=2)}


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of the question. `kind` is name, part, value, text, number, date or word.

    `key` is the lemma tuple of a name (part: of the name it is a part of); `literal` the SQL text of a literal;
    `columns` the (table, column) pairs that store the value.
    """

    kind: str
    text: str
    key: tuple[str, ...] = ()
    literal: str = ""
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What one database can be called: names as lemma tuples, and stored text values as lower-case words.

    `longest` gives, for a first word in lower case or as a lemma, the most words of what may begin with it.
    """

    names: frozenset[tuple[str, ...]]
    parts: dict[str, tuple[str, ...]]
    values: dict[tuple[str, ...], tuple[str, tuple[tuple[str, str], ...]]]
    longest: dict[str, int]


@lru_cache(maxsize=65_536)
def lemma(word: str) -> str:
    """The word in lower case without its plural ending: 'Entries' -> 'entry', 'dishes' -> 'dish'."""
    low = word.lower()
    for ending, stem in (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x")):
        if low.endswith(ending) and len(low) > len(ending) + 1:
            return low[: -len(ending)] + stem
    plain = low.endswith("s") and not low.endswith(("ss", "us", "is")) and len(low) > 2
    return low[:-1] if plain else low


@lru_cache(maxsize=65_536)
def name_key(name: str) -> tuple[str, ...]:
    """A table or column name as lemmas: 'raceEntry' and 'race_entries' both give ('race', 'entry')."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple(lemma(part) for part in re.split(r"[\W_]+", spaced) if part)


def sql_text(value: str) -> str:
    """A Python string as a SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def build_lexicon(database: Database, values: Iterable[tuple[str, str, str]]) -> Lexicon:
    """Index one database.

    Args:
        database: its schema.
        values: (table, column, stored text) triples, in a fixed order.
    """
    names = {name_key(table.name) for table in database.tables}
    names |= {name_key(column.name) for table in database.tables for column in table.columns}
    parts: dict[str, tuple[str, ...]] = {}
    for name in sorted(names, key=lambda key: (len(key), key)):
        for word in name if len(name) > 1 else ():
            parts.setdefault(word, name)
    stored: dict[tuple[str, ...], tuple[str, tuple[tuple[str, str], ...]]] = {}
    for table, column, text in values:
        key = tuple(match.group().lower() for match in _TOKEN.finditer(text))
        if not key or len(key) > 8:
            continue
        literal, where = stored.get(key, (text, ()))
        if (table, column) not in where:
            stored[key] = (literal, (*where, (table, column)))
    longest: dict[str, int] = {}
    for key in (*names, *stored):
        longest[key[0]] = max(len(key), longest.get(key[0], 1))
    return Lexicon(frozenset(names), parts, stored, longest)


def link(text: str, lexicon: Lexicon, vocabulary: frozenset[str]) -> tuple[Mention, ...]:
    """Split a question into mentions, the longest span first.

    Args:
        text: the question.
        lexicon: of its database.
        vocabulary: lower-case words the policy knows; they are not taken for parts of names.
    """
    tokens = list(_TOKEN.finditer(text))
    mentions: list[Mention] = []
    position = 0
    while position < len(tokens):
        mention, used = _mention(tokens, position, lexicon, vocabulary)
        if mentions and _continues(mentions[-1], mention, tokens, position):
            both = f"{mentions.pop().text} {mention.text}"
            mention = Mention("text", both, literal=sql_text(both))
        mentions.append(mention)
        position += used
    return tuple(mentions)


def _continues(before: Mention, mention: Mention, tokens: Sequence[re.Match[str]], at: int) -> bool:
    """Two unquoted unknown names with one space between them are one."""
    last, this = tokens[at - 1], tokens[at]
    unknown = before.kind == mention.kind == "text" and bool(last["word"]) and bool(this["word"])
    return unknown and this.start() == last.end() + 1 and this.string[last.end()] == " "


def _mention(
    tokens: Sequence[re.Match[str]], at: int, lexicon: Lexicon, vocabulary: frozenset[str]
) -> tuple[Mention, int]:
    token = tokens[at]
    if token["quoted"] is not None:
        key = tuple(match.group().lower() for match in _TOKEN.finditer(token["quoted"]))
        _, where = lexicon.values.get(key, ("", ()))
        return Mention("value" if where else "text", token["quoted"], (), sql_text(token["quoted"]), where), 1
    word = token.group()
    most = max(lexicon.longest.get(word.lower(), 0), lexicon.longest.get(lemma(word), 0))
    for length in range(min(most, len(tokens) - at), 0, -1):
        span = [part.group() for part in tokens[at : at + length]]
        if any(part["quoted"] is not None for part in tokens[at : at + length]):
            continue
        words = " ".join(span)
        stored, where = lexicon.values.get(tuple(part.lower() for part in span), ("", ()))
        common = length == 1 and words != stored and words.lower() in vocabulary
        if where and not common and not token["number"]:
            return Mention("value", words, (), sql_text(stored), where), length
        key = tuple(lemma(part) for part in span)
        if key in lexicon.names:
            return Mention("name", words, key), length
    if token["date"]:
        return Mention("date", token.group(), (), sql_text(token.group())), 1
    if token["number"]:
        return Mention("number", token.group(), (), token.group().replace(",", "")), 1
    return _word(token.group(), first=at == 0, lexicon=lexicon, vocabulary=vocabulary), 1


def _word(word: str, *, first: bool, lexicon: Lexicon, vocabulary: frozenset[str]) -> Mention:
    low = word.lower()
    if low in _NUMBER_WORDS:
        return Mention("number", word, (), _NUMBER_WORDS[low])
    if low in vocabulary:
        return Mention("word", low)
    if lemma(word) in lexicon.parts:
        return Mention("part", word, lexicon.parts[lemma(word)])
    if (word[0].isupper() and not first) or any(letter.isdigit() for letter in word):
        return Mention("text", word, (), sql_text(word))
    return Mention("word", low)

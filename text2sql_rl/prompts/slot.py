"""The slot style: a delexicalised prompt that a small policy can learn in minutes.

In: a question and its database. Out: a line of tokens in which every table, column, stored value, number and date
is a placeholder of this prompt (T3, C17, V2, N0, D1), each name a random word W5 that stands both beside its column
and in the question. The policy answers in the same placeholders; `restore` turns them back into SQL.

    W4 T2 W9 C31 <k> W11 C5 <t> | W8 T0 ... <fk> C7 C31 <values> V1 C5 <ask> how many W4 with W9 over N0 <sql>

A name written only in part is `~ W9`. Placeholders are drawn per question, so no number ever means a name.
Not here: guesses about meaning. What words do not link, the policy has to learn.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from text2sql_rl.databases import sample_values
from text2sql_rl.errors import DataError
from text2sql_rl.prompts.linking import Lexicon, Mention, build_lexicon, link, name_key
from text2sql_rl.prompts.slot_sql import from_slots, identifier, to_slots
from text2sql_rl.records import Column, Database, Prompt, Question, Table

_POOL = {"T": 12, "C": 96, "W": 96, "V": 12, "N": 12, "D": 8}
_MARKS = ("|", "~", "<fk>", "<values>", "<ask>", "<sql>", *(f"<{kind}>" for kind in "kirtdbx"))
_VALUES_PER_COLUMN = 2_000


def placeholders() -> tuple[str, ...]:
    """Every token of the style that is neither a word nor SQL."""
    slots = tuple(f"{letter}{number}" for letter, size in _POOL.items() for number in range(size))
    return (*_MARKS, *slots)


@dataclass(frozen=True, slots=True)
class Variation:
    """How training varies one pair: which schema to show, in which order, which words to hide.

    `keep` gives the share of the tables and columns the answer does not need that stay; `hide` the chance that a
    function word becomes unknown; `part` that a name is marked as written in part.
    """

    keep: float = 1.0
    hide: float = 0.0
    part: float = 0.0


class SlotStyle:
    """Question + database -> Prompt, and answers both ways.

    Args:
        vocabulary: lower-case function words the policy knows; other words are read as unknown.
    """

    name = "slot"

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.vocabulary = frozenset(vocabulary)
        self._lexicons: dict[str, Lexicon] = {}
        self._answers: dict[tuple[str, str], list[str] | None] = {}
        self._mentions: dict[tuple[str, str], tuple[Mention, ...]] = {}

    def prompt(self, question: Question, database: Database) -> Prompt:
        """The question's one prompt; the same every time.

        Raises:
            DataError: the schema or the question has more names than the style has placeholders.
        """
        seed = hashlib.sha256(f"{question.id}\n{question.text}".encode()).digest()
        return self._build(question, database, random.Random(seed), Variation(), frozenset())

    def vary(
        self, question: Question, database: Database, sql: str, rng: random.Random, variation: Variation
    ) -> tuple[Prompt, str] | None:
        """One training variant of a pair: (prompt, answer), or None where the style cannot express the SQL."""
        key = question.id, sql
        if key not in self._answers:
            plain = self.prompt(question, database)
            answer = self.completion(plain, database, sql)
            named = [plain.restore.get(token, token) for token in answer.split()] if answer is not None else None
            self._answers[key] = named
        named = self._answers[key]
        if named is None:
            return None
        prompt = self._build(question, database, rng, variation, frozenset(named))
        tokens = {text: token for token, text in prompt.restore.items()}
        return prompt, " ".join(tokens.get(text, text) for text in named)

    def completion(self, prompt: Prompt, database: Database, sql: str) -> str | None:
        """The answer the policy should write for this SQL, or None where the style cannot express it."""
        return to_slots(sql, prompt.restore)

    def restore(self, prompt: Prompt, raw: str) -> str:
        """The way back: what the policy wrote -> SQL text."""
        return from_slots(raw, prompt.restore)

    def words(self, question: Question, database: Database) -> tuple[str, ...]:
        """The question's words that name nothing of its database: what a vocabulary is made of."""
        mentions = link(question.text, self._lexicon(database), frozenset())
        return tuple(m.text.lower() for m in mentions if m.kind in ("word", "part"))

    def _lexicon(self, database: Database) -> Lexicon:
        key = database.instances[0].sha256
        if key not in self._lexicons:
            self._lexicons[key] = build_lexicon(database, _stored_text(database))
        return self._lexicons[key]

    def _linked(self, question: Question, database: Database) -> tuple[Mention, ...]:
        key = question.text, database.instances[0].sha256
        if key not in self._mentions:
            self._mentions[key] = link(question.text, self._lexicon(database), self.vocabulary)
        return self._mentions[key]

    def _build(
        self, question: Question, database: Database, rng: random.Random, variation: Variation, needed: frozenset[str]
    ) -> Prompt:
        draw = _drawer(question, database, rng)
        tables = [_trim(table, needed, variation.keep, rng) for table in database.tables]
        shown = [table for table in tables if table is not None]
        rng.shuffle(shown)
        words: dict[tuple[str, ...], str] = {}
        restore: dict[str, str] = {}
        columns: dict[tuple[str, str], str] = {}
        schema: list[str] = []
        for table in shown:
            token = draw("T")
            restore[token] = identifier(table.name)
            schema += [_word(words, name_key(table.name), draw), token]
            for column in table.columns:
                token = draw("C")
                restore[token] = identifier(table.name, column.name)
                columns[table.name, column.name] = token
                schema += [_word(words, name_key(column.name), draw), token, _kind(column)]
            schema.append("|")
        keys = _keys(shown, columns)
        asked, values = self._ask(self._linked(question, database), words, columns, restore, draw)
        asked = [_noise(token, variation, rng) for token in asked]
        text = " ".join([*schema[:-1], *keys, *values, "<ask>", *" ".join(asked).split(), "<sql>"])
        return Prompt(question_id=question.id, style=self.name, text=text, restore=restore)

    def _ask(
        self,
        mentions: tuple[Mention, ...],
        words: dict[tuple[str, ...], str],
        columns: dict[tuple[str, str], str],
        restore: dict[str, str],
        draw: Callable[[str], str],
    ) -> tuple[list[str], list[str]]:
        asked: list[str] = []
        values: list[str] = []
        given = {text: token for token, text in restore.items()}
        for mention in mentions:
            if mention.kind in ("name", "part"):
                token = _word(words, mention.key, draw)
                asked.append(token if mention.kind == "name" else f"~ {token}")
            elif mention.literal:
                token = given.get(mention.literal) or draw({"number": "N", "date": "D"}.get(mention.kind, "V"))
                where = [columns[place] for place in mention.columns if place in columns]
                if mention.literal not in given and where:
                    values += ["<values>", token, *where]
                given[mention.literal], restore[token] = token, mention.literal
                asked.append(token)
            else:
                asked.append(mention.text if mention.text in self.vocabulary else "<unk>")
        return asked, values


def _stored_text(database: Database) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for table in database.tables:
        for column in table.columns:
            if column.type.upper().startswith(("VARCHAR", "ENUM")):
                values = sample_values(database, table.name, column.name, _VALUES_PER_COLUMN)
                found += [(table.name, column.name, str(value)) for value in values if value]
    return found


def _drawer(question: Question, database: Database, rng: random.Random) -> Callable[[str], str]:
    pools = {letter: rng.sample(range(size), size) for letter, size in _POOL.items()}

    def draw(letter: str) -> str:
        if not pools[letter]:
            raise DataError(
                f"the slot prompt style has only {_POOL[letter]} placeholders {letter}",
                field=f"question {question.id}, database {database.name}",
                fix="Use prompt_style: ddl for schemas of this size.",
            )
        return f"{letter}{pools[letter].pop()}"

    return draw


def _trim(table: Table, needed: frozenset[str], keep: float, rng: random.Random) -> Table | None:
    if keep < 1.0 and identifier(table.name) not in needed and rng.random() > keep:
        return None
    kept = [c for c in table.columns if identifier(table.name, c.name) in needed or keep >= 1 or rng.random() < keep]
    if needed:
        rng.shuffle(kept)
    return replace(table, columns=tuple(kept))


def _word(words: dict[tuple[str, ...], str], key: tuple[str, ...], draw: Callable[[str], str]) -> str:
    if key not in words:
        words[key] = draw("W")
    return words[key]


def _kind(column: Column) -> str:
    if column.primary_key:
        return "<k>"
    name = column.type.upper()
    for mark, starts in (
        ("i", ("INT", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT", "U")),
        ("r", ("DOUBLE", "FLOAT", "REAL", "DECIMAL")),
        ("t", ("VARCHAR", "ENUM")),
        ("d", ("DATE", "TIME")),
        ("b", ("BOOL",)),
    ):
        if name.startswith(starts):
            return f"<{mark}>"
    return "<x>"


def _keys(tables: list[Table], columns: dict[tuple[str, str], str]) -> list[str]:
    tokens: list[str] = []
    for table in tables:
        for key in table.foreign_keys:
            for column, other in zip(key.columns, key.references, strict=True):
                pair = columns.get((table.name, column)), columns.get((key.table, other))
                if pair[0] and pair[1]:
                    tokens += ["<fk>", pair[0], pair[1]]
    return tokens


def _noise(token: str, variation: Variation, rng: random.Random) -> str:
    if token[0] == "W" and token[1:].isdigit():
        return f"~ {token}" if rng.random() < variation.part else token
    slot = token[0] in "VND" and token[1:].isdigit()
    if token.startswith("~") or slot or rng.random() >= variation.hide:
        return token
    return "<unk>"

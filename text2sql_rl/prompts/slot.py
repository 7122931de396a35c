"""The slot style: a delexicalised prompt that a small policy can learn in minutes.

In: a question and its database. Out: a line of tokens in which every table, column, stored value, number and date is
a placeholder of this prompt, in the schema and where the question names it. The policy answers in the same
placeholders; `restore` turns them back into SQL. Placeholders are drawn per question, so no number ever means a name.

    T2 C31 <k> C5 <t> | T0 C40 <k> C7 <f> C31 <ask> how many T2 with C5 V1 @ C5 over N0 <sql>

The schema shows every table with its keys, and of the other columns those that the question names: a column without
a name says nothing. A name that several tables or columns have is all of them, `[ T2 C5 T0 C8 ]`; one written only in
part is `~ C5`; a stored value is followed by the columns that hold it. Not here: guesses about meaning. What words do
not link, the policy has to learn.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from text2sql_rl.databases import open_read_only, sample_values
from text2sql_rl.errors import DataError
from text2sql_rl.prompts.linking import Lexicon, Mention, build_lexicon, link, name_key
from text2sql_rl.prompts.slot_sql import from_slots, identifier, joins, to_slots
from text2sql_rl.records import Column, Database, Prompt, Question, Table

_POOL = {"T": 8, "C": 32, "V": 8, "N": 8, "D": 6}
_MARKS = ("|", "~", "[", "]", "@", "<ask>", "<sql>", *(f"<{kind}>" for kind in "kfirtdbx"))
_VALUES_PER_COLUMN = 2_000


def placeholders() -> tuple[str, ...]:
    """Every token of the style that is neither a word nor SQL."""
    slots = tuple(f"{letter}{number}" for letter, size in _POOL.items() for number in range(size))
    return (*_MARKS, *slots)


@dataclass(frozen=True, slots=True)
class Variation:
    """How training varies one pair: which schema to show, in which order, which words to hide.

    `keep` gives the share of the tables and columns the answer does not need that stay; `hide` the chance that a
    function word becomes unknown; `part` that a name is marked as written in part; `shuffle` columns change places.
    """

    keep: float = 1.0
    hide: float = 0.0
    part: float = 0.0
    shuffle: bool = True


class SlotStyle:
    """Question + database -> Prompt, and answers both ways.

    Args:
        vocabulary: lower-case function words the policy knows; other words are read as unknown.
    """

    name = "slot"

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.vocabulary = frozenset(vocabulary)
        self._lexicons: dict[str, Lexicon] = {}
        self._prompts: dict[tuple[str, str, str, int], Prompt] = {}
        self._answers: dict[tuple[str, str], list[str] | None] = {}
        self._mentions: dict[tuple[str, str], tuple[Mention, ...]] = {}

    def prompt(self, question: Question, database: Database, visit: int = 0) -> Prompt:
        """The question's prompt on a visit; the same every time. Another visit, other placeholders and table order.

        Raises:
            DataError: the schema or the question has more names than the style has placeholders.
        """
        key = question.id, question.text, database.instances[0].sha256, visit
        if key not in self._prompts:
            again = f"\n{visit}" if visit else ""
            variation = Variation(shuffle=visit > 0)
            seed = hashlib.sha256(f"{question.id}\n{question.text}{again}".encode()).digest()
            self._prompts[key] = self._build(question, database, random.Random(seed), variation, frozenset())
        return self._prompts[key]

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
        mentions = self._linked(question, database)
        named = _named(mentions)
        tables = [_trim(_only(table, named), needed, variation, rng) for table in database.tables]
        shown = [table for table in tables if table is not None]
        rng.shuffle(shown)
        slots = _Slots({}, {}, {}, {})
        for table in shown:
            slots.table(table, draw("T"))
            for column in table.columns:
                slots.column(table, column, draw("C"))
        schema = " | ".join(_describe(table, slots) for table in shown)
        asked = [_noise(_say(mention, slots, self.vocabulary, draw), variation, rng) for mention in mentions]
        slots.restore.update(joins(shown, slots.tables))
        text = " ".join([schema, "<ask>", *asked, "<sql>"])
        return Prompt(question_id=question.id, style=self.name, text=text, restore=slots.restore)


@dataclass(frozen=True, slots=True)
class _Slots:
    """The placeholders of one prompt: of tables, of columns, of what a name can mean, and all of them as SQL."""

    tables: dict[str, str]
    columns: dict[tuple[str, str], str]
    names: dict[tuple[str, ...], list[str]]
    restore: dict[str, str]

    def table(self, table: Table, token: str) -> None:
        self.tables[table.name] = token
        self.names.setdefault(name_key(table.name), []).append(token)
        self.restore[token] = identifier(table.name)

    def column(self, table: Table, column: Column, token: str) -> None:
        self.columns[table.name, column.name] = token
        self.names.setdefault(name_key(column.name), []).append(f"{self.tables[table.name]} {token}")
        self.restore[token] = identifier(table.name, column.name)


def _say(mention: Mention, slots: _Slots, vocabulary: frozenset[str], draw: Callable[[str], str]) -> str:
    if mention.key:
        meant = slots.names.get(mention.key, [])
        several = f"[ {' '.join(meant)} ]" if len(meant) > 1 else "".join(meant).rpartition(" ")[2]
        return f"~ {several}" if mention.kind == "part" else several or "<unk>"
    if not mention.literal:
        return mention.text if mention.text in vocabulary else "<unk>"
    given = {text: token for token, text in slots.restore.items()}
    token = given.get(mention.literal) or draw({"number": "N", "date": "D"}.get(mention.kind, "V"))
    slots.restore[token] = mention.literal
    where = [slots.columns[place] for place in mention.columns if place in slots.columns]
    return " ".join([token, "@", *where]) if where else token


def _stored_text(database: Database) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    # Opening the file again is cheap while it is open.
    with open_read_only(database.instances[0].path):
        for table in database.tables:
            for column in table.columns:
                if column.type.upper().startswith(("VARCHAR", "ENUM")):
                    values = sample_values(database, table.name, column.name, _VALUES_PER_COLUMN)
                    found += [(table.name, column.name, str(value)) for value in values if value]
    return found


def _drawer(question: Question, database: Database, rng: random.Random) -> Callable[[str], str]:
    drawn: set[str] = set()
    left = dict(_POOL)

    def draw(letter: str) -> str:
        if not left[letter]:
            raise DataError(
                f"the slot prompt style has only {_POOL[letter]} placeholders {letter}",
                field=f"question {question.id}, database {database.name}",
                fix="Use prompt_style: ddl for schemas of this size.",
            )
        left[letter] -= 1
        token = f"{letter}{rng.randrange(_POOL[letter])}"
        while token in drawn:
            token = f"{letter}{rng.randrange(_POOL[letter])}"
        drawn.add(token)
        return token

    return draw


def _trim(table: Table, needed: frozenset[str], variation: Variation, rng: random.Random) -> Table | None:
    keep = variation.keep
    if keep < 1.0 and identifier(table.name) not in needed and rng.random() > keep:
        return None
    kept = [c for c in table.columns if identifier(table.name, c.name) in needed or keep >= 1 or rng.random() < keep]
    if variation.shuffle:
        rng.shuffle(kept)
    return replace(table, columns=tuple(kept))


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


def _named(mentions: Iterable[Mention]) -> frozenset[tuple[str, ...] | tuple[str, str]]:
    """What the question names: keys of names, and (table, column) of the values it quotes."""
    return frozenset(key for mention in mentions for key in (mention.key, *mention.columns) if key)


def _only(table: Table, named: frozenset[tuple[str, ...] | tuple[str, str]]) -> Table:
    """The table with its keys and the columns that are named."""
    own = {name for key in table.foreign_keys for name in key.columns}
    kept = [
        column
        for column in table.columns
        if column.primary_key
        or column.name in own
        or name_key(column.name) in named
        or (table.name, column.name) in named
    ]
    return replace(table, columns=tuple(kept))


def _describe(table: Table, slots: _Slots) -> str:
    targets: dict[str, str] = {}
    for key in table.foreign_keys:
        for name, other in zip(key.columns, key.references, strict=True):
            targets[name] = f"<f> {slots.columns.get((key.table, other), '<unk>')}"
    columns = (f"{slots.columns[table.name, c.name]} {targets.get(c.name) or _kind(c)}" for c in table.columns)
    return " ".join([slots.tables[table.name], *columns])


def _noise(said: str, variation: Variation, rng: random.Random) -> str:
    """Now and then a name is written in part and a function word is unknown."""
    if said[0] in "TC[" and rng.random() < variation.part:
        return f"~ {said}"
    word = said[0].islower() or said == "<unk>"
    return "<unk>" if word and rng.random() < variation.hide else said

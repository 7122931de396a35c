"""What a prompt may tell of a database beside its tables: example values, stored texts by word, what columns mean.

In: a database. Out: `Facts`, read once. Descriptions come from `descriptions.json` beside an imported database file:
table -> column -> {name, description, values}. Text columns are indexed by their 2,000 most frequent values. Not here:
the question, and what of it all is shown.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from text2sql_rl.databases import open_read_only, sample_values
from text2sql_rl.prompts.linking import lemma, sql_text
from text2sql_rl.records import Column, Database

# A column by its table's and its own name.
Place = tuple[str, str]

_VALUES_PER_COLUMN = 2_000
_MOST_WORDS = 8
# A word of more values than this tells nothing about which is meant.
_COMMON = 400
_EXAMPLES = 3
_CUT = 40
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Stored:
    """A text that a column stores, and its words in lower case."""

    place: Place
    text: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one database.

    `examples` are the most frequent values of each column as SQL, `stored` its texts, `by_word` the positions in
    `stored` by each word's lemma, `meanings` what is said about columns in words.
    """

    examples: Mapping[Place, tuple[str, ...]]
    stored: tuple[Stored, ...]
    by_word: Mapping[str, tuple[int, ...]]
    meanings: Mapping[Place, str]


def read_facts(database: Database) -> Facts:
    """The facts of a database, from its real rows.

    Raises:
        DataError: the database cannot be read.
    """
    examples: dict[Place, tuple[str, ...]] = {}
    stored: list[Stored] = []
    with open_read_only(database.instances[0].path):  # opening it again is cheap while it is open
        for table in database.tables:
            for column in table.columns:
                place = table.name, column.name
                if column.type == "BLOB":
                    examples[place] = ()
                    continue
                text = _is_text(column)
                values = sample_values(database, *place, _VALUES_PER_COLUMN if text else _EXAMPLES)
                examples[place] = tuple(shown(one) for one in values[:_EXAMPLES])
                for value in values if text else ():
                    words = tuple(split_words(str(value)))
                    if 0 < len(words) <= _MOST_WORDS:
                        stored.append(Stored(place, str(value), words))
    by_word: dict[str, list[int]] = defaultdict(list)
    for position, one in enumerate(stored):
        for word in dict.fromkeys(lemma(word) for word in one.words):
            by_word[word].append(position)
    kept = {word: tuple(positions) for word, positions in by_word.items() if len(positions) <= _COMMON}
    return Facts(examples, tuple(stored), kept, _meanings(database))


def split_words(text: str) -> list[str]:
    """The words and numbers of a text in lower case; 'raceEntry_no' gives race, entry, no."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)
    return [word.lower() for word in _WORD.findall(spaced)]


def shown(value: Any) -> str:
    """A value as SQL on one line, long ones cut."""
    plain = " ".join(str(value).split())
    plain = plain if len(plain) <= _CUT else f"{plain[:_CUT]}\u2026"
    return plain if isinstance(value, bool | int | float | Decimal) else sql_text(plain)


def _is_text(column: Column) -> bool:
    return column.type.upper().startswith(("VARCHAR", "ENUM"))


def _meanings(database: Database) -> dict[Place, str]:
    """The descriptions of the database's columns, found in any letter case."""
    said = _described(database.instances[0].path.with_name("descriptions.json"))
    found: dict[Place, str] = {}
    for table in database.tables:
        of_table = said.get(table.name.lower(), {})
        for column in table.columns:
            words = of_table.get(column.name.lower(), {})
            texts = [" ".join(str(words[key]).split()) for key in ("name", "description", "values") if words.get(key)]
            different = [text for text in dict.fromkeys(texts) if _letters(text) != _letters(column.name)]
            if different:
                found[table.name, column.name] = "; ".join(different)
    return found


def _letters(text: str) -> str:
    return "".join(split_words(text))


def _described(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The file of descriptions by names in lower case; what is no such file says nothing."""
    try:
        tables = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(tables, dict):
        return {}
    return {
        str(table).lower(): {str(name).lower(): said for name, said in columns.items() if isinstance(said, dict)}
        for table, columns in tables.items()
        if isinstance(columns, dict)
    }

"""How much a question has to do with each table and column of its database, by words alone.

In: a question (its text and evidence) and what is known of its database. Out: `Relevance`: scores, stored values that
the question mentions, and the tables it names outright. A table earns, for each word of the question, the best of what
its name, a column's name, a column's description or a stored value has in common with it, more for words that few
tables share. Not here: the gold, which prediction never sees; synonyms; what is shown in the end.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from text2sql_rl.prompts.facts import Facts, Place, Stored, split_words
from text2sql_rl.prompts.linking import lemma, name_key
from text2sql_rl.records import Database, Question

_TABLE, _COLUMN, _MEANING, _VALUE = 3.0, 2.0, 1.0, 2.5
# What a table gets of its best neighbour along a foreign key: names are often looked up next door.
_NEIGHBOUR = 0.3
_STEM = 5  # letters that two words must share to be taken for forms of one
_STEM_WEIGHT = 0.6
_LINKED = 0.5  # of a column's name that the question must have for the column to count as linked
_PARTLY = 0.5  # of a stored text's words, for it to be shown as an example
_MOST_VALUES = 3
_STOP_WORDS = (
    "a an and any are as at be been but by did do does each every find for from give had has have how i in is it its "
    "list many me most much no not of on or out over show than that the their them there these they this those to "
    "was were what when where which who whose why will with you your return all also both same more less number name "
    "names id ids type value values"
)
_STOP = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, slots=True)
class Relevance:
    """Scores, higher is more; `linked` columns share most of their name or a value with the question.

    `values` are stored texts by column that the question mentions, the fullest match first; `named` are the tables
    whose whole name stands in the question, or that alone store a text it mentions.
    """

    tables: Mapping[str, float]
    linked: frozenset[Place]
    values: Mapping[Place, tuple[str, ...]]
    named: frozenset[str]


def relevance(question: Question, database: Database, facts: Facts) -> Relevance:
    """The relevance of every table and column to the question."""
    words = split_words(f"{question.text} \n {question.evidence}")
    asked = tuple(dict.fromkeys(lemma(word) for word in words))
    names = {table.name: name_key(table.name) for table in database.tables}
    columns = {(table.name, c.name): name_key(c.name) for table in database.tables for c in table.columns}
    meanings = {place: frozenset(map(lemma, split_words(text))) for place, text in facts.meanings.items()}
    rarity = _rarity(names, columns)
    scores: dict[str, float] = {}
    linked: set[Place] = set()
    for table in database.tables:
        best: dict[str, float] = defaultdict(float)
        _credit(best, asked, names[table.name], _TABLE)
        for column in table.columns:
            place = table.name, column.name
            share = _credit(best, asked, columns[place], _COLUMN)
            if share >= _LINKED:
                linked.add(place)
            if place in meanings:
                said = [word for word in asked if word in meanings[place] and word not in _STOP]
                for word in said:
                    best[word] = max(best[word], _MEANING)
                if said and len(said) >= _LINKED * len(meanings[place] - _STOP):
                    linked.add(place)
        scores[table.name] = sum(weight * rarity.get(word, 1.0) for word, weight in best.items())
    values, homes = _mentioned(words, asked, facts)
    for places in homes:
        for name in {table for table, _ in places}:
            scores[name] += _VALUE / len({table for table, _ in places})
        linked |= set(places)
    alone = {places[0][0] for places in homes if len({table for table, _ in places}) == 1}
    in_order = tuple(lemma(word) for word in words)
    whole = {name for name, key in names.items() if key and _contains(in_order, key)}
    return Relevance(_beside(scores, database), frozenset(linked), values, frozenset(whole | alone))


def _credit(best: dict[str, float], asked: Sequence[str], name: Sequence[str], weight: float) -> float:
    """Credit the question's words that a name has; returns the share of the name that they are."""
    shared = 0.0
    for part in name:
        for word in asked:
            likeness = _likeness(word, part)
            if likeness:
                shared += likeness
                low = 0.3 if word in _STOP else 1.0
                best[word] = max(best[word], low * weight * likeness * (0.5 + 0.5 / len(name)))
                break
    return shared / len(name) if name else 0.0


def _likeness(word: str, part: str) -> float:
    if word == part:
        return 1.0
    return _STEM_WEIGHT if len(word) >= _STEM and len(part) >= _STEM and word[:_STEM] == part[:_STEM] else 0.0


def _rarity(names: Mapping[str, tuple[str, ...]], columns: Mapping[Place, tuple[str, ...]]) -> dict[str, float]:
    """log(1 + tables / tables that have the word in any name), by word."""
    having: dict[str, set[str]] = defaultdict(set)
    for table, name in names.items():
        for word in name:
            having[word].add(table)
    for (table, _), name in columns.items():
        for word in name:
            having[word].add(table)
    return {word: math.log(1 + len(names) / len(tables)) for word, tables in having.items()}


def _mentioned(
    words: Sequence[str], asked: Sequence[str], facts: Facts
) -> tuple[dict[Place, tuple[str, ...]], list[tuple[Place, ...]]]:
    """Stored texts that the question mentions by column, and for each that it holds whole, the columns storing it."""
    hits = Counter(position for word in asked if word not in _STOP for position in facts.by_word.get(word, ()))
    graded: list[tuple[float, Stored]] = []
    whole: dict[tuple[str, ...], list[Place]] = {}
    for position, count in hits.items():
        stored = facts.stored[position]
        if len(stored.text) > 1 and _contains(words, stored.words):
            graded.append((1.0, stored))
            whole.setdefault(stored.words, []).append(stored.place)
            continue
        content = {lemma(word) for word in stored.words if lemma(word) not in _STOP}
        share = count / max(1, len(content))
        if share >= _PARTLY and any(len(word) > 3 and word in content for word in asked):
            graded.append((share / 2, stored))
    found: dict[Place, list[str]] = defaultdict(list)
    for _, stored in sorted(graded, key=lambda one: (-one[0], -len(one[1].words), one[1].text)):
        if len(found[stored.place]) < _MOST_VALUES and stored.text not in found[stored.place]:
            found[stored.place].append(stored.text)
    return {place: tuple(texts) for place, texts in found.items()}, [tuple(dict.fromkeys(p)) for p in whole.values()]


def _contains(words: Sequence[str], part: Sequence[str]) -> bool:
    size = len(part)
    return any(tuple(words[at : at + size]) == tuple(part) for at in range(len(words) - size + 1))


def _beside(scores: Mapping[str, float], database: Database) -> dict[str, float]:
    """The scores, each raised by a share of the best neighbour's along a foreign key."""
    neighbours: dict[str, float] = defaultdict(float)
    for table in database.tables:
        for key in table.foreign_keys:
            if key.table in scores:
                neighbours[table.name] = max(neighbours[table.name], scores[key.table])
                neighbours[key.table] = max(neighbours[key.table], scores[table.name])
    return {name: score + _NEIGHBOUR * neighbours[name] for name, score in scores.items()}

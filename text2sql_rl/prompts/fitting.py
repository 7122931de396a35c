"""Which part of a schema a prompt shows: everything where it fits, else what the question is most likely to need.

In: a question, its database, a way to write a view as text, and a limit in tokens with a way to count them. Out: the
first `View` that fits, from the richest to the poorest:

1. all tables with example values and all descriptions;
2. all tables, examples that the question mentions and one more, descriptions of linked columns;
3. all tables with examples that the question mentions;
4. the most relevant tables, as many as fit, with the tables that join them;
5. of the tables that the question names, the keys and linked columns, and as many others as fit.

Where not even the fifth fits, it is returned all the same, longer than the limit: whoever asked must count it and leave
the question out. Nothing is ever cut in the middle, and the gold is never looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from text2sql_rl.prompts.facts import Facts, Place, shown
from text2sql_rl.prompts.relevance import Relevance
from text2sql_rl.records import Column, Database, Table

# More columns than the needed ones in a table that is too wide, from many to none.
_MORE_COLUMNS = (64, 32, 16, 8, 4, 0)


@dataclass(frozen=True, slots=True)
class View:
    """What a prompt shows of a database; `step` is the number of the way it was chosen, 1 to 5."""

    tables: tuple[Table, ...]
    examples: Mapping[Place, tuple[str, ...]]
    meanings: Mapping[Place, str]
    step: int


@dataclass(frozen=True, slots=True)
class Limit:
    """Most tokens of a prompt, and how they are counted."""

    tokens: int
    count: Callable[[str], int]

    def fits(self, text: str) -> bool:
        """Whether a text is not too long."""
        return self.count(text) <= self.tokens


def choose(
    database: Database,
    facts: Facts,
    known: Relevance,
    write: Callable[[View], str],
    limit: Limit | None,
    most_examples: int,
) -> View:
    """The richest view that fits, or the poorest.

    Args:
        database: its whole schema.
        facts: what is known of it.
        known: what the question has to do with it.
        write: a view -> the prompt's text.
        limit: of the text; None: everything is shown.
        most_examples: a column's in the richest view.
    """
    view = _rich(database.tables, facts, known, most_examples)
    if limit is None or limit.fits(write(view)):
        return view
    for view in _poorer(database, facts, known):
        if limit.fits(write(view)):
            return view
    ranked = ranking(database, known)
    least = max(1, sum(1 for name in ranked if name in known.named))
    for examples in (1, 0):

        def part(count: int, examples: int = examples) -> View:
            return _plain(joined(database, ranked[:count]), facts, known, examples, 4)

        if limit.fits(write(part(least))):
            return part(_most(lambda count: limit.fits(write(part(count))), least, len(ranked)))
    for more in _MORE_COLUMNS:
        tables = joined(database, ranked[:least])
        view = _plain(tuple(_narrow(table, tables, known, more) for table in tables), facts, known, 0, 5)
        if limit.fits(write(view)):
            break
    return view


def ranking(database: Database, known: Relevance) -> list[str]:
    """The tables, those that the question names first, then by score."""
    order = {table.name: at for at, table in enumerate(database.tables)}
    return sorted(order, key=lambda name: (name not in known.named, -known.tables[name], order[name]))


def joined(database: Database, names: Sequence[str]) -> tuple[Table, ...]:
    """The tables of these names and those on the shortest way between them along foreign keys, in declared order."""
    links: dict[str, list[str]] = {table.name: [] for table in database.tables}
    for table in database.tables:
        for key in table.foreign_keys:
            if key.table in links and key.table != table.name:
                links[table.name].append(key.table)
                links[key.table].append(table.name)
    kept = set(names[:1])
    for name in names[1:]:
        kept |= _way(links, name, kept)
    return tuple(table for table in database.tables if table.name in kept)


def _way(links: Mapping[str, Sequence[str]], start: str, goals: Iterable[str]) -> set[str]:
    """The tables from `start` to the nearest of `goals`, both included; only `start` where there is no way."""
    goal = set(goals)
    before: dict[str, str] = {start: ""}
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        if name in goal:
            way = set()
            while name:
                way.add(name)
                name = before[name]
            return way
        for other in links[name]:
            if other not in before:
                before[other] = name
                waiting.append(other)
    return {start}


def _rich(tables: tuple[Table, ...], facts: Facts, known: Relevance, most: int) -> View:
    examples = {place: _examples(place, facts, known, most) for place in _places(tables)}
    return View(tables, examples, facts.meanings, 1)


def _poorer(database: Database, facts: Facts, known: Relevance) -> Iterator[View]:
    yield _plain(database.tables, facts, known, 1, 2)
    yield _plain(database.tables, facts, known, 0, 3)


def _plain(tables: tuple[Table, ...], facts: Facts, known: Relevance, most: int, step: int) -> View:
    """Examples that the question mentions, or up to `most`; descriptions of linked columns where `most` is not 0."""
    examples = {
        place: _examples(place, facts, known, max(most, len(known.values.get(place, ())))) for place in _places(tables)
    }
    said = {place: text for place, text in facts.meanings.items() if place in known.linked} if most else {}
    return View(tables, examples, said, step)


def _examples(place: Place, facts: Facts, known: Relevance, most: int) -> tuple[str, ...]:
    mentioned = [shown(text) for text in known.values.get(place, ())]
    return tuple(dict.fromkeys([*mentioned, *facts.examples[place]]))[:most]


def _places(tables: Iterable[Table]) -> Iterator[Place]:
    return ((table.name, column.name) for table in tables for column in table.columns)


def _narrow(table: Table, tables: Sequence[Table], known: Relevance, more: int) -> Table:
    """The table with its keys, the columns that others refer to, the linked ones, and `more` of the rest."""
    needed = {name for key in table.foreign_keys for name in key.columns}
    needed |= {name for other in tables for key in other.foreign_keys if key.table == table.name
               for name in key.references}  # fmt: skip
    left = more

    def keep(column: Column) -> bool:
        nonlocal left
        if column.primary_key or column.name in needed or (table.name, column.name) in known.linked:
            return True
        left -= 1
        return left >= 0

    return replace(table, columns=tuple(column for column in table.columns if keep(column)))


def _most(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The greatest count from `low`, which fits, to `high` that fits; more of them is never shorter."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low

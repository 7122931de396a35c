"""How the prompts of question sets come out: how long, how much of the schema they show, and what the filter lost.

In: questions with their databases, and a style whose limit is set. Out: a `Survey`. Only here is a prompt held against
its gold, after it was made: a shown schema has the gold where it holds all tables and columns that the gold names. Not
here: making prompts.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp

from text2sql_rl.prompts.fitting import View
from text2sql_rl.prompts.schema_style import SchemaStyle
from text2sql_rl.records import Database, Question

_STEPS = {
    1: "the whole schema, with example values and descriptions",
    2: "all tables, one example value a column",
    3: "all tables, example values that the question mentions",
    4: "the most relevant tables",
    5: "of the tables that the question names, some columns",
}
_NAMED = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """One prompt: its question, its length in tokens, the step of its view, and which of the gold's names it lacks."""

    question: Question
    tokens: int
    step: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """The prompts of many questions under one style and limit."""

    style: str
    limit: int
    asked: tuple[Asked, ...]

    @property
    def too_long(self) -> tuple[Asked, ...]:
        """Those that do not fit; they are never asked."""
        return tuple(one for one in self.asked if one.tokens > self.limit)

    def as_json(self) -> dict[str, Any]:
        """{style, max_tokens, questions, tokens, steps, filtered, recall, missing, too_long} for json.dumps."""
        lengths = sorted(one.tokens for one in self.asked)
        filtered = [one for one in self.asked if one.step >= 4]
        missing = [one for one in self.asked if one.missing]
        return {
            "style": self.style,
            "max_tokens": self.limit,
            "questions": len(self.asked),
            "tokens": {
                "median": statistics.median_low(lengths),
                "p95": lengths[-(-len(lengths) * 95 // 100) - 1],
                "most": lengths[-1],
            },
            "steps": {str(step): count for step, count in sorted(Counter(one.step for one in self.asked).items())},
            "filtered": len(filtered),
            "recall_filtered": _share(filtered),
            "recall": _share(self.asked),
            "missing": [one.question.id for one in missing],
            "too_long": [one.question.id for one in self.too_long],
        }

    def lines(self) -> Iterator[str]:
        """The same in words, at most 20 questions by name."""
        counts = self.as_json()
        tokens = counts["tokens"]
        yield (
            f"{counts['questions']:,} prompts in style {self.style}: {tokens['median']:,} tokens at the median, 95 % "
            f"have at most {tokens['p95']:,}, the longest has {tokens['most']:,}; the limit is {self.limit:,}"
        )
        yield from (f"  {count:>6}  {_STEPS[int(step)]}" for step, count in counts["steps"].items())
        if counts["filtered"]:
            whole = f"{100 * counts['recall_filtered']:.1f} % of these have all tables and columns of the gold"
            yield f"{counts['filtered']:,} show a part of the schema; {whole}"
        incomplete = [one for one in self.asked if one.missing]
        yield from _named(incomplete, lambda one: f"lacks {', '.join(one.missing)}")
        if self.too_long:
            yield f"{len(self.too_long):,} do not fit and are left out"
        yield from _named(self.too_long, lambda one: f"has {one.tokens:,} tokens")


def survey(
    pairs: Sequence[tuple[Question, Database]],
    style: SchemaStyle,
    count: Callable[[str], int],
    done: Callable[[int], None] = lambda _: None,
) -> Survey:
    """Make every prompt and look at it.

    Args:
        pairs: questions with their databases.
        style: with a limit.
        count: the tokens of a prompt's text.
        done: called with the number of prompts made so far.
    """
    assert style.max_tokens is not None
    style.bind(count)
    asked = []
    for number, (question, database) in enumerate(pairs, 1):
        view, prompt = style.view(question, database), style.prompt(question, database)
        missing = lacking(question.gold_sql, database, view) if view.step >= 4 else ()
        asked.append(Asked(question, count(prompt.text), view.step, missing))
        done(number)
    return Survey(style.name, style.max_tokens, tuple(asked))


def lacking(gold_sql: str, database: Database, view: View) -> tuple[str, ...]:
    """The tables and columns of a database that a gold names and a view does not show; () for what is no SQL."""
    try:
        tree = sqlglot.parse_one(gold_sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return ()
    has, shows = _names(database.tables), _names(view.tables)
    named = [node.name.lower() for node in tree.find_all(exp.Table)]
    named += [f".{node.name.lower()}" for node in tree.find_all(exp.Column)]
    return tuple(dict.fromkeys(one.lstrip(".") for one in named if one in has and one not in shows))


def _named(asked: Sequence[Asked], said: Callable[[Asked], str]) -> Iterator[str]:
    for one in asked[:_NAMED]:
        yield f"  {one.question.id} ({one.question.database}) {said(one)}"
    if len(asked) > _NAMED:
        yield f"  and {len(asked) - _NAMED:,} more; --json names all"


def _names(tables: Sequence[Any]) -> set[str]:
    """Tables by name, columns by .name, in lower case: a gold's column does not always say whose it is."""
    return {table.name.lower() for table in tables} | {
        f".{column.name.lower()}" for table in tables for column in table.columns
    }


def _share(asked: Sequence[Asked]) -> float | None:
    return 1 - sum(bool(one.missing) for one in asked) / len(asked) if asked else None

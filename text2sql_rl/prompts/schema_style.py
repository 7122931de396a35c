"""What the styles for pretrained models share: a schema in words, the question, and what is to be answered.

In: a question and its database. Out: the text of one user message; the answer is DuckDB SQL in a fenced block. Once
`limit` is set, a schema that is too long is shown in part (`fitting.py`). Not here: how a view of the schema is
written; chat templates (the policy's tokenizer has them).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from text2sql_rl.databases import quoted
from text2sql_rl.prompts.facts import Facts, read_facts
from text2sql_rl.prompts.fitting import Limit, View, choose
from text2sql_rl.prompts.relevance import relevance
from text2sql_rl.records import Database, ForeignKey, Prompt, Question, Table

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz_0123456789")
# Words that DuckDB does not read as names where they stand bare; a test compares them with the engine's own list.
_NO_NAMES = (
    "all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check "
    "collate collation column columns concurrently constraint create cross default deferrable desc describe distinct "
    "do else end except false fetch for foreign freeze from full generated glob group having ilike in initially inner "
    "intersect into is isnull join lambda lateral leading left like limit map natural not notnull null offset on only "
    "or order outer overlaps pivot pivot_longer pivot_wider placing positional primary qualify references returning "
    "right select semi show similar some struct summarize symmetric table tablesample then to trailing true try_cast "
    "tuple union unique unpack unpivot using variadic verbose when where window with"
)
RESERVED = frozenset(_NO_NAMES.split())


class SchemaStyle(ABC):
    """Question + database -> Prompt, and answers both ways.

    Args:
        max_tokens: the most tokens of a prompt; None shows every schema whole. It counts once `bind` has said how.
    """

    name: str
    most_examples: int
    separator: str

    def __init__(self, max_tokens: int | None = None) -> None:
        self.max_tokens = max_tokens
        self._limit: Limit | None = None
        self._facts: dict[str, Facts] = {}
        self._views: dict[tuple[str, ...], tuple[View, Prompt]] = {}

    @abstractmethod
    def table(self, table: Table, view: View) -> str:
        """One table of a view in words."""

    def bind(self, count: Callable[[str], int]) -> None:
        """Say how the tokens of a prompt's text are counted; the limit then holds."""
        self._views.clear()
        self._limit = None if self.max_tokens is None else Limit(self.max_tokens, count)

    def prompt(self, question: Question, database: Database, visit: int = 0) -> Prompt:
        """The question's one prompt, the same on every visit; longer than the limit where nothing fits."""
        return self._made(question, database)[1]

    def view(self, question: Question, database: Database) -> View:
        """What the question's prompt shows of the schema."""
        return self._made(question, database)[0]

    def completion(self, prompt: Prompt, database: Database, sql: str) -> str | None:
        """The answer the policy should write for this SQL."""
        return f"```sql\n{sql}\n```"

    def restore(self, prompt: Prompt, raw: str) -> str:
        """The way back: nothing to undo."""
        return raw

    def _made(self, question: Question, database: Database) -> tuple[View, Prompt]:
        sha256 = database.instances[0].sha256
        key = question.id, question.text, question.evidence, sha256
        if key not in self._views:
            if sha256 not in self._facts:
                self._facts[sha256] = read_facts(database)
            facts = self._facts[sha256]
            known = relevance(question, database, facts)

            def write(view: View) -> str:
                return self._write(question, view)

            view = choose(database, facts, known, write, self._limit, self.most_examples)
            prompt = Prompt(question_id=question.id, style=self.name, text=write(view), chat=True)
            self._views[key] = view, prompt
        return self._views[key]

    def _write(self, question: Question, view: View) -> str:
        evidence = f"Evidence: {' '.join(question.evidence.split())}\n" if question.evidence.strip() else ""
        schema = self.separator.join(self.table(table, view) for table in view.tables)
        return f"{schema}\n\nQuestion: {question.text}\n{evidence}Answer with one DuckDB SQL query in a ```sql block."


def sql_name(text: str) -> str:
    """A table's or column's name as SQL: in double quotes where it would not be read as one otherwise."""
    low = text.lower()
    plain = bool(low) and not low[0].isdigit() and set(low) <= _PLAIN and low not in RESERVED
    return text if plain else quoted(text)


def keys_shown(table: Table, view: View) -> list[ForeignKey]:
    """The foreign keys of a table that lead to columns that the view shows."""
    columns = {one.name: {column.name for column in one.columns} for one in view.tables}
    own = columns[table.name]
    return [
        key
        for key in table.foreign_keys
        if key.table in columns and set(key.references) <= columns[key.table] and set(key.columns) <= own
    ]

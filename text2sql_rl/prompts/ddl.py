"""The ddl style: CREATE TABLE statements with example values, then the question; for pretrained models.

In: a question and its database. Out: the text of one user message; the answer is DuckDB SQL in a fenced block.
Not here: chat templates (the policy's tokenizer has them), cutting: a prompt that does not fit is an error there.
"""

from __future__ import annotations

from text2sql_rl.databases import open_read_only, sample_values
from text2sql_rl.prompts.slot_sql import identifier
from text2sql_rl.records import Database, Prompt, Question, Table

_EXAMPLES = 3
_CUT = 40


class DdlStyle:
    """Question + database -> Prompt, and answers both ways."""

    name = "ddl"

    def __init__(self) -> None:
        self._schemas: dict[str, str] = {}

    def prompt(self, question: Question, database: Database, visit: int = 0) -> Prompt:
        """The question's one prompt, the same on every visit."""
        text = (
            f"{self._schema(database)}\n\n"
            f"Question: {question.text}\n"
            "Answer with one DuckDB SQL query in a ```sql block."
        )
        return Prompt(question_id=question.id, style=self.name, text=text, chat=True)

    def completion(self, prompt: Prompt, database: Database, sql: str) -> str | None:
        """The answer the policy should write for this SQL."""
        return f"```sql\n{sql}\n```"

    def restore(self, prompt: Prompt, raw: str) -> str:
        """The way back: nothing to undo."""
        return raw

    def _schema(self, database: Database) -> str:
        key = database.instances[0].sha256
        if key not in self._schemas:
            with open_read_only(database.instances[0].path):  # opening it again is cheap while it is open
                self._schemas[key] = "\n\n".join(_ddl(table, database) for table in database.tables)
        return self._schemas[key]


def _ddl(table: Table, database: Database) -> str:
    lines = []
    for column in table.columns:
        examples = sample_values(database, table.name, column.name, _EXAMPLES)
        shown = ", ".join(str(value)[:_CUT] for value in examples)
        key = " PRIMARY KEY" if column.primary_key else ""
        lines.append(f"  {identifier(column.name)} {column.type}{key}, -- e.g. {' '.join(shown.split())}")
    for foreign in table.foreign_keys:
        own = ", ".join(identifier(name) for name in foreign.columns)
        other = ", ".join(identifier(name) for name in foreign.references)
        lines.append(f"  FOREIGN KEY ({own}) REFERENCES {identifier(foreign.table)} ({other})")
    return f"CREATE TABLE {identifier(table.name)} (\n" + "\n".join(lines) + "\n);"

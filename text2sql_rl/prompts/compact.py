"""The compact style: one line a table, for models and machines where every token of a prompt counts.

In and out as in `schema_style.py`. A column is `name type`, with `key` where it is (part of) the primary key,
`-> TABLE.COLUMN` where it refers to one, what it means in brackets, and example values behind `=`:

    horse(id int key, name text = 'Bella', owner_id int -> owner.id)
"""

from __future__ import annotations

from text2sql_rl.prompts.fitting import View
from text2sql_rl.prompts.schema_style import SchemaStyle, keys_shown, sql_name
from text2sql_rl.records import Column, Table

# DuckDB's long names of the usual types by shorter ones that it knows as well.
_SHORT = {"INTEGER": "int", "BIGINT": "int", "SMALLINT": "int", "VARCHAR": "text", "DOUBLE": "real", "FLOAT": "real"}


class CompactStyle(SchemaStyle):
    """One line a table, with keys, types, and one example value a column."""

    name = "compact"
    most_examples = 1
    separator = "\n"

    def table(self, table: Table, view: View) -> str:
        """A table as one line."""
        refers = {
            own: f" -> {sql_name(key.table)}.{sql_name(other)}"
            for key in keys_shown(table, view)
            for own, other in zip(key.columns, key.references, strict=True)
        }
        columns = (self._column(table, column, view, refers.get(column.name, "")) for column in table.columns)
        return f"{sql_name(table.name)}({', '.join(columns)})"

    def _column(self, table: Table, column: Column, view: View, refers: str) -> str:
        place = table.name, column.name
        kind = _SHORT.get(column.type, column.type.lower())
        key = " key" if column.primary_key else ""
        meaning = f" [{view.meanings[place]}]" if place in view.meanings else ""
        # A number as an example tells little where the type and the name are there.
        examples = view.examples[place] if kind not in ("int", "real") else ()
        values = f" = {' | '.join(examples)}" if examples else ""
        return f"{sql_name(column.name)} {kind}{key}{refers}{meaning}{values}"

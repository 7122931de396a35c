"""The ddl style: CREATE TABLE statements whose comments tell what columns mean and hold, for pretrained models.

In and out as in `schema_style.py`.
"""

from __future__ import annotations

from text2sql_rl.prompts.fitting import View
from text2sql_rl.prompts.schema_style import SchemaStyle, keys_shown, sql_name
from text2sql_rl.records import Table


class DdlStyle(SchemaStyle):
    """One CREATE TABLE statement a table, with keys, types, descriptions and up to three example values a column."""

    name = "ddl"
    most_examples = 3
    separator = "\n\n"

    def table(self, table: Table, view: View) -> str:
        """A table as its CREATE TABLE statement."""
        keys = [column.name for column in table.columns if column.primary_key]
        lines: list[tuple[str, str]] = []
        for column in table.columns:
            own_key = " PRIMARY KEY" if keys == [column.name] else ""
            place = table.name, column.name
            examples = ", ".join(view.examples[place])
            said = [text for text in (view.meanings.get(place, ""), examples and f"e.g. {examples}") if text]
            lines.append((f"  {sql_name(column.name)} {column.type}{own_key}", "; ".join(said)))
        if len(keys) > 1:
            lines.append((f"  PRIMARY KEY ({_names(keys)})", ""))
        for key in keys_shown(table, view):
            reference = f"{sql_name(key.table)} ({_names(key.references)})"
            lines.append((f"  FOREIGN KEY ({_names(key.columns)}) REFERENCES {reference}", ""))
        written = [
            f"{line}{',' if number < len(lines) else ''}{f' -- {said}' if said else ''}"
            for number, (line, said) in enumerate(lines, 1)
        ]
        return "\n".join([f"CREATE TABLE {sql_name(table.name)} (", *written, ");"])


def _names(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(sql_name(one) for one in names)

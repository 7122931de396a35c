"""SQL on a rollout log: one query over the table `rollouts`, a row a completion.

In: part files, and SQL of the user's own. Out: an `Answer`, or a `RunError` with what DuckDB said. The query cannot
write, and reads nothing but the log: DuckDB sees the part files through Arrow only, without any file system. Not here:
SQL that a policy wrote; that runs in the sandbox and nowhere else.

The columns are the fields of `rollout_log.LogRow`: run, stage, step, question_id, group_id, total, advantage ...
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.errors import RunError
from text2sql_rl.rollout_log import open_rollouts

TABLE = "rollouts"
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",  # a query that needs more than the memory is an error, not a file beside the user's own
}
# PIVOT is several statements to DuckDB, which its parser gives as one of this kind.
_QUERIES = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave: names and DuckDB types of the columns, and the rows as plain values, ready for JSON.

    Numbers that JSON does not know (NaN, infinities), dates and other values are texts. `more` tells that rows were
    left out because of the limit that was asked for.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool = False

    def as_json(self) -> dict[str, Any]:
        """For programs: the columns in order, and the rows as lists in that order."""
        columns = [{"name": name, "type": kind} for name, kind in zip(self.columns, self.types, strict=True)]
        return {"columns": columns, "rows": [list(row) for row in self.rows]}


def query(parts: Sequence[Path], sql: str, most: int | None = None) -> Answer:
    """Run one query on the rollouts of part files.

    Args:
        parts: part files of rollouts.
        sql: one SELECT, in any form DuckDB reads (WITH, FROM first, PIVOT, DESCRIBE, SUMMARIZE).
        most: the most rows to give; None gives all.

    Raises:
        RunError: it is no single query, it fails, or a part file is damaged or of another schema version.
    """
    log = open_rollouts(parts)
    with duckdb.connect(":memory:", config=_CLOSED) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(TABLE, log)
        connection.execute("SET lock_configuration = true")
        try:
            _refuse_other_statements(connection, sql)
            result = connection.execute(sql)
            names = tuple(str(column[0]) for column in result.description)
            types = tuple(str(column[1]) for column in result.description)
            rows = result.fetchall() if most is None else result.fetchmany(most + 1)
        # The client raises the latter three for values that Python or the text encoding cannot hold.
        except (duckdb.Error, RuntimeError, ValueError, OverflowError) as error:
            raise _failed(str(error)) from error
    shown = rows if most is None else rows[:most]
    return Answer(names, types, tuple(tuple(map(_plain, row)) for row in shown), more=len(shown) < len(rows))


def _refuse_other_statements(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise RunError(f"{len(statements)} statements", field="SQL", fix=f"Give one SELECT on the table {TABLE}.")
    if statements[0].type not in _QUERIES:
        kind = statements[0].type.name
        raise RunError(f"{kind} is no query; the log is only read", field="SQL", fix=f"Give one SELECT on {TABLE}.")


def _failed(message: str) -> RunError:
    said = message.partition("\nLINE ")[0].strip()
    return RunError(said, field="SQL", fix=f"The one table is {TABLE}; its columns: DESCRIBE {TABLE}.")


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Decimal) and value.is_finite():
        return float(value)
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)

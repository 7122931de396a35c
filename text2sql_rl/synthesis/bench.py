"""The bench on which golds are proved: trusted SQL, run in process.

In: a `Database` and gold SQL. Out: the reason why the gold cannot be used, or none. A gold must run, give the same
rows when all tables are stored in reverse order, show something that is not only NULL, not cut a tie with LIMIT, and
differ from each of its mutants. Not here: a candidate's SQL, which never runs in process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import duckdb
from sqlglot import exp, parse_one

from text2sql_rl.databases import quoted
from text2sql_rl.records import Database
from text2sql_rl.synthesis.mutants import mutants

_MAX_ROWS = 5000

Rows = list[tuple[Any, ...]]


class Bench:
    """Two copies in memory of a database: with rows as stored, and in reverse order."""

    def __init__(self, database: Database, connection: duckdb.DuckDBPyConnection) -> None:
        self._columns = {
            table.name: tuple(c.name for c in table.columns if not c.primary_key) for table in database.tables
        }
        self._connection = connection
        path = str(database.instances[0].path).replace("'", "''")
        connection.execute(f"ATTACH '{path}' AS source (READ_ONLY)")
        for schema, order in (("stored", "ASC"), ("reversed", "DESC")):
            connection.execute(f"CREATE SCHEMA {schema}")
            for table in database.tables:
                name = quoted(table.name)
                connection.execute(
                    f"CREATE TABLE {schema}.{name} AS SELECT * FROM source.main.{name} ORDER BY rowid {order}"
                )
        connection.execute("DETACH source")

    def fault(self, sql: str) -> str:
        """Why the gold cannot be used: one word, or an empty text if nothing is wrong with it."""
        gold = self._run(sql, "stored", _MAX_ROWS + 1)
        if gold is None:
            return "error"
        if not gold or len(gold) > _MAX_ROWS:
            return "empty" if not gold else "large"
        if all(value is None for row in gold for value in row):
            return "null"
        if gold == [(0,)]:
            return "zero"
        tree = parse_one(sql, read="duckdb")
        if tree.args.get("limit") is not None and self._cuts_tie(tree):
            return "tie"
        again = self._run(sql, "reversed", _MAX_ROWS + 1)
        if again is None or Counter(again) != Counter(gold):
            return "order"
        ordered = tree.args.get("order") is not None
        for mutant in mutants(sql, self._columns):
            other = self._run(mutant, "stored", len(gold) + 1)
            if other is not None and (other == gold if ordered else Counter(other) == Counter(gold)):
                return "mutant"
        return ""

    def _run(self, sql: str, schema: str, rows: int) -> Rows | None:
        """The first `rows` rows with fractions rounded to nine digits, or None where the SQL fails."""
        try:
            self._connection.execute(f"SET schema = '{schema}'")
            found = self._connection.execute(sql).fetchmany(rows)
        except duckdb.Error:
            return None
        return [tuple(_comparable(value) for value in row) for row in found]

    def _cuts_tie(self, tree: exp.Expr) -> bool:
        """Whether the last row kept ties with the first row cut, or LIMIT cuts nothing."""
        wider = tree.copy()
        count = int(tree.args["limit"].expression.name)
        keys = [ordered.this.copy() for ordered in wider.args["order"].expressions]
        wider.set("expressions", keys)
        wider.set("limit", exp.Limit(expression=exp.Literal.number(count + 1)))
        rows = self._run(wider.sql(dialect="duckdb"), "stored", count + 1)
        return rows is None or len(rows) <= count or rows[-1] == rows[-2]


@contextmanager
def bench(database: Database) -> Iterator[Bench]:
    """A bench for the database, closed at the end."""
    with duckdb.connect(config={"threads": "1"}) as connection:
        yield Bench(database, connection)


def _comparable(value: Any) -> Any:
    if isinstance(value, float | Decimal):
        return float(f"{float(value):.9g}")
    return tuple(value) if isinstance(value, list) else value

"""What synthesis knows of a database: its tables and columns with their values, and how tables hang together.

In: a `Database` (any, also an imported one with odd names). Out: a `Profile`. Relations are single-column
foreign keys that are the only link between two different tables. Not here: choosing what to ask.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import duckdb

from text2sql_rl.databases import open_read_only, quoted
from text2sql_rl.records import Column, Database, Table
from text2sql_rl.synthesis.words import plural, singular, words_of

_MAX_VALUES = 400
_MAX_LITERAL_CHARS = 50
_NUMBERS = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL.*")
_YEARS = range(1600, 2101)
_NO_MEASURE = {"id", "no", "nr", "number", "code", "year", "position", "rank", "key", "zip", "phone", "lat", "lon"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """A column and its values in instance 0: distinct ones, most frequent first (at most 400)."""

    table: str
    name: str
    words: str
    sql: str
    qualified: str
    kind: str  # number, text, date, timestamp, boolean, other
    key: bool
    nullable: bool
    rows: int
    nulls: int
    distinct: int
    values: tuple[Any, ...]

    @property
    def unique(self) -> bool:
        """Whether every row has its own value."""
        return self.nulls == 0 and self.distinct == self.rows

    @property
    def label(self) -> bool:
        """Whether the column names its rows to a person: a text that is different in every row."""
        return self.kind == "text" and self.unique and len(self.literals) >= self.rows * 0.9 > 1

    @property
    def category(self) -> bool:
        """Whether rows fall into a few groups by it, none of them unknown."""
        few = 2 <= self.distinct <= 15 and self.distinct * 2 <= self.rows
        return self.kind == "text" and not self.key and self.nulls == 0 and few

    @property
    def year(self) -> bool:
        """Whether it is a number that counts calendar years, by its name or because all values look like years."""
        if self.kind != "number" or not self.values:
            return False
        return "year" in self.words.split(" ") or all(v in _YEARS for v in self.values)

    @property
    def measure(self) -> bool:
        """Whether sums and averages of it mean something."""
        named = _NO_MEASURE.isdisjoint(self.words.split(" "))
        return self.kind == "number" and not self.key and named and not self.year and self.distinct >= 4

    @property
    def literals(self) -> tuple[Any, ...]:
        """The values a question can quote: short, on one line, without outer blanks."""
        if self.kind != "text":
            return self.values
        short = (v for v in self.values if 0 < len(v) <= _MAX_LITERAL_CHARS)
        return tuple(v for v in short if v == v.strip() and v.isprintable() and '"' not in v)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """A table with its name in SQL and in words."""

    name: str
    sql: str
    one: str
    many: str
    rows: int
    columns: tuple[ColumnProfile, ...]

    def pick(self, r: Random, *wanted: Callable[[ColumnProfile], bool]) -> ColumnProfile | None:
        """A random column that fulfils all wishes, or None."""
        fit = [c for c in self.columns if all(wish(c) for wish in wanted)]
        return r.choice(fit) if fit else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """`child.key` refers to `parent.target`. `childless`: some parent has no child."""

    child: TableProfile
    parent: TableProfile
    key: ColumnProfile
    target: ColumnProfile
    childless: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """All that shapes draw from."""

    name: str
    tables: tuple[TableProfile, ...]
    relations: tuple[Relation, ...]


def profile(database: Database) -> Profile:
    """Reads the profile of a database from its instance 0.

    Left out are tables without rows, and tables and columns that words cannot tell apart (`order` and `orders`).
    """
    spoken = Counter(plural(words_of(t.name)) for t in database.tables)
    with open_read_only(database.instances[0].path) as connection:
        reserved = _reserved(connection)
        tables = {
            t.name: _table(connection, t, reserved)
            for t in database.tables
            if t.rows and t.columns and spoken[plural(words_of(t.name))] == 1
        }
        relations = []
        for table in database.tables:
            for key in table.foreign_keys:
                links = [k for k in table.foreign_keys if k.table == key.table]
                back = any(
                    k.table == table.name for t in database.tables if t.name == key.table for k in t.foreign_keys
                )
                lone = len(links) == 1 and len(key.columns) == 1 and key.table != table.name and not back
                if lone and table.name in tables and key.table in tables:
                    relation = _relation(
                        connection, tables[table.name], tables[key.table], key.columns[0], key.references[0]
                    )
                    relations.append(relation)
    return Profile(name=database.name, tables=tuple(tables.values()), relations=tuple(relations))


def _reserved(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    found = connection.execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'")
    return frozenset(row[0] for row in found.fetchall())


def identifier(name: str, reserved: frozenset[str]) -> str:
    """The name as SQL, in quotes only where it needs them."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in reserved
    return name if plain else quoted(name)


def _table(connection: duckdb.DuckDBPyConnection, table: Table, reserved: frozenset[str]) -> TableProfile:
    keys = {c.name for c in table.columns if c.primary_key} | {n for k in table.foreign_keys for n in k.columns}
    words = words_of(table.name)
    spoken = Counter(words_of(c.name) for c in table.columns)
    return TableProfile(
        name=table.name,
        sql=identifier(table.name, reserved),
        one=singular(words),
        many=plural(words),
        rows=table.rows,
        columns=tuple(
            _column(connection, table, c, c.name in keys, reserved)
            for c in table.columns
            if spoken[words_of(c.name)] == 1 or c.name in keys
        ),
    )


def _column(
    connection: duckdb.DuckDBPyConnection, table: Table, column: Column, key: bool, reserved: frozenset[str]
) -> ColumnProfile:
    name, source = quoted(column.name), quoted(table.name)
    kind = _kind(column.type)
    distinct, known, values = 0, 0, ()
    if kind != "other":
        counts = connection.execute(f"SELECT count(DISTINCT {name}), count({name}) FROM {source}").fetchone()
        distinct, known = counts or (0, 0)
        found = connection.execute(
            f"SELECT {name} FROM {source} WHERE {name} IS NOT NULL "
            f"GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT {_MAX_VALUES}"
        ).fetchall()
        values = tuple(row[0] for row in found if not isinstance(row[0], float) or math.isfinite(row[0]))
    plain = identifier(column.name, reserved)
    return ColumnProfile(
        table=table.name,
        name=column.name,
        words=words_of(column.name),
        sql=plain,
        qualified=f"{identifier(table.name, reserved)}.{plain}",
        kind=kind,
        key=key,
        nullable=column.nullable,
        rows=table.rows,
        nulls=table.rows - known if kind != "other" else 0,
        distinct=distinct,
        values=values,
    )


def _kind(type_name: str) -> str:
    if _NUMBERS.fullmatch(type_name):
        return "number"
    if type_name == "VARCHAR" or (type_name.startswith("ENUM(") and type_name.endswith(")")):
        return "text"
    return {"DATE": "date", "TIMESTAMP": "timestamp", "BOOLEAN": "boolean"}.get(type_name, "other")


def _relation(
    connection: duckdb.DuckDBPyConnection, child: TableProfile, parent: TableProfile, key: str, target: str
) -> Relation:
    lonely = connection.execute(
        f"SELECT count(*) FROM {quoted(parent.name)} AS p WHERE NOT EXISTS "
        f"(SELECT 1 FROM {quoted(child.name)} AS c WHERE c.{quoted(key)} = p.{quoted(target)})"
    ).fetchone()
    return Relation(
        child=child,
        parent=parent,
        key=next(c for c in child.columns if c.name == key),
        target=next(c for c in parent.columns if c.name == target),
        childless=bool(lonely and lonely[0]),
    )

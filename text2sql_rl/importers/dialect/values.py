"""What the columns of a database hold, in both engines' terms: what the rules know beside the SQL itself.

In: the tables of the DuckDB file and, for a SQLite source, what its columns were declared as. Out: a `Schema` of
`Kind`s. Affinity and comparison follow https://sqlite.org/datatype3.html. Not here: which column a name in a query
stands for (names.py), reading the source (`facts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from text2sql_rl.records import Table


class Holds(StrEnum):
    """What DuckDB holds of an expression."""

    INT = "int"
    REAL = "real"
    TEXT = "text"
    BOOL = "bool"
    OTHER = "other"  # dates, lists, blobs: the rules leave them alone
    UNKNOWN = "unknown"


class Affinity(StrEnum):
    """What SQLite turns the other side of a comparison into; an expression that is no column or cast has none."""

    TEXT = "text"
    NUMBER = "number"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Kind:
    """One expression: `nullable` when it may be NULL, `clean` when all its texts read as numbers.

    `pure` when a SQLite column of number affinity holds nothing but texts that are no numbers (dates, mostly); `dirty`
    when the value comes from a column that is `mixed`; `nocase` when SQLite compares it without letter case.
    """

    holds: Holds = Holds.UNKNOWN
    affinity: Affinity = Affinity.NONE
    nullable: bool = True
    clean: bool = False
    pure: bool = False
    dirty: bool = False
    nocase: bool = False

    @property
    def number(self) -> bool:
        """Whether it is a number (or a truth value, which is 0 or 1 elsewhere)."""
        return self.holds in (Holds.INT, Holds.REAL, Holds.BOOL)

    @property
    def text(self) -> bool:
        """Whether it is a text."""
        return self.holds is Holds.TEXT

    @property
    def mixed(self) -> bool:
        """Whether it is of a SQLite number column that holds texts as well, all of them texts in DuckDB."""
        return self.text and (self.dirty or self.affinity is Affinity.NUMBER) and not self.pure

    def bare(self) -> Kind:
        """The same value without affinity, as an expression has it."""
        return replace(self, affinity=Affinity.NONE, dirty=self.mixed)


UNKNOWN = Kind()
BOOL = Kind(Holds.BOOL)
INT = Kind(Holds.INT)
REAL = Kind(Holds.REAL)
TEXT = Kind(Holds.TEXT)

_TYPES = {
    Holds.INT: "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT INT",
    Holds.REAL: "FLOAT DOUBLE DECIMAL REAL NUMERIC",
    Holds.TEXT: "VARCHAR TEXT CHAR",
    Holds.BOOL: "BOOLEAN BOOL",
}
_BY_TYPE = {name: holds for holds, names in _TYPES.items() for name in names.split()}


def holds_of(type_name: str) -> Holds:
    """What a DuckDB type holds, e.g. DECIMAL(8,2) -> REAL; arrays and dates are OTHER."""
    if type_name.endswith("]"):
        return Holds.OTHER
    return _BY_TYPE.get(type_name.upper().split("(")[0].strip(), Holds.OTHER)


def affinity_of(declared: str) -> Affinity:
    """The affinity of a declared SQLite type (datatype3.html, section 3.1)."""
    name = declared.upper()
    if "INT" in name:
        return Affinity.NUMBER
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return Affinity.TEXT
    return Affinity.NONE if not name or "BLOB" in name else Affinity.NUMBER


@dataclass(frozen=True, slots=True)
class Fact:
    """What only the source knows of a column; see `Kind`."""

    affinity: Affinity
    clean: bool = False
    pure: bool = False
    nocase: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view: its columns by lower-cased name, in order, and the columns of its primary key."""

    name: str
    columns: Mapping[str, Kind]
    spelled: tuple[str, ...]
    key: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Schema:
    """The relations of a database by lower-cased name."""

    relations: Mapping[str, Relation] = field(default_factory=dict)


def schema_of(tables: Sequence[Table], facts: Mapping[tuple[str, str], Fact] | None = None) -> Schema:
    """The schema the rules read.

    Args:
        tables: as `databases.read_schema` gives them.
        facts: by lower-cased (table, column); without them a column's affinity is that of its type.
    """
    relations = {}
    for table in tables:
        columns = {}
        for column in table.columns:
            holds = holds_of(column.type)
            fact = (facts or {}).get((table.name.lower(), column.name.lower()))
            if fact is None:
                fact = Fact(Affinity.TEXT if holds is Holds.TEXT else Affinity.NUMBER)
            columns[column.name.lower()] = Kind(
                holds, fact.affinity, column.nullable, fact.clean, fact.pure, nocase=fact.nocase
            )
        relations[table.name.lower()] = Relation(
            table.name,
            columns,
            tuple(column.name for column in table.columns),
            frozenset(column.name.lower() for column in table.columns if column.primary_key),
        )
    return Schema(relations)

"""What a SELECT sees while its text is traced: the rows it names, and what is known of their columns.

In: names. Out: for a name, the texts of the literals that it can only stand for, or None where it reads a table.
Not here: how expressions and queries are traced (traced.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

# The texts of the literals that an expression can only be made of; None where it reads.
Value = frozenset[str] | None
# Stands for an answer that is empty, or an aggregate over nothing, whatever the rows are. No literal looks like it.
NOTHING = "\0nothing"


def joined(values: Iterable[Value]) -> Value:
    """One value of several that are all needed: what reads anywhere reads."""
    found: set[str] = set()
    for value in values:
        if value is None:
            return None
        found |= value
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows with what is known of their columns.

    `open`: there are other columns, of a table. `never`: there are no rows. `reads`: a table may decide how many.
    """

    columns: tuple[tuple[str, Value], ...] = ()
    open: bool = False
    never: bool = False
    reads: bool = True

    def column(self, name: str) -> Value:
        """What the column of this name is made of."""
        if self.never:
            return frozenset((NOTHING,))
        found = [value for known, value in self.columns if known == name]
        # An unknown name of rows that are all typed in is one of their columns, under the engine's name for it.
        return found[0] if found else self.whole()

    def has(self, name: str) -> bool:
        """Whether a column of this name is known."""
        return any(known == name for known, _ in self.columns)

    def whole(self) -> Value:
        """What all columns together are made of."""
        return None if self.open else joined(value for _, value in self.columns)


TABLE = Relation(open=True)


@dataclass(slots=True)
class Scope:
    """The names that an expression sees: sources of its SELECT, earlier aliases, WITH, and the SELECTs around it."""

    outer: Scope | None = None
    sources: list[tuple[str, Relation]] = field(default_factory=list)
    named: dict[str, Relation] = field(default_factory=dict)
    aliases: dict[str, Value] = field(default_factory=dict)
    select: exp.Select | None = None
    _depends: bool | None = None

    def around(self) -> Iterator[Scope]:
        """This scope and those around it, from the inside."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def cte(self, name: str) -> Relation | None:
        """The rows that a WITH gives this name."""
        return next((scope.named[name] for scope in self.around() if name in scope.named), None)

    def source(self, alias: str) -> Relation | None:
        """The rows that FROM or JOIN names so."""
        found = (own for scope in self.around() for known, own in scope.sources if known == alias)
        return next(found, None)

    def value(self, name: str, table: str = "") -> Value:
        """What a column can stand for. A qualifier that names no source is a column, and the name a field of it."""
        if not table:
            return self._unqualified(name)
        source = self.source(table)
        return source.column(name) if source is not None else self._unqualified(table)

    def reads(self, node: exp.Expr) -> bool:
        """Whether a table of the database is named within, itself or behind a WITH."""
        for table in node.find_all(exp.Table):
            if isinstance(table.this, exp.Identifier):
                named = None if table.db else self.cte(table.name.lower())
                if named is None or named.reads:
                    return True
        return False

    def depends(self) -> bool:
        """Whether the number of rows of this SELECT can depend on a table."""
        if self._depends is None:
            of_tables = self.select is None or any(own.open for _, own in self.sources)
            self._depends = of_tables or (self.select is not None and self.reads(self.select))
        return self._depends

    def _unqualified(self, name: str) -> Value:
        for around in self.around():
            for alias, source in around.sources:
                if source.has(name):
                    return source.column(name)
                if alias == name and not source.open:
                    return source.whole()
            if name in around.aliases:
                return around.aliases[name]
            if any(source.open for _, source in around.sources):
                return None
        return joined(source.whole() for around in self.around() for _, source in around.sources)

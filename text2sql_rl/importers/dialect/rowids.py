"""rowid: a table's key where that is one whole number, as in SQLite; else the place of the row, counted from 1."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names, enclosing
from text2sql_rl.importers.dialect.values import Holds, Relation

_ROWID = ("rowid", "_rowid_", "oid")


def apply(tree: exp.Expr, names: Names) -> int:
    """Write every rowid as the key it is; how many."""
    changed = 0
    for column in list(tree.find_all(exp.Column)):
        if column.name.lower() not in _ROWID or names.find(column) is not None:
            continue
        found = _relation(column, names)
        if found is None:
            continue
        key = next(iter(found.key), "")
        if len(found.key) == 1 and found.columns[key].holds is Holds.INT:
            spelled = next(name for name in found.spelled if name.lower() == key)
            column.set("this", exp.to_identifier(spelled))
        else:
            place = exp.column("rowid", column.args.get("table"))
            column.replace(exp.paren(exp.Add(this=place, expression=exp.Literal.number(1))))
        changed += 1
    return changed


def _relation(column: exp.Column, names: Names) -> Relation | None:
    """The stored table a rowid is of; None where it is an output name, or of a subquery."""
    query = enclosing(column)
    while query is not None:
        sources = names.sources(query)
        if names.named(query, column) is not None:
            return None
        own = [one for alias, one in sources.items() if not column.table or alias == column.table.lower()]
        if own:
            return own[0] if own[0].name and own[0].columns else None
        query = enclosing(query)
    return None

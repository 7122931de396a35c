"""CAST: SQLite reads the number a text begins with and cuts fractions off; DuckDB refuses the text and rounds.

CAST to a type DuckDB has no equal of goes by SQLite's affinity of the type's name. A cast to DATE or another type of
numeric affinity is the number SQLite makes of it. MySQL reads the number a text begins with as well.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import as_whole, prefix_number
from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.values import Affinity, Holds, affinity_of


def apply(tree: exp.Expr, names: Names) -> int:
    """Rewrite the casts SQLite or MySQL does otherwise; how many."""
    if names.dialect == "mysql":
        return _of_texts(tree, names)
    changed = 0
    for cast in list(tree.find_all(exp.Cast)):
        if isinstance(cast, exp.TryCast):
            continue
        to, kind = cast.args["to"], names.kind(cast.this)
        if to.is_type("text", "varchar", "char", "nchar", "nvarchar"):
            cast.set("to", exp.DataType.build("text"))
            continue
        affinity = affinity_of(to.sql("sqlite"))
        if affinity is not Affinity.NUMBER or kind.holds in (Holds.OTHER, Holds.UNKNOWN):
            continue
        whole = to.is_type(*exp.DataType.INTEGER_TYPES)
        value = cast.this.copy()
        if kind.holds is Holds.BOOL:
            value = as_whole(value)
        elif kind.text:
            value = prefix_number(value, kind)
        if whole and (kind.text or kind.holds is Holds.REAL):
            value = exp.Anonymous(this="TRUNC", expressions=[value])
        target = "bigint" if whole else "double"
        if not whole and to.is_type("decimal") and kind.holds is not Holds.TEXT:
            cast.replace(value) if kind.holds is Holds.INT else cast.set("to", exp.DataType.build("double"))
        elif value == cast.this and whole:
            continue
        else:
            cast.replace(exp.cast(value, target))
        changed += 1
    return changed


def _of_texts(tree: exp.Expr, names: Names) -> int:
    """A text cast to a number is the number it begins with."""
    changed = 0
    for cast in list(tree.find_all(exp.Cast)):
        to, kind = cast.args["to"], names.kind(cast.this)
        whole = to.is_type(*exp.DataType.INTEGER_TYPES)
        if kind.text and (whole or to.is_type("decimal", "double", "float")):
            value = prefix_number(cast.this.copy(), kind)
            cast.set("this", exp.Anonymous(this="TRUNC", expressions=[value]) if whole else value)
            changed += 1
    return changed

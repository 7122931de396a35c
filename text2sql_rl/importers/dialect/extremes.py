"""MIN, MAX and ORDER BY over a number column that holds texts as well: numbers come first, by value, then texts."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import number_or_last, try_number
from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Order such columns as SQLite does; how many places changed."""
    changed = 0
    for node in list(tree.find_all(exp.Min, exp.Max)):
        if names.kind(node.this).mixed:
            # The least is a number wherever there is one; the greatest is a text wherever there is one.
            own, least = node.this.copy(), isinstance(node, exp.Min)
            numbers = (exp.ArgMin if least else exp.ArgMax)(this=own, expression=try_number(own.copy()))
            is_text = exp.Is(this=try_number(own.copy()), expression=exp.Null())
            texts = exp.Filter(this=type(node)(this=own.copy()), expression=exp.Where(this=is_text))
            node.replace(exp.func("COALESCE", *((numbers, texts) if least else (texts, numbers))))
            changed += 1
    for order in list(tree.find_all(exp.Order)):
        keys: list[exp.Expr] = []
        for key in order.expressions:
            kind = names.kind(key.this) if isinstance(key, exp.Ordered) else None
            if kind is not None and kind.mixed:
                first = key.copy()
                first.this.replace(number_or_last(key.this.copy(), kind.nullable))
                keys.append(first)
                changed += 1
            keys.append(key)
        order.set("expressions", keys)
    return changed

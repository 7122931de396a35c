"""LIKE takes no notice of letter case in SQLite and MySQL: it becomes ILIKE where the pattern has letters."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Rewrite LIKE, with its NOT and ESCAPE; how many."""
    changed = 0
    for like in list(tree.find_all(exp.Like)):
        pattern = like.expression
        if isinstance(pattern, exp.Literal) and pattern.this.upper() == pattern.this.lower():
            continue
        like.replace(exp.ILike(**{key: value for key, value in like.args.items() if value is not None}))
        changed += 1
    return changed

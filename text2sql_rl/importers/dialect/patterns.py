"""Patterns: SIMILAR TO of Postgres has % and _, where DuckDB reads a regular expression; MySQL's REGEXP takes no notice
of letter case.
"""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Rewrite the patterns that mean something else; how many."""
    changed = 0
    for node in list(tree.find_all(exp.SimilarTo, exp.RegexpLike)):
        pattern = node.expression
        if isinstance(node, exp.RegexpLike):
            if names.dialect != "mysql" or node.args.get("flag"):
                continue
            node.set("flag", exp.Literal.string("i"))
        elif isinstance(pattern, exp.Literal) and pattern.is_string:
            written = pattern.this.replace(".", "[.]").replace("%", ".*").replace("_", ".")
            found = exp.Anonymous(this="REGEXP_FULL_MATCH", expressions=[node.this, exp.Literal.string(written)])
            node.replace(found)
        else:
            continue
        changed += 1
    return changed

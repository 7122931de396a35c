"""Random samples: the seed is fixed, so that a gold gives the same rows each time it runs."""

from __future__ import annotations

from sqlglot import exp

from text2sql_rl.importers.dialect.names import Names


def apply(tree: exp.Expr, names: Names) -> int:
    """Give every sample without a seed one; how many."""
    changed = 0
    for sample in tree.find_all(exp.TableSample):
        if not sample.args.get("seed"):
            sample.set("seed", exp.Literal.number(1))
            changed += 1
    return changed

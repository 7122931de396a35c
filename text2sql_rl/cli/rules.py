"""The commands on reward rules: `text2sql-rl rewards ...`.

In: a rule's name or path. Out: what it pays, in words.
"""

from __future__ import annotations

import typer

from text2sql_rl.cli.options import RuleName

app = typer.Typer(help="Look at reward rules.", no_args_is_help=True)


@app.command()
def show(rule: RuleName) -> None:
    """Tell in words what a rule pays, deducts and caps, and what every outcome earns."""
    from text2sql_rl.scoring import describe, load_rule

    typer.echo(describe(load_rule(rule)))

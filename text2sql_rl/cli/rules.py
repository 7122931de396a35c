"""The commands on reward rules: `text2sql-rl rewards ...`, and `text2sql-rl replay`.

In: a rule's name or path; a run with logged rollouts. Out: what a rule pays, what it breaks, what another one would
have paid. Nothing runs a candidate.
"""

from __future__ import annotations

import typer

from text2sql_rl.cli.options import AsJson, RuleName, as_text, open_rule

app = typer.Typer(help="Read, check and compare reward rules.", no_args_is_help=True)


@app.command()
def show(rule: RuleName) -> None:
    """Tell in words what a rule pays, deducts and caps, and what every outcome earns."""
    from text2sql_rl.scoring import describe

    typer.echo(describe(open_rule(rule)))


@app.command()
def check(rule: RuleName, as_json: AsJson = False) -> None:
    """Hold a rule against everything rules must hold; exit code 1 with the counterexamples where it does not."""
    from text2sql_rl.compare.policy import differences
    from text2sql_rl.scoring.check import check_rule

    found = check_rule(rule, differences)
    typer.echo(as_text(found.as_json()) if as_json else "\n".join(found.lines()))
    raise typer.Exit(0 if found.passed else 1)

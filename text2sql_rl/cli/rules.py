"""The commands on reward rules: `text2sql-rl rewards ...`.

In: a rule's name or path; a run with logged rollouts. Out: what a rule pays, what it breaks, what another one would
have paid. Nothing runs a candidate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from text2sql_rl.cli.options import AsJson, RuleName, as_text

app = typer.Typer(help="Read, check and compare reward rules.", no_args_is_help=True)


@app.command()
def show(rule: RuleName) -> None:
    """Tell in words what a rule pays, deducts and caps, and what every outcome earns."""
    from text2sql_rl.scoring import describe, load_rule

    typer.echo(describe(load_rule(rule)))


@app.command()
def check(rule: RuleName, as_json: AsJson = False) -> None:
    """Hold a rule against everything rules must hold; exit code 1 with the counterexamples where it does not."""
    from text2sql_rl.compare.policy import differences
    from text2sql_rl.scoring.check import check_rule

    found = check_rule(rule, differences)
    typer.echo(as_text(found.as_json()) if as_json else "\n".join(found.lines()))
    raise typer.Exit(0 if found.passed else 1)


@app.command()
def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A rule of rewards/rules: its name or a path.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The rule that would replace it: its name or a path.")],
    rollouts: Annotated[
        Path, typer.Option(metavar="RUN", help="A run folder, or any folder of rollout files.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Recompute logged rollouts under two rules: mean rewards, rank flips, spread, gates that change."""
    from text2sql_rl.replay import compare_rules, open_source
    from text2sql_rl.scoring import load_rule

    source = open_source(rollouts)
    found = compare_rules(source, load_rule(old), load_rule(new), _texts())
    typer.echo(as_text(found.as_json()) if as_json else "\n".join(found.lines()))


def _texts() -> dict[str, str]:
    """Question id -> text, of the question sets at hand; a log without its data is compared all the same."""
    from text2sql_rl.config import content_root
    from text2sql_rl.errors import DataError
    from text2sql_rl.questions import load_questions

    try:
        sets = load_questions(content_root() / "data")
    except DataError:
        return {}
    return {question.id: question.text for role in sets.roles() for question in sets.role(role)}

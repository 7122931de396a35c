"""The command that recomputes a log: `text2sql-rl replay`.

In: a run with logged rollouts. Out: what differs. Nothing runs a candidate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from text2sql_rl.cli.options import AsJson, as_text

app = typer.Typer()


@app.command()
def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or any folder of rollout files.")],
    as_json: AsJson = False,
) -> None:
    """Compute every logged reward again from the log and its rule; exit code 1 where anything differs."""
    from text2sql_rl import replay as recomputing

    found = recomputing.replay(recomputing.open_source(run))
    typer.echo(as_text(found.as_json()) if as_json else "\n".join(found.lines()))
    raise typer.Exit(0 if found.passed else 1)

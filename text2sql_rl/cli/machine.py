"""The command that looks at the machine: `text2sql-rl doctor`.

In: nothing. Out: what a run needs and whether it is there.
"""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def doctor() -> None:
    """Look at what a run needs, and try to break out of the sandbox; exit code 1 where something is bad."""
    from text2sql_rl.doctor import State, examine

    bad = 0
    for finding in examine():
        bad += finding.state is State.BAD
        typer.echo(f"{finding.state:<5}  {finding.name:<32} {finding.found}")
    typer.echo(f"\n{bad} bad: correct that before a run" if bad else "\nnothing is in the way of a run")
    raise typer.Exit(1 if bad else 0)

"""The command that shows runs live: `text2sql-rl serve RUN...`.

In: run folders. Out: a place for the browser, until Ctrl-C.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def serve(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, e.g. runs/demo; they may still be training.")
    ],
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes any that is free.")
    ] = 8000,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen on. Whoever reaches it can read the runs and have SQL judged.",
        ),
    ] = "127.0.0.1",
) -> None:
    """Show the report live while a run trains, and a playground that judges any SQL at once; Ctrl-C ends it."""
    from text2sql_rl.runs import RunFolder
    from text2sql_rl.serve import Server
    from text2sql_rl.serve.guards import is_loopback

    with Server([RunFolder(run) for run in runs], host, port) as server:
        try:
            typer.echo(f"{server.url}  (Ctrl-C ends it)")
            if not is_loopback(host):
                typer.echo(f"warning: whoever reaches {host} can read the runs and have SQL judged here", err=True)
            server.serve()
        except KeyboardInterrupt:
            typer.echo("ended")

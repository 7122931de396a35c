"""The commands, each a few lines: parse, call one room, show what it said.

In: a command line. Out: text on stdout, one line on stderr for what the user can put right. Exit codes: 0 done, 1 an
expectation was missed, 2 wrong input or a failed stage, 130 and 143 interrupted. Rooms are imported by the command that
needs them, so that `--help` and `judge` start fast. One file holds one kind of command; their order here is the order
in `--help`.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from text2sql_rl import __version__
from text2sql_rl.cli import (
    content,
    evaluating,
    importing,
    importing_questions,
    judging,
    machine,
    models,
    prompting,
    reading,
    redteam,
    replays,
    rules,
    serving,
    stages,
    validating,
)
from text2sql_rl.errors import Text2SqlError

# What DuckDB raises in place of the exit or KeyboardInterrupt that a signal raised while it worked.
_DUCKDB_INTERRUPTED = "Query interrupted"
_ended: list[int] = []
_BY_SIGNAL = (128 + signal.SIGINT, 128 + signal.SIGTERM)

app = typer.Typer(
    name="text2sql-rl",
    help="Train language models to answer questions in SQL, with rewards that are verified by running it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for group in (
    stages,
    serving,
    evaluating,
    judging,
    redteam,
    replays,
    reading,
    content,
    validating,
    prompting,
    models,
    machine,
):
    app.add_typer(group.app)
importing.app.add_typer(importing_questions.app)
app.add_typer(importing.app, name="import")
app.add_typer(rules.app, name="rewards")


def main() -> None:
    """Run the command line; every error a user can put right is one line on stderr and exit code 2."""
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except Text2SqlError as error:
        # An engine's message may have lines; an error of ours is one.
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        sys.exit(2)
    except RuntimeError as error:
        if str(error) != _DUCKDB_INTERRUPTED:
            raise
        number = signal.SIGTERM if _ended else signal.SIGINT
        sys.stderr.write("Aborted.\n")
        sys.exit(128 + number)
    except SystemExit as end:
        if end.code in _BY_SIGNAL:
            sys.stderr.write("Aborted.\n")
        raise


def _end(number: int, frame: object) -> None:
    _ended.append(number)
    sys.exit(128 + number)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"text2sql-rl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass

"""The commands that write content: questions for a database.

In: names of databases. Out: question files.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


class Wording(StrEnum):
    """How a synthesized question may be worded."""

    all = "all"
    mostly_common = "mostly_common"
    common = "common"


@app.command()
def synthesize(
    databases: Annotated[list[str], typer.Argument(metavar="DATABASE...", help="Folders of databases/.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The JSONL file to write, e.g. data/train/rl.jsonl.")],
    count: Annotated[
        int, typer.Option(metavar="N", min=1, help="Questions in all, spread evenly over the databases.")
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The same seed gives the same questions.")] = 0,
    wording: Annotated[
        Wording, typer.Option(metavar="HOW", help="all: every way of saying a thing; mostly_common; common.")
    ] = Wording.all,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="SHAPE", help="A SQL shape to use; once for each. All where none is given."),
    ] = None,
    avoid: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A question file whose texts may not come again; once for each."),
    ] = None,
) -> None:
    """Write questions with checked gold SQL for any database."""
    from text2sql_rl.content import open_store
    from text2sql_rl.questions import load_file
    from text2sql_rl.records import Split
    from text2sql_rl.runs.files import refuse_unwritable
    from text2sql_rl.synthesis import synthesize_to_file

    refuse_unwritable(out)
    taken = [question.text for path in avoid or () for question in load_file(path, Split.TRAIN)]
    made = synthesize_to_file(
        open_store(), databases, out, count, seed, wording=wording.value, shapes=shape or (), taken=taken
    )
    typer.echo(f"{made} questions: {out}")

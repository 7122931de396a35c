"""The command that looks at question sets before anything is trained or measured on them: `text2sql-rl validate`.

In: question sets. Out: counts by reject and flag, and a file of them. Exit code 1 where a gold is rejected.
"""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from text2sql_rl.cli.options import AsJson, as_text

app = typer.Typer()


@app.command()
def validate(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A question file, the name of a set, or the folder of a content root."),
    ],
    rule: Annotated[
        str, typer.Option(metavar="RULE", help="The rule whose maximum every gold must earn: its name or a path.")
    ] = "bound-v1",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a JSONL line for every question rejected or flagged.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run every gold, judge it against itself, and flag what makes it weak evidence."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from text2sql_rl.importers.layout import write_lines
    from text2sql_rl.runs.files import refuse_unwritable
    from text2sql_rl.scoring import load_rule
    from text2sql_rl.validation import read_material, validate

    if out is not None:
        refuse_unwritable(out)
    material = read_material(data)
    screen = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("questions", total=len(material.questions))
        report = validate(
            material,
            load_rule(rule),
            material.store.cache.parent,
            done=lambda count: progress.update(task, completed=count),
        )
    if out is not None:
        write_lines(out, [dumps(one.as_json(), ensure_ascii=False) for one in report.marked()])
    typer.echo(as_text(report.as_json()) if as_json else "\n".join(report.lines()))
    raise typer.Exit(1 if report.rejected else 0)

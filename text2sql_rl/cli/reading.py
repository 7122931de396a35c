"""The commands that read what a run left: its rollout log in SQL, its groups, its checkpoints.

In: a run folder. Out: rows, groups as a person wants to read them, a plain model folder. The run stays as it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from text2sql_rl.cli.options import AsJson, as_text, console

app = typer.Typer()

# A console holds no more; --json gives all rows.
_MOST_SHOWN = 1_000


@app.command()
def rollouts(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or any folder of rollout files.")],
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One query; its table is `rollouts`, a row a completion.")],
    as_json: AsJson = False,
) -> None:
    """Query the rollout log of a run with DuckDB; it cannot write, and reads nothing else."""
    from text2sql_rl.inspection.query import query
    from text2sql_rl.inspection.words import query_table
    from text2sql_rl.replay import open_source

    found = query(open_source(run).parts, sql, None if as_json else _MOST_SHOWN)
    if as_json:
        typer.echo(as_text(found.as_json()))
        return
    console().print(query_table(found.columns, found.rows))
    if found.more:
        typer.echo(f"the first {_MOST_SHOWN:,} rows; --json gives all")


@app.command()
def inspect(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, e.g. runs/demo.")],
    stage: Annotated[str, typer.Option(metavar="STAGE", help="A stage that logged rollouts.")] = "grpo",
    step: Annotated[int | None, typer.Option(metavar="N", help="Only this step.")] = None,
    group: Annotated[int | None, typer.Option(metavar="N", help="With --step: this group of it, in full.")] = None,
    question: Annotated[str, typer.Option(metavar="ID", help="The groups of this question, in full.")] = "",
    most: Annotated[int, typer.Option(metavar="N", min=1, help="The most groups that are listed or shown.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a group with every candidate's evidence; without --group or --question, list the most telling groups."""
    from text2sql_rl.explain import visible
    from text2sql_rl.inspection.groups import choose, open_stage, telling, view
    from text2sql_rl.inspection.words import overview, view_lines
    from text2sql_rl.runs import RunFolder

    if group is not None and (step is None or question):
        raise typer.BadParameter("goes with --step, and without --question.", param_hint="--group")
    log = open_stage(RunFolder(run), stage)
    lines = choose(log, step=step, number=group, question_id=question)
    if group is None and not question:
        chosen = telling(lines, most)
        if as_json:
            typer.echo(as_text({"stage": stage, "groups": len(lines), "telling": [one.as_json() for one in chosen]}))
        else:
            console().print(overview(log, lines, chosen))
        return
    views = view(log, lines[:most])
    if as_json:
        typer.echo(as_text({"groups": [one.as_json() for one in views]}))
        return
    typer.echo("\n\n".join(visible("\n".join(view_lines(one))) for one in views))
    if len(lines) > most:
        typer.echo(f"\n{len(lines) - most} more groups; --most {len(lines)} shows all")


@app.command()
def export(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run, a run and a stage as in runs/demo:sft, or a checkpoint.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make; it may not exist.")],
) -> None:
    """Write a trained policy as a plain Hugging Face folder, an adapter merged into its base model."""
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")  # read when it is imported
    from text2sql_rl.learn import export as exporting

    typer.echo(str(exporting.export(exporting.find_checkpoint(model), out)))

"""The command that looks at what a policy is asked: `text2sql-rl prompts`.

In: question sets, a style, a limit. Out: how long prompts are, what of the schema they show, what they lack. Exit code
1 where a prompt does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import typer

from text2sql_rl.cli.options import AsJson, as_text

app = typer.Typer()


@app.command()
def prompts(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A question file, the name of a set, or the folder of a content root."),
    ],
    style: Annotated[
        Literal["ddl", "compact"],
        typer.Option(metavar="STYLE", help="How schema and question are written: ddl or compact."),
    ] = "ddl",
    max_tokens: Annotated[
        int, typer.Option(metavar="N", min=16, help="The most tokens of a prompt, as sampling.max_prompt_tokens.")
    ] = 1536,
    model: Annotated[
        str,
        typer.Option(metavar="NAME", help="Count tokens as this model does; else a token is taken for 3 characters."),
    ] = "",
    show: Annotated[str, typer.Option(metavar="ID", help="Print the prompt of this question instead.")] = "",
    as_json: AsJson = False,
) -> None:
    """Tell how long the prompts of question sets are, what the schema filter loses, and which do not fit."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from text2sql_rl.errors import DataError
    from text2sql_rl.prompts import make_style
    from text2sql_rl.prompts.schema_style import SchemaStyle
    from text2sql_rl.prompts.survey import survey
    from text2sql_rl.validation import read_material

    material = read_material(data)
    chosen = [question for question in material.questions if not show or question.id == show]
    if not chosen:
        raise DataError(f"there is no question {show!r}", file=data, field="--show", fix="Give an id of the set.")
    made = make_style(style, max_tokens=max_tokens)
    assert isinstance(made, SchemaStyle)

    count = token_counter_of(model)
    pairs = [(question, material.store.get(question.database)) for question in chosen]
    screen = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("prompts", total=len(pairs))
        found = survey(pairs, made, count, lambda number: progress.update(task, completed=number))
    if show:
        typer.echo("\n".join(made.prompt(*pair).text for pair in pairs))
    else:
        typer.echo(as_text(found.as_json()) if as_json else "\n".join(found.lines()))
        if not (model or as_json):
            typer.echo("a token is taken for 3 characters; --model NAME counts as that model does")
    raise typer.Exit(1 if found.too_long else 0)


def token_counter_of(model: str) -> Callable[[str], int]:
    """What counts a prompt's tokens as this model does; without a name, the estimate of 3 characters a token."""
    if not model:
        from text2sql_rl.policy.unasked import estimated_tokens

        return estimated_tokens
    from text2sql_rl.pipeline.stages import prepare_environment

    prepare_environment()
    from text2sql_rl.policy.hf import load_tokenizer, token_counter

    return token_counter(load_tokenizer(model))

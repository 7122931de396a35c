"""What several commands share: their arguments, and how they print.

In: nothing. Out: typer's annotated types, JSON for machines, the console for people. Holds no command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A run config, e.g. configs/demo.yaml.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace one field of the config, e.g. seed=2.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
RuleName = Annotated[str, typer.Argument(metavar="RULE", help="A rule of rewards/rules: its name or a path.")]


def as_text(content: Mapping[str, Any]) -> str:
    """Render an object as the JSON a command prints."""
    return json.dumps(content, indent=1, ensure_ascii=False)


def console() -> Console:
    """Open the console that tables and progress are drawn on."""
    from rich.console import Console

    return Console()


@contextmanager
def progress_bar(of: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr where there is a terminal; call it with how many are done, and of how many."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    screen = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars:
        task = bars.add_task(of, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)

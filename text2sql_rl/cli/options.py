"""What several commands share: their arguments, and how they print.

In: nothing. Out: typer's annotated types, JSON for machines, the console for people, and a rule with its warning.
Holds no command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from text2sql_rl.scoring import Rule

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


def open_rule(name_or_path: str) -> Rule:
    """Load a rule, and say on stderr when it is deliberately bad.

    Raises:
        ConfigError: no such rule, or one that breaks what rules must hold.
    """
    from text2sql_rl.scoring import load_rule

    rule = load_rule(name_or_path)
    if rule.deliberately_bad:
        breaks = ", ".join(rule.breaks) or "its invariants"
        typer.echo(f"warning: rule {rule.name} is deliberately bad: it breaks {breaks}", err=True)
    return rule

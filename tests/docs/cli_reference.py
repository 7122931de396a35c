"""docs/cli.md's generated parts. `python -m tests.docs.cli_reference` writes them anew; a test compares.

Prose between the parts is written by hand; a part stands between `<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from text2sql_rl.cli import app

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md"
_PART = re.compile(r"<!-- (?!end)([a-z ]+) -->\n.*?<!-- end -->", re.DOTALL)


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def part(name: str, command: Any) -> str:
    """The generated part of one command: its usage, its help, its arguments and options."""
    rows = []
    places = [f" {each.metavar}" for each in command.params if each.param_type_name == "argument"]
    for each in command.params:
        if each.param_type_name == "argument":
            rows.append(f"| `{each.metavar}` | {each.help} |")
            continue
        value = "" if each.is_flag else f" {each.metavar or each.display_type}"
        words = each.help + ("" if each.default in (None, False, "", []) else f" Default: {_plain(each)}.")
        rows.append(f"| `{each.opts[0]}{value}` | {words} |")
    table = ["", "| argument | meaning |", "| --- | --- |", *rows] if rows else []
    usage = f"    text2sql-rl {name}{''.join(places)}{' [OPTIONS]' if len(rows) > len(places) else ''}"
    return "\n".join([f"<!-- {name} -->", usage, "", command.help, *table, "<!-- end -->"])


def _plain(option: Any) -> str:
    # The number of cores is another on every machine.
    return "one a core, at most 2" if option.name == "jobs" else str(getattr(option.default, "value", option.default))


def render(page: str) -> str:
    """The page with every part as the command line has it now."""
    known = dict(commands())
    return _PART.sub(lambda match: part(match[1], known[match[1]]) if match[1] in known else match[0], page)


def documented(page: str) -> list[str]:
    """The names of the page's parts, in order."""
    return [match[1] for match in _PART.finditer(page)]


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")

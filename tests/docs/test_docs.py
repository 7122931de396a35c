"""What the documents tell a user to type works as they say, and docs/cli.md is what the command line is."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.docs import cli_reference
from text2sql_rl.cli import app

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# Fast, offline and the same every time: these run, and what they print is compared.
RUN = ("judge", "rewards", "--version")
# Its commands work in a folder of their own, which test_guides.py makes as the page says.
ELSEWHERE = ROOT / "docs" / "your-own-data.md"


def blocks(page: Path) -> Iterator[list[tuple[str, str]]]:
    """The console blocks of a page, each as its commands with the output shown below them."""
    for match in re.finditer(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        found: list[tuple[str, str]] = []
        for line in match[1].replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            elif found:
                found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
        yield found


SHOWN = [
    pytest.param(command, "" if page == ELSEWHERE else output, page, id=f"{page.relative_to(ROOT)}: {command}")
    for page in PAGES
    for block in blocks(page)
    for command, output in block
]


def parse(words: list[str]) -> None:
    """Parse a command line as the program does, without running it."""
    command: Any = typer.main.get_command(app)
    context = None
    name = "text2sql-rl"
    while hasattr(command, "commands") and words and words[0] in command.commands:
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words, parent=context)


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize(("command", "output", "page"), SHOWN)
def test_a_command_in_the_documents_works(command: str, output: str, page: Path) -> None:
    program, *words = shlex.split(command, comments=True)
    if program == "torchrun":  # the command is one of ours, in several processes
        program, words = "text2sql-rl", words[words.index("text2sql_rl.cli") + 1 :]
    if program == "make":
        assert set(words) <= targets()
    elif program == "text2sql-rl" and words[0] in RUN and "runs/demo" not in words and page != ELSEWHERE:
        done = subprocess.run(
            [sys.executable, "-m", "text2sql_rl.cli", *words], capture_output=True, text=True, cwd=ROOT, timeout=60
        )
        assert done.stderr == ""
        if output:
            assert done.stdout == output
    elif program == "text2sql-rl":
        parse(words)
        for word in words:
            if word.startswith("configs/"):
                assert (ROOT / word).is_file(), f"{word} does not exist"
    else:
        checked = ("mkdir", "cp") if page == ELSEWHERE else ()
        assert program in ("git", "cd", "pip", "export", "source", *checked), f"nobody checks {program!r}"


def test_the_readme_shows_its_two_commands() -> None:
    shown = [command for block in blocks(ROOT / "README.md") for command, _ in block]
    assert {"make demo", "make test"} <= set(shown)


def test_cli_page_is_what_the_command_line_is() -> None:
    page = cli_reference.PAGE.read_text(encoding="utf-8")
    assert page == cli_reference.render(page), "run: python -m tests.docs.cli_reference"


def test_cli_page_has_every_command_and_no_other() -> None:
    page = cli_reference.PAGE.read_text(encoding="utf-8")
    assert sorted(cli_reference.documented(page)) == sorted(name for name, _ in cli_reference.commands())


@pytest.mark.parametrize(("name", "command"), list(cli_reference.commands()))
def test_every_argument_has_help(name: str, command: Any) -> None:
    assert command.help
    assert all(each.help for each in command.params), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_tree_in_the_readme_names_what_exists() -> None:
    named = re.findall(r"^  ([\w/. ]+?(?:\.py|/))(?:\s{2,}|$)", (ROOT / "README.md").read_text(), re.MULTILINE)
    files = [word for line in named for word in line.split()]
    assert files
    assert [word for word in files if not (ROOT / "text2sql_rl" / word).exists()] == []

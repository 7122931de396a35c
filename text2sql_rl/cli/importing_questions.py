"""The commands that bring in questions: `text2sql-rl import spider`, `bird`, `questions`.

In: benchmark folders and question files. Out: question sets with golds in DuckDB's dialect, their databases, a summary.
Exit code 1 where nothing could be imported; single questions that could not are counted and listed in a file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from text2sql_rl.cli.importing import Out
from text2sql_rl.cli.options import AsJson, as_text
from text2sql_rl.records import Split

if TYPE_CHECKING:
    from text2sql_rl.importers.benchmark import Benchmark
    from text2sql_rl.importers.question_import import Source

app = typer.Typer()


class Choice(NamedTuple):
    """Which of a benchmark's questions are imported."""

    only: frozenset[str]
    without: frozenset[str]
    most: int | None


SplitName = Annotated[
    Split, typer.Option("--split", metavar="SPLIT", help="train, dev or heldout: where all these questions belong.")
]
Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role", metavar="ROLE", help="The question set to write, once for each; else sft and rl, dev, or heldout."
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace question sets that came from elsewhere.")]
Files = Annotated[
    list[str] | None,
    typer.Option("--questions", metavar="FILE", help="A question file of the folder, once for each; else the split's."),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Import the questions of this database, once for each; else of all."),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="NAME", help="Leave out the questions of this database, once for each."),
]
Most = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="At most N questions, taken in turn from each database."),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The benchmark's folder.")]


@app.command()
def spider(
    folder: Folder,
    split: SplitName,
    out: Out,
    questions: Files = None,
    role: Roles = None,
    only: Only = None,
    without: Without = None,
    limit: Most = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Import Spider or a benchmark in its layout: question files and SQLite databases."""
    choice = Choice(frozenset(only or ()), frozenset(without or ()), limit)
    _benchmark(folder, split, out, questions, role, choice, replace, as_json)


@app.command()
def bird(
    folder: Folder,
    split: SplitName,
    out: Out,
    questions: Files = None,
    role: Roles = None,
    only: Only = None,
    without: Without = None,
    limit: Most = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Import BIRD: questions with evidence and difficulty, SQLite databases and their descriptions."""
    choice = Choice(frozenset(only or ()), frozenset(without or ()), limit)
    _benchmark(folder, split, out, questions, role, choice, replace, as_json)


@app.command(name="questions")
def questions_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .jsonl, .json, .csv or .tsv file of questions.")],
    split: SplitName,
    out: Out,
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help="Of golds that name none: sqlite, postgres, mysql, duckdb.")
    ] = "duckdb",
    database: Annotated[str, typer.Option(metavar="NAME", help="The database of questions that name none.")] = "",
    databases: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the databases' SQLite or DuckDB files lie; else in the content root."),
    ] = None,
    role: Roles = None,
    only: Only = None,
    without: Without = None,
    limit: Most = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Import a file of questions with their databases, SQL and dialects."""
    from text2sql_rl.importers.benchmark import open_benchmark
    from text2sql_rl.importers.question_import import Source

    known = open_benchmark(databases).databases if databases is not None else {}
    source = Source(
        files=(file,), databases=known, dialect=dialect.lower(), database=database, only=frozenset(only or ()),
        without=frozenset(without or ()), most=limit,
    )  # fmt: skip
    _import(source, out, split, role, replace, as_json)


def _benchmark(
    folder: Path,
    split: Split,
    out: Path,
    questions: list[str] | None,
    role: list[str] | None,
    choice: Choice,
    replace: bool,
    as_json: bool,
) -> None:
    from text2sql_rl.importers.benchmark import open_benchmark
    from text2sql_rl.importers.question_import import Source

    benchmark = open_benchmark(folder)
    source = Source(
        files=benchmark.question_files(split, questions or ()),
        databases=benchmark.databases,
        describe=_described(benchmark),
        only=choice.only,
        without=choice.without,
        most=choice.most,
    )
    _import(source, out, split, role, replace, as_json)


def _described(benchmark: Benchmark) -> Callable[[str], dict[str, dict[str, dict[str, str]]]]:
    return lambda name: benchmark.descriptions(name) if name in benchmark.databases else {}


def _import(source: Source, out: Path, split: Split, role: list[str] | None, replace: bool, as_json: bool) -> None:
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    from text2sql_rl.importers.question_import import import_questions

    roles = role or (["sft", "rl"] if split is Split.TRAIN else [split.value])
    screen = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=None)
        summary = import_questions(
            source,
            out,
            split,
            roles,
            replace_others=replace,
            started=lambda database, total: progress.update(task, description=database, total=total),
            advance=lambda questions: progress.advance(task, questions),
        )
    typer.echo(as_text(summary.as_json()) if as_json else "\n".join(summary.lines()))
    raise typer.Exit(0 if sum(summary.statuses.values()) else 1)

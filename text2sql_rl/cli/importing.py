"""The commands that bring a user's own data in: `text2sql-rl import KIND`.

In: files as they are. Out: a content root with databases and question sets, and a summary. Exit code 1 where anything
was rejected; it is listed with its reason, and the rest is imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from text2sql_rl.cli.options import AsJson, as_text

if TYPE_CHECKING:
    from text2sql_rl.importers.batch import Convert

app = typer.Typer(help="Bring in databases and questions of your own.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(metavar="DIR", help="The content root to fill; made where it is missing.")]
Name = Annotated[str, typer.Option(metavar="NAME", help="The database's name; else the source's own.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace databases of the same name that came from other content.")
]


@app.command()
def sqlite(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="SQLite files, one database each.")],
    out: Out,
    name: Name = "",
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Import SQLite files."""
    from text2sql_rl.importers.sqlite_source import convert_sqlite

    _databases("sqlite", convert_sqlite, files, out, name, replace, as_json)


@app.command()
def duckdb(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="DuckDB files, one database each.")],
    out: Out,
    name: Name = "",
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Import DuckDB files."""
    from text2sql_rl.importers.duckdb_source import convert_duckdb

    _databases("duckdb", convert_duckdb, files, out, name, replace, as_json)


@app.command()
def files(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of CSV, Parquet and JSON files.")],
    out: Out,
    name: Name = "",
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Import a folder of files as one database, one table a file; types and keys are inferred."""
    from text2sql_rl.importers.file_source import convert_files

    _databases("files", convert_files, [folder], out, name, replace, as_json)


def _databases(
    kind: str, convert: Convert, sources: list[Path], out: Path, name: str, replace: bool, as_json: bool
) -> None:
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TextColumn

    from text2sql_rl.importers.batch import import_databases

    screen = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TextColumn("{task.fields[rows]:,} rows"))
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=len(sources), rows=0)
        begun = read = 0

        def started(called: str) -> None:
            nonlocal begun
            progress.update(task, completed=begun, description=called)
            begun += 1

        def advance(rows: int) -> None:
            nonlocal read
            read += rows
            progress.update(task, rows=read)

        summary = import_databases(
            kind, convert, sources, out, name=name, replace=replace, started=started, advance=advance
        )
    typer.echo(as_text(summary.as_json()) if as_json else "\n".join(summary.lines()))
    raise typer.Exit(1 if summary.rejects else 0)

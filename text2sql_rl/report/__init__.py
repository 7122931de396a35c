"""The report: a run's logs -> numbers -> a console table, report.json and one offline page.

In: a run folder, finished or not. Out: report.json, report.html. Everything is recomputed from the logs, so a report
can be written again at any time. Not here: measuring or judging anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group

from text2sql_rl.report.numbers import is_complete, run_numbers
from text2sql_rl.report.page import page
from text2sql_rl.report.tables import tables
from text2sql_rl.runs import RunFolder, write_json, write_text

__all__ = ["report_tables", "run_numbers", "write_report"]


def write_report(run: RunFolder, redteam: Path | None = None, beside: Sequence[RunFolder] = ()) -> None:
    """Write report.json and report.html; when the run is complete, its stage `report` is done then.

    Args:
        run: the run folder.
        redteam: what `text2sql-rl redteam RULE --out FILE` wrote; the run folder's redteam.json where none is given.
        beside: runs to compare it with.

    Raises:
        RunError: this is no run folder, nothing was evaluated yet, a file is damaged, or the disk refuses.
    """
    numbers = run_numbers(run, beside)
    stage = run.stage("report")
    ends_the_run = is_complete(numbers) and not stage.is_done()
    if ends_the_run:
        stage.start()
    write_json(run.path / "report.json", numbers)
    write_text(run.path / "report.html", page(run, numbers, redteam))
    if ends_the_run:
        stage.finish({"summary": numbers["answer"], "warnings": numbers["warnings"]})


def report_tables(run: RunFolder) -> Group:
    """The report for a console: `rich.console.Console().print(report_tables(run))`.

    Raises:
        RunError: as `write_report`.
    """
    return tables(run_numbers(run))

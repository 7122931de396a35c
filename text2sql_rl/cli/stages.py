"""The commands of a run and its stages.

In: a run config, or a run folder. Out: the run folder, and its table. Each stage is a command of its own; `run` chains
them and skips what is done.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from text2sql_rl.cli.options import AsJson, ConfigPath, Overrides, as_text, console
from text2sql_rl.errors import RunError

if TYPE_CHECKING:
    from text2sql_rl.config import RunConfig
    from text2sql_rl.runs import RunFolder

app = typer.Typer()


@app.command()
def run(
    config: ConfigPath,
    overrides: Overrides = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the run folder first and start over.")] = False,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Stages at once, each on one thread.")] = min(
        2, os.cpu_count() or 1
    ),
) -> None:
    """Run all stages of a config, skipping what is done; the same command goes on after an interruption."""
    from text2sql_rl.pipeline import run_pipeline

    resolved, folder = _open(config, overrides, fresh=fresh, check=True)
    options = [part for override in overrides or () for part in ("--set", override)]
    run_pipeline(resolved, folder, [str(config), *options], console(), jobs)
    _show_report(folder)


@app.command()
def base(config: ConfigPath, overrides: Overrides = None) -> None:
    """Make the policy that training starts from."""
    _run_stage("base", config, overrides)


@app.command()
def sft(config: ConfigPath, overrides: Overrides = None) -> None:
    """Fine-tune the base policy on the labelled pairs until dev stops improving."""
    _run_stage("sft", config, overrides)


@app.command()
def golds(config: ConfigPath, overrides: Overrides = None) -> None:
    """Run the golds of all questions that training may ask, so that the stages after it find them ready."""
    _run_stage("golds", config, overrides)


@app.command()
def difficulty(
    config: ConfigPath,
    overrides: Overrides = None,
    warm: Annotated[bool, typer.Option("--warm", help="Measure again after the warm-up.")] = False,
) -> None:
    """Measure the pass rate of every rl question and keep those neither always nor never solved."""
    _run_stage("difficulty_warm" if warm else "difficulty", config, overrides)


@app.command()
def warmup(config: ConfigPath, overrides: Overrides = None) -> None:
    """Fine-tune on the matching completions that the difficulty stage sampled."""
    _run_stage("warmup", config, overrides)


@app.command()
def grpo(config: ConfigPath, overrides: Overrides = None) -> None:
    """Improve the policy with GRPO on verified rewards."""
    _run_stage("grpo", config, overrides)


@app.command()
def control(config: ConfigPath, overrides: Overrides = None) -> None:
    """Continue SFT for as long as warm-up and GRPO take: what their gain is compared with."""
    _run_stage("control", config, overrides)


@app.command()
def evaluate(
    config: ConfigPath,
    overrides: Overrides = None,
    source: Annotated[
        str, typer.Option(metavar="STAGE", help="The stage to evaluate: base, sft, warmup, grpo or control.")
    ] = "grpo",
    allow_leak: Annotated[
        bool, typer.Option("--allow-leak", help="Evaluate on databases that training touched, and mark the result.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate the policy of one stage on the held-out databases."""
    from text2sql_rl.pipeline.stages import SOURCES

    if source not in SOURCES:
        raise typer.BadParameter(f"{source!r} is none of {', '.join(SOURCES)}.", param_hint="--source")
    folder = _run_stage(f"evaluate_{source}", config, overrides, allow_leak, quiet=as_json)
    if as_json:
        typer.echo(as_text(folder.stage(f"evaluate_{source}").result()))


@app.command()
def report(
    where: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, e.g. runs/demo: each page compares its run with the others. Or a config.",
        ),
    ],
    overrides: Overrides = None,
    redteam: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What `text2sql-rl redteam RULE --out FILE` wrote, for the page; else RUN/redteam.json, where it is.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write report.json and report.html of runs from their logs, and print the table."""
    from text2sql_rl.report import run_numbers, write_report
    from text2sql_rl.runs import RunFolder

    for path in where:
        if not path.exists():
            raise RunError("does not exist", file=path, fix="Give a run folder, e.g. runs/demo, or its config.")
        if path.is_file() and (len(where) > 1 or redteam is not None):
            raise RunError("is a config: --redteam and several runs are for run folders", file=path, field="RUN",
                           fix="Give the run folder, e.g. runs/demo.")  # fmt: skip
    if where[0].is_file():
        folders = [_run_stage("report", where[0], overrides, quiet=as_json)]
    else:
        folders = [RunFolder(path) for path in where]
        for folder in folders:
            folder.read()
        for folder in folders:
            write_report(folder, redteam, folders)
    if as_json:
        typer.echo(as_text({"runs": [run_numbers(folder, folders) for folder in folders]}))
        return
    for folder in folders:
        _show_report(folder)


def _open(
    path: Path, overrides: list[str] | None, fresh: bool = False, check: bool = False
) -> tuple[RunConfig, RunFolder]:
    from text2sql_rl.config import load_config
    from text2sql_rl.runs import RunFolder
    from text2sql_rl.scoring import load_rule

    config = load_config(path, tuple(overrides or ()))
    load_rule(config.judge.rule)  # says so here, not only in a stage's log, when the rule is deliberately bad
    folder = RunFolder(config.runs / config.name)
    # A folder that is there was checked, and goes on only with the same config and content.
    if check and (fresh or not folder.exists()):
        from text2sql_rl.pipeline import check_inputs

        check_inputs(config)
    if fresh:
        folder.remove()
    folder.create_or_open(config.model_dump(mode="json"))
    return config, folder


def _run_stage(
    name: str, path: Path, overrides: list[str] | None, allow_leak: bool = False, quiet: bool = False
) -> RunFolder:
    from text2sql_rl.pipeline import run_stage
    from text2sql_rl.pipeline.children import follow_parent
    from text2sql_rl.pipeline.stages import find, is_first_rank

    follow_parent()
    config, folder = _open(path, overrides)
    ran = run_stage(find(config, name), config, folder, allow_leak=allow_leak)
    if not is_first_rank():
        return folder
    summary = folder.stage(name).result().get("summary", "")
    if not quiet:
        typer.echo(f"{name} {'done' if ran else 'was done before'}: {folder.stage(name).path}  {summary}".rstrip())
    return folder


def _show_report(run: RunFolder) -> None:
    from text2sql_rl.report import report_tables

    console().print(report_tables(run))
    typer.echo(f"{run.path / 'report.json'}\n{run.path / 'report.html'}")

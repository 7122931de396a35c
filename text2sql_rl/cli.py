"""The commands, each a few lines: parse, call one room, show what it said.

In: a command line. Out: text on stdout, one line on stderr for what the user can put right. Exit codes: 0 done, 1 an
expectation was missed, 2 wrong input or a failed stage, 130 and 143 interrupted. Rooms are imported by the command that
needs them, so that `--help` and `judge` start fast.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from text2sql_rl import __version__
from text2sql_rl.errors import Text2SqlError

if TYPE_CHECKING:
    from rich.console import Console

    from text2sql_rl.config import RunConfig
    from text2sql_rl.runs import RunFolder

app = typer.Typer(
    name="text2sql-rl",
    help="Train language models to answer questions in SQL, with rewards that are verified by running it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
rewards = typer.Typer(help="Look at reward rules.", no_args_is_help=True)
app.add_typer(rewards, name="rewards")

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A run config, e.g. configs/demo.yaml.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace one field of the config, e.g. seed=2.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]


def main() -> None:
    """Run the command line; every error a user can put right is one line on stderr and exit code 2."""
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except Text2SqlError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)


def _end(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"text2sql-rl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


# ---- a run and its stages ----------------------------------------------------------------------------------


@app.command()
def run(
    config: ConfigPath,
    overrides: Overrides = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the run folder first and start over.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Stages at once, each on one thread.")] = min(2, os.cpu_count() or 1),
) -> None:
    """Run all stages of a config, skipping what is done; the same command goes on after an interruption."""
    from text2sql_rl.pipeline import run_pipeline

    resolved, folder = _open(config, overrides, fresh)
    options = [part for override in overrides or () for part in ("--set", override)]
    run_pipeline(resolved, folder, [str(config), *options], _console(), jobs)
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
    source: Annotated[str, typer.Option(help="The stage to evaluate: base, sft, warmup, grpo or control.")] = "grpo",
) -> None:
    """Evaluate the policy of one stage on the held-out databases."""
    from text2sql_rl.pipeline.stages import SOURCES

    if source not in SOURCES:
        raise typer.BadParameter(f"{source!r} is none of {', '.join(SOURCES)}.", param_hint="--source")
    _run_stage(f"evaluate_{source}", config, overrides)


@app.command()
def report(
    where: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, e.g. runs/demo, or its config.")],
    overrides: Overrides = None,
) -> None:
    """Write report.json and report.html of a run from its logs, and print the table."""
    if where.is_dir():
        from text2sql_rl.report import write_report
        from text2sql_rl.runs import RunFolder

        folder = RunFolder(where)
        folder.read()
        write_report(folder)
    else:
        folder = _run_stage("report", where, overrides)
    _show_report(folder)


def _open(path: Path, overrides: list[str] | None, fresh: bool = False) -> tuple[RunConfig, RunFolder]:
    from text2sql_rl.config import load_config
    from text2sql_rl.runs import RunFolder

    config = load_config(path, tuple(overrides or ()))
    folder = RunFolder(config.runs / config.name)
    if fresh:
        folder.remove()
    folder.create_or_open(config.model_dump(mode="json"))
    return config, folder


def _run_stage(name: str, path: Path, overrides: list[str] | None) -> RunFolder:
    from text2sql_rl.pipeline import run_stage
    from text2sql_rl.pipeline.children import follow_parent
    from text2sql_rl.pipeline.stages import find

    follow_parent()
    config, folder = _open(path, overrides)
    ran = run_stage(find(config, name), config, folder)
    summary = folder.stage(name).result().get("summary", "")
    typer.echo(f"{name} {'done' if ran else 'was done before'}: {folder.stage(name).path}  {summary}".rstrip())
    return folder


# ---- judging -----------------------------------------------------------------------------------------------


@app.command()
def judge(
    database: Annotated[str, typer.Option(help="The database, a folder of databases/.")] = "",
    gold: Annotated[str, typer.Option(help="The reference SQL.")] = "",
    sql: Annotated[str, typer.Option(help="The completion to judge: SQL, with or without text around it.")] = "",
    cases: Annotated[Path | None, typer.Option(help="Judge a JSONL file of labelled cases instead.")] = None,
    rule: Annotated[str, typer.Option(help="A rule of rewards/rules: its name or a path.")] = "strict-v1",
    as_json: AsJson = False,
) -> None:
    """Score one candidate against one gold and tell why, or compare a file of cases with its labels."""
    from text2sql_rl import cases as casebook

    if cases is not None:
        outcome = casebook.run_cases(cases, rule)
        _print(outcome.as_dict() if as_json else outcome.words())
        raise typer.Exit(1 if outcome.missed else 0)
    for name, value in (("--database", database), ("--gold", gold), ("--sql", sql)):
        if not value:
            raise typer.BadParameter("is needed, unless --cases is given.", param_hint=name)
    _print(casebook.judge_one(database, gold, sql, rule))


# ---- rules and the machine ---------------------------------------------------------------------------------


@rewards.command()
def show(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule of rewards/rules: its name or a path.")],
) -> None:
    """Tell in words what a rule pays, deducts and caps, and what every outcome earns."""
    from text2sql_rl.scoring import describe, load_rule

    typer.echo(describe(load_rule(rule)))


@app.command()
def doctor() -> None:
    """Look at what a run needs, and try to break out of the sandbox; exit code 1 where something is bad."""
    from text2sql_rl.doctor import State, examine

    bad = False
    for finding in examine():
        bad |= finding.state is State.BAD
        typer.echo(f"{finding.state:<5}  {finding.name:<32} {finding.found}")
    raise typer.Exit(1 if bad else 0)


def _print(content: Any) -> None:
    typer.echo(content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False))


def _console() -> Console:
    from rich.console import Console

    return Console()


def _show_report(run: RunFolder) -> None:
    from rich.table import Table

    from text2sql_rl.runs.files import read_json

    table = Table("policy", "held-out accuracy", "95 % interval", "hand-written", title=f"run {run.name}")
    for name, scores in read_json(run.path / "report.json")["heldout"].items():
        if isinstance(scores, dict) and "accuracy" in scores:
            low, high = scores["ci95"]
            written = scores.get("handwritten", {}).get("accuracy")
            table.add_row(
                name, f"{scores['accuracy']:.1%}", f"{low:.1%} to {high:.1%}", f"{written:.1%}" if written else ""
            )
    _console().print(table)
    typer.echo(f"{run.path / 'report.json'}\n{run.path / 'report.html'}")


if __name__ == "__main__":
    main()

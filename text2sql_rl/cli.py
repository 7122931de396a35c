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
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from text2sql_rl import __version__
from text2sql_rl.errors import GoldError, RunError, Text2SqlError

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


class Wording(StrEnum):
    """How a synthesized question may be worded."""

    all = "all"
    mostly_common = "mostly_common"
    common = "common"


def main() -> None:
    """Run the command line; every error a user can put right is one line on stderr and exit code 2."""
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except Text2SqlError as error:
        # An engine's message may have lines; an error of ours is one.
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
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
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Stages at once, each on one thread.")] = min(
        2, os.cpu_count() or 1
    ),
) -> None:
    """Run all stages of a config, skipping what is done; the same command goes on after an interruption."""
    from text2sql_rl.pipeline import run_pipeline

    resolved, folder = _open(config, overrides, fresh=fresh, check=True)
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
    source: Annotated[
        str, typer.Option(metavar="STAGE", help="The stage to evaluate: base, sft, warmup, grpo or control.")
    ] = "grpo",
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
    if not where.exists():
        raise RunError("does not exist", file=where, fix="Give a run folder, e.g. runs/demo, or its config.")
    if where.is_dir():
        from text2sql_rl.report import write_report
        from text2sql_rl.runs import RunFolder

        folder = RunFolder(where)
        folder.read()
        write_report(folder)
    else:
        folder = _run_stage("report", where, overrides)
    _show_report(folder)


def _open(
    path: Path, overrides: list[str] | None, fresh: bool = False, check: bool = False
) -> tuple[RunConfig, RunFolder]:
    from text2sql_rl.config import load_config
    from text2sql_rl.runs import RunFolder

    config = load_config(path, tuple(overrides or ()))
    folder = RunFolder(config.runs / config.name)
    # A folder that is there was checked, and goes on only with the same config and content.
    if check and (fresh or not folder.exists()):
        from text2sql_rl.pipeline import check_inputs

        check_inputs(config)
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
    database: Annotated[str, typer.Option(metavar="NAME", help="The database, a folder of databases/.")] = "",
    gold: Annotated[str, typer.Option(metavar="SQL", help="The reference SQL.")] = "",
    sql: Annotated[
        str, typer.Option(metavar="TEXT", help="The completion to judge: SQL, with or without text around it.")
    ] = "",
    cases: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge a JSONL file of labelled cases instead.")
    ] = None,
    rule: Annotated[
        str, typer.Option(metavar="RULE", help="A rule of rewards/rules: its name or a path.")
    ] = "bound-v1",
    as_json: AsJson = False,
) -> None:
    """Score one candidate against one gold and tell why, or compare a file of cases with its labels."""
    if cases is not None:
        from text2sql_rl.cases import run_cases

        outcome = run_cases(cases)
        typer.echo(_json(outcome.as_json()) if as_json else "\n".join(outcome.lines()))
        raise typer.Exit(1 if outcome.missed else 0)
    for name, value in (("--database", database), ("--gold", gold), ("--sql", sql)):
        if not value:
            raise typer.BadParameter("is needed, unless --cases is given.", param_hint=name)
    from text2sql_rl.content import open_store
    from text2sql_rl.explain import evidence, explain
    from text2sql_rl.judge import judge_one
    from text2sql_rl.scoring import load_rule

    rollout = judge_one(gold, sql, open_store().get(database).instances[0], load_rule(rule))
    if rollout.reward.total is None and rollout.execution is None:
        raise GoldError(rollout.reward.unscored, field="--gold", fix="Give a gold that runs and is deterministic.")
    typer.echo(_json(evidence(rollout)) if as_json else explain(rollout))


# ---- questions ---------------------------------------------------------------------------------------------


@app.command()
def synthesize(
    databases: Annotated[list[str], typer.Argument(metavar="DATABASE...", help="Folders of databases/.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The JSONL file to write, e.g. data/train/rl.jsonl.")],
    count: Annotated[
        int, typer.Option(metavar="N", min=1, help="Questions in all, spread evenly over the databases.")
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The same seed gives the same questions.")] = 0,
    wording: Annotated[
        Wording, typer.Option(metavar="HOW", help="all: every way of saying a thing; mostly_common; common.")
    ] = Wording.all,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="SHAPE", help="A SQL shape to use; once for each. All where none is given."),
    ] = None,
    avoid: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A question file whose texts may not come again; once for each."),
    ] = None,
) -> None:
    """Write questions with checked gold SQL for any database."""
    from text2sql_rl.content import open_store
    from text2sql_rl.questions import load_file
    from text2sql_rl.records import Split
    from text2sql_rl.synthesis import synthesize_to_file

    taken = [question.text for path in avoid or () for question in load_file(path, Split.TRAIN)]
    made = synthesize_to_file(
        open_store(), databases, out, count, seed, wording=wording.value, shapes=shape or (), taken=taken
    )
    typer.echo(f"{made} questions: {out}")


@app.command()
def mutants(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A JSONL question file, or the name of a set, e.g. dev.")],
    instances: Annotated[
        int, typer.Option(metavar="N", min=0, help="The most counterfactual instances a question gets.")
    ] = 6,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="Only the first N questions; 0 takes all.")] = 0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the instances; another seed, other rows.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Tell by mutation operator which wrong versions of the golds would still be accepted, and list them."""
    from rich.console import Console
    from rich.progress import Progress

    from text2sql_rl.content import cache_folder, open_content, open_store
    from text2sql_rl.instances.survivors import find_survivors
    from text2sql_rl.questions import load_file
    from text2sql_rl.records import Split
    from text2sql_rl.sandbox import Sandbox

    is_file = data.endswith(".jsonl")
    questions = load_file(Path(data), Split.DEV) if is_file else open_content().questions.role(data)
    questions = questions[:limit] if limit else questions
    store, screen = open_store(), Console(stderr=True)
    pairs = [(question, store.get(question.database)) for question in questions]
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as progress, Sandbox() as sandbox:
        task = progress.add_task("questions", total=len(pairs))
        found = find_survivors(
            pairs, cache_folder(), sandbox, most=instances, seed=seed,
            done=lambda count: progress.update(task, completed=count),
        )  # fmt: skip
    typer.echo(_json(found.as_json()) if as_json else "\n".join(found.lines()))


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


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False)


def _console() -> Console:
    from rich.console import Console

    return Console()


def _show_report(run: RunFolder) -> None:
    from text2sql_rl.report import report_tables

    _console().print(report_tables(run))
    typer.echo(f"{run.path / 'report.json'}\n{run.path / 'report.html'}")


if __name__ == "__main__":
    main()

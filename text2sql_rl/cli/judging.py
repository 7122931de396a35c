"""The commands that judge SQL: one candidate, a file of labelled cases, the mutants of a question set.

In: SQL and a database, or a file. Out: verdicts in words or JSON. Imports no trainer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from text2sql_rl.cli.options import AsJson, as_text, progress_bar
from text2sql_rl.errors import GoldError

app = typer.Typer()


@app.command()
def judge(
    database: Annotated[str | None, typer.Option(metavar="NAME", help="The database, a folder of databases/.")] = None,
    gold: Annotated[str | None, typer.Option(metavar="SQL", help="The reference SQL.")] = None,
    sql: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The completion to judge: SQL, with or without text around it.")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge a JSONL file of labelled cases instead.")
    ] = None,
    rule: Annotated[
        str, typer.Option(metavar="RULE", help="A rule of rewards/rules: its name or a path.")
    ] = "bound-v1",
    as_json: AsJson = False,
) -> None:
    """Score one candidate against one gold and tell why, or compare a file of cases with its labels."""
    given = {"--database": database, "--gold": gold, "--sql": sql}
    if cases is not None:
        for name, value in given.items():
            if value is not None:
                raise typer.BadParameter("goes not with --cases, whose lines say it.", param_hint=name)
        from text2sql_rl.cases import run_cases

        with progress_bar("cases") as progress:
            outcome = run_cases(cases, progress=progress)
        typer.echo(as_text(outcome.as_json()) if as_json else "\n".join(outcome.lines()))
        raise typer.Exit(1 if outcome.missed else 0)
    if database is None or gold is None or sql is None:
        missing = next(name for name, value in given.items() if value is None)
        raise typer.BadParameter("is needed, unless --cases is given.", param_hint=missing)
    from text2sql_rl.content import open_store
    from text2sql_rl.explain import evidence, explain
    from text2sql_rl.judge import judge_one
    from text2sql_rl.scoring import load_rule

    rollout = judge_one(gold, sql, open_store().get(database).instances[0], load_rule(rule))
    if rollout.reward.total is None and rollout.execution is None:
        raise GoldError(rollout.reward.unscored, field="--gold", fix="Give a gold that runs and is deterministic.")
    typer.echo(as_text(evidence(rollout)) if as_json else explain(rollout))


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
    from text2sql_rl.content import cache_folder, open_content, open_store
    from text2sql_rl.instances.survivors import find_survivors
    from text2sql_rl.questions import load_file
    from text2sql_rl.records import Split
    from text2sql_rl.sandbox import Sandbox

    is_file = data.endswith(".jsonl")
    questions = load_file(Path(data), Split.DEV) if is_file else open_content().questions.role(data)
    questions = questions[:limit] if limit else questions
    store = open_store()
    pairs = [(question, store.get(question.database)) for question in questions]
    with progress_bar("questions") as progress, Sandbox() as sandbox:
        found = find_survivors(
            pairs, cache_folder(), sandbox, most=instances, seed=seed, done=lambda count: progress(count, len(pairs))
        )
    typer.echo(as_text(found.as_json()) if as_json else "\n".join(found.lines()))

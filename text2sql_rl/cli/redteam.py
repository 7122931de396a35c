"""The command that attacks a reward: `text2sql-rl redteam`.

In: a rule, or a reward function. Out: the audit in words or JSON; exit code 1 when anything earns more than it may.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from text2sql_rl.cli.options import AsJson, as_text
from text2sql_rl.errors import ConfigError

if TYPE_CHECKING:
    from text2sql_rl.records import Database, Question

app = typer.Typer()


@app.command()
def redteam(
    rule: Annotated[
        str, typer.Argument(metavar="RULE", help="A rule of rewards/rules: its name or a path.")
    ] = "bound-v1",
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the JSON there.")] = None,
    families: Annotated[
        list[str] | None, typer.Option(metavar="FAMILY", help="Only this family of attacks; once for each.")
    ] = None,
    reward: Annotated[
        str,
        typer.Option(metavar="NAME", help="Attack this function instead of RULE: module:function or file.py:function."),
    ] = "",
    signature: Annotated[str, typer.Option(metavar="HOW", help="How the function is called: trl or verl.")] = "trl",
    wrap: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="The form of answer it reads, with {} for the SQL, e.g. <answer>{}</answer>."
        ),
    ] = "{}",
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="For one call of the function; then it hung.")
    ] = 10.0,
    instances: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Counterfactual instances a database gets; training has 2."),
    ] = 2,
    generations: Annotated[int, typer.Option(metavar="G", min=2, help="Completions in a group.")] = 8,
    fuzz: Annotated[int, typer.Option(metavar="N", min=0, help="Also search for new attacks, over N candidates.")] = 0,
    data: Annotated[
        str, typer.Option(metavar="DATA", help="Golds for the search: a JSONL question file or a set, e.g. dev.")
    ] = "dev",
    finds: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the search writes what it found, as case files.")
    ] = Path("finds"),
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the draws and of the search.")] = 0,
) -> None:
    """Tell what a reward can be cheated out of: what attacks earn, alone, in groups, and from a policy that learns."""
    from contextlib import ExitStack

    from rich.console import Console
    from rich.progress import Progress

    from text2sql_rl.content import cache_folder, database_folders, open_store
    from text2sql_rl.judge import Judge
    from text2sql_rl.redteam.any_reward import AnyReward
    from text2sql_rl.redteam.attacks import load_corpus
    from text2sql_rl.redteam.audit import audit
    from text2sql_rl.redteam.pay import RulePays
    from text2sql_rl.redteam.payouts import planned
    from text2sql_rl.redteam.search import search
    from text2sql_rl.redteam.targets import prepare_targets
    from text2sql_rl.runs.files import refuse_unwritable
    from text2sql_rl.sandbox import Sandbox
    from text2sql_rl.scoring import load_rule

    if reward and fuzz:
        raise ConfigError("the search needs a rule", field="--fuzz", fix="Leave --reward or --fuzz out")
    if out is not None:
        refuse_unwritable(out)
    corpus, judged_by, screen = load_corpus(families=families or ()), load_rule(rule), Console(stderr=True)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(console=screen, transient=True, disable=not screen.is_terminal))
        sandbox = stack.enter_context(Sandbox())
        judge = Judge(judged_by, sandbox=sandbox, cache=cache_folder(), folders=database_folders())
        pays: RulePays | AnyReward = RulePays(judge)
        name, sha256, bound = judged_by.name, judged_by.sha256, float(judged_by.binding.shaping_at_most)
        if reward:
            pays = stack.enter_context(AnyReward(reward, signature, wrap=wrap, timeout_s=timeout_s))
            name, sha256 = reward, pays.sha256
        making = progress.add_task("golds and their other rows", total=None)
        targets = prepare_targets(corpus, open_store(), judge, cache_folder(), instances)
        progress.remove_task(making)
        task = progress.add_task("attacks", total=planned(corpus))
        found = audit(
            name,
            sha256,
            corpus,
            targets,
            pays,
            bound=None if reward else bound,
            instances=instances,
            generations=generations,
            seed=seed,
            done=lambda count: progress.update(task, completed=count),
        )
        content, lines, failed = found.as_json(), list(found.lines()), bool(found.failed)
        if fuzz:
            hunting = progress.add_task("search", total=fuzz)
            hunt = search(
                _golds(data),
                judge,
                sandbox,
                cache_folder(),
                finds,
                budget=fuzz,
                instances=instances,
                attacks=tuple(one.text for one in found.payouts if one.text.startswith("SELECT")),
                seed=seed,
                done=lambda count: progress.update(hunting, completed=count),
            )
            content["search"] = hunt.as_json()
            lines += hunt.lines()
            failed = failed or bool(hunt.finds)
    if out is not None:
        _write(out, content)
    typer.echo(as_text(content) if as_json else "\n".join(lines))
    raise typer.Exit(1 if failed else 0)


def _golds(data: str) -> list[tuple[Question, Database]]:
    from text2sql_rl.content import open_content, open_store
    from text2sql_rl.questions import load_file
    from text2sql_rl.records import Split

    if data.endswith(".jsonl"):
        questions, store = load_file(Path(data), Split.DEV), open_store()
        return [(question, store.get(question.database)) for question in questions]
    content = open_content()
    return content.pairs(content.questions.role(data))


def _write(path: Path, content: dict[str, object]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", file=path, field="--out", fix="Name another file"
        ) from error

"""The commands that evaluate policies of any origin, and compare evaluations.

In: questions and a source of answers, or evaluated folders. Out: a folder with results.json, tables, JSON. The
evaluation of a run's own stage is a stage, see stages.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from text2sql_rl.cli.options import AsJson, as_text, console
from text2sql_rl.cli.prompting import token_counter_of
from text2sql_rl.errors import ConfigError

if TYPE_CHECKING:
    from text2sql_rl.config import Sampling
    from text2sql_rl.evaluate.score import Progress
    from text2sql_rl.records import Question

app = typer.Typer()


class OtherRows(StrEnum):
    """The names of `evaluate.score.Instances`, which is imported only when something is scored."""

    NONE = "none"
    SHARED = "shared"
    CHOSEN = "chosen"


class Asked(StrEnum):
    """The prompt styles for pretrained models."""

    DDL = "ddl"
    COMPACT = "compact"


class Precision(StrEnum):
    """How weights are held."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@app.command()
def score(
    questions: Annotated[
        str, typer.Argument(metavar="QUESTIONS", help="A JSONL question file, or the name of a set, e.g. heldout.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder that results go to.")],
    predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Score this file: .jsonl by id, .json as BIRD, .sql or .txt as Spider."),
    ] = None,
    endpoint: Annotated[
        str, typer.Option(metavar="URL", help="Ask an OpenAI-compatible endpoint, e.g. http://localhost:8000/v1.")
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --endpoint, the model's name there; alone, a checkpoint, an adapter or any model.",
        ),
    ] = "",
    samples: Annotated[
        int, typer.Option(metavar="K", min=1, help="Sampled completions a question beside the greedy one; 1 = none.")
    ] = 1,
    temperature: Annotated[
        float, typer.Option(metavar="T", min=0.0, help="Of the sampled completions. Rises: more varied.")
    ] = 0.8,
    max_tokens: Annotated[int, typer.Option(metavar="N", min=8, help="Most tokens of a completion.")] = 512,
    style: Annotated[
        Asked | None,
        typer.Option(metavar="STYLE", help="Of the prompts: ddl (the default) or compact; a checkpoint has its own."),
    ] = None,
    max_prompt_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=16,
            help="Falls: less of a schema is shown, then questions are not asked; else 4096, or a checkpoint's own.",
        ),
    ] = None,
    tokenizer: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="With --endpoint: count prompt tokens as this model does, not 3 characters each."
        ),
    ] = "",
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="With --model: completions sampled at once.")] = 32,
    dtype: Annotated[
        Precision, typer.Option(metavar="TYPE", help="With --model: of the weights, float32 or bfloat16.")
    ] = Precision.FLOAT32,
    concurrency: Annotated[int, typer.Option(metavar="N", min=1, help="With --endpoint: requests at once.")] = 8,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="With --endpoint: for one whole answer.")
    ] = 120.0,
    attempts: Annotated[int, typer.Option(metavar="N", min=1, help="With --endpoint: tries a request.")] = 6,
    api_key_env: Annotated[
        str, typer.Option(metavar="NAME", help="With --endpoint: the environment variable that holds the key.")
    ] = "OPENAI_API_KEY",
    extra: Annotated[
        str, typer.Option(metavar="JSON", help="With --endpoint: fields of every request; null takes one out.")
    ] = "",
    completions: Annotated[
        bool, typer.Option("--completions", help="With --endpoint: ask /completions, not /chat/completions.")
    ] = False,
    trained_by: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The checkpoint of a run that answered, where that cannot be seen."),
    ] = None,
    allow_leak: Annotated[
        bool, typer.Option("--allow-leak", help="Evaluate on databases that training touched, and mark the result.")
    ] = False,
    instances: Annotated[
        OtherRows,
        typer.Option(
            metavar="WHICH", help="Other rows to be right on: none, shared (as in training) or chosen (slow)."
        ),
    ] = OtherRows.SHARED,
    rule: Annotated[
        str, typer.Option(metavar="RULE", help="A rule of rewards/rules; it decides rewards, not what is right.")
    ] = "bound-v1",
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Sandbox processes.")] = min(2, os.cpu_count() or 1),
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="Only N questions, from all databases; 0 = all.")] = 0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of sampling, instances, intervals and votes.")] = 0,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a JUnit file as well.")] = None,
    min_accuracy: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0, max=1.0, help="Exit with 1 where a question set's accuracy is below."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score a predictions file, an endpoint or a model on questions, with the numbers of a run's own evaluation."""
    from text2sql_rl.content import open_store
    from text2sql_rl.evaluate.guard import guard_checkpoint
    from text2sql_rl.evaluate.junit import write_junit
    from text2sql_rl.evaluate.predictions import FILE, read_rows
    from text2sql_rl.evaluate.score import Instances, Settings
    from text2sql_rl.evaluate.score import score as run_score
    from text2sql_rl.evaluate.sources import Asking, EndpointSource, FileSource, ModelSource, Source, ways
    from text2sql_rl.evaluate.stage import in_turn
    from text2sql_rl.evaluate.words import score_tables
    from text2sql_rl.policy.endpoint import EndpointSettings
    from text2sql_rl.sandbox import Limits
    from text2sql_rl.scoring import load_rule

    _one_source(predictions, endpoint, model)
    loaded, how = load_rule(rule), ways(samples, temperature)
    every, known = _questions(questions)
    asked, store = in_turn(every, limit or len(every)), open_store()
    pairs = [(question, store.get(question.database)) for question in asked]
    checkpoint = Path(model) if model and not endpoint else None
    heldout = guard_checkpoint(trained_by or checkpoint, asked, must=trained_by is not None, allow=allow_leak)
    source: Source
    asking = Asking(style.value if style else None, max_prompt_tokens)
    if predictions:
        source = FileSource(predictions, every)
    elif endpoint:
        settings = EndpointSettings(
            url=endpoint, model=model, max_tokens=max_tokens, chat=not completions, concurrency=concurrency,
            timeout_s=timeout_s, attempts=attempts, extra=_object(extra),
        )  # fmt: skip
        counted_by = tokenizer or "3 characters each"
        source = EndpointSource(
            settings, os.environ.get(api_key_env, ""), asking, token_counter_of(tokenizer), counted_by, how, seed
        )
    else:
        source = ModelSource(model, asking, _limits(max_tokens, temperature, batch), dtype.value, how, seed)
    judging = Settings(
        rule=loaded, limits=Limits(), workers=workers, instances=Instances(instances.value), known=known, seed=seed
    )
    with _progress() as progress:
        found = run_score(pairs, source, out, judging, heldout, progress)
    if junit:
        write_junit(junit, read_rows(out / FILE), found, min_accuracy)
    if as_json:
        typer.echo(as_text(found))
    else:
        console().print(score_tables(found))
        typer.echo(str(out / "results.json"))
    missed = [name for name, part in found["roles"].items() if (part["accuracy"] or 0.0) < (min_accuracy or 0.0)]
    if missed:
        typer.echo(f"below {min_accuracy:g}: {', '.join(missed)}", err=True)
        raise typer.Exit(1)


@app.command()
def compare(
    first: Annotated[
        str, typer.Argument(metavar="FIRST", help="A folder that score wrote, or a run and a stage: runs/demo:sft.")
    ],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="The same of the other one.")],
    shown: Annotated[int, typer.Option(metavar="N", min=0, help="How many disagreements are listed.")] = 10,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the bootstrap.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare two evaluations of the same questions: paired tests, databases won and lost, telling disagreements."""
    from text2sql_rl.evaluate.versus import compare_evaluations, find_evaluation, read_evaluation
    from text2sql_rl.evaluate.words import comparison_tables

    left, right = (read_evaluation(find_evaluation(text)) for text in (first, second))
    found = compare_evaluations(left, right, seed=seed, shown=shown)
    if as_json:
        typer.echo(as_text(found))
    else:
        console().print(comparison_tables(found))


def _one_source(predictions: Path | None, endpoint: str, model: str) -> None:
    if predictions and (endpoint or model):
        raise typer.BadParameter("excludes --endpoint and --model.", param_hint="--predictions")
    if endpoint and not model:
        raise typer.BadParameter("is needed with --endpoint: the name of the model there.", param_hint="--model")
    if not (predictions or endpoint or model):
        raise typer.BadParameter("or --endpoint or --model is needed: who answers?", param_hint="--predictions")


def _questions(data: str) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
    """The questions asked, and all that are ever judged on their databases where that is known."""
    from text2sql_rl.content import open_content
    from text2sql_rl.questions import load_file
    from text2sql_rl.records import Split

    if data.endswith(".jsonl"):
        return load_file(Path(data), Split.HELDOUT), ()
    sets = open_content().questions
    return sets.role(data), tuple(one for role in sets.roles() for one in sets.role(role))


def _limits(completion: int, temperature: float, batch: int) -> Sampling:
    from text2sql_rl.config import Sampling

    # Greedy answers are asked for as such; the limits' own temperature is that of samples and never 0.
    return Sampling(max_prompt_tokens=16, max_completion_tokens=completion, temperature=temperature or 1.0, batch=batch)


def _object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigError(f"is not JSON ({error})", field="--extra", fix='Write it like {"top_p": 0.9}.') from error
    if not isinstance(content, dict):
        raise ConfigError("is no JSON object", field="--extra", fix='Write it like {"top_p": 0.9}.')
    return content


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on stderr for each phase, where there is a terminal."""
    from rich.console import Console
    from rich.progress import Progress as Bars

    screen = Console(stderr=True)
    with Bars(console=screen, transient=True, disable=not screen.is_terminal) as bars:
        task = bars.add_task("", total=None)
        yield lambda text, done, total: bars.update(task, description=text, completed=done, total=total)

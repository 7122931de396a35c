"""The stage evaluate_SOURCE: load, answer, judge, count, write.

In: a config, a run folder and the stage whose checkpoint is evaluated. Out: predictions.parquet, results.json and
done.json in stages/evaluate_SOURCE. Answers are judged on all instances, as in training; the share that is right on the
real rows stands beside. A killed evaluation starts over; it takes a minute. Not here: torch, which is
imported only when the policy is loaded; policies from elsewhere (score).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from text2sql_rl.config import RunConfig
from text2sql_rl.content import Content, cache_folder, open_content
from text2sql_rl.errors import DataError, SandboxError
from text2sql_rl.evaluate import predictions
from text2sql_rl.evaluate.answers import Examiner, Sampler
from text2sql_rl.evaluate.guard import refuse_leaks
from text2sql_rl.evaluate.judging import Answer, Judging, open_judging
from text2sql_rl.evaluate.metrics import is_scored, summarise
from text2sql_rl.evaluate.results import build_results, write_results
from text2sql_rl.instances.store import shared_pairs
from text2sql_rl.prompts import Style
from text2sql_rl.records import Database, Question, Rollout
from text2sql_rl.runs import RunFolder
from text2sql_rl.sandbox import Limits
from text2sql_rl.scoring import load_rule

# Beyond this the accuracy would be one of the verifier, not of the policy.
_MOST_UNSCORED = 0.05


def evaluate_stage(config: RunConfig, run: RunFolder, source: str, *, allow_leak: bool = False) -> None:
    """Evaluate the checkpoint of stage `source` (base, sft, warmup, grpo, control) and finish stage evaluate_`source`.

    Raises:
        LeakError: a question stands on a database that the checkpoint's training touched, and that is not allowed.
        SandboxError: too many answers could not be judged; the stage is then not done.
        RunError: the checkpoint's stage is not done, or the disk refuses.
        DataError: a question set of the config does not exist or is empty.
        PolicyError: the checkpoint cannot be loaded, or a prompt does not fit.
    """
    stage = run.stage(f"evaluate_{source}")
    content = open_content()
    sets = {role: _questions(content, role, config.evaluate.limit) for role in config.evaluate.roles}
    every = [question for questions in sets.values() for question in questions]
    heldout = refuse_leaks(run, source, every, allow=allow_leak)
    stage.start()
    began = time.monotonic()
    policy, style = load_policy(config, run, source)
    samples = config.evaluate.samples
    with open_judge(config) as judge:
        examiner = Examiner(
            policy, style, judge, config.sampling, seed=config.seed, stage=stage, checkpoint=source,
            total=len(every) * (2 if samples > 1 else 1),
        )  # fmt: skip
        roles: dict[str, Any] = {}
        rows: list[tuple[Question, int, Answer]] = []
        databases: dict[str, Database] = {}
        for role, questions in sets.items():
            pairs = shared_pairs(content, questions)
            databases |= {database.name: database for _, database in pairs}
            greedy = examiner.ask(pairs, samples=1, greedy=True)
            refuse_faults(role, [group[0].rollout for group in greedy])
            sampled = examiner.ask(pairs, samples=samples, greedy=False) if samples > 1 else []
            roles[role] = summarise(questions, [group[0] for group in greedy], sampled, seed=config.seed)
            for number, question in enumerate(questions):
                group = [*greedy[number], *(sampled[number] if sampled else ())]
                rows += [(question, sample, one) for sample, one in enumerate(group)]
        predictions.write_predictions(stage.path / predictions.FILE, rows, heldout.leaked)
        results = build_results(
            source={"kind": "stage", "name": f"{run.name}:{source}", "samples": samples}, heldout=heldout,
            environment=judge.environment, databases=databases, questions=every, seed=config.seed,
            seconds={"total": time.monotonic() - began}, roles=roles,
        )  # fmt: skip
        write_results(stage.path, results)
        stage.finish(
            {
                "summary": summary(roles, heldout.leaked),
                "source": source,
                "rule": config.judge.rule,
                "environment": dict(judge.environment),
                "seed": config.seed,
                "samples": samples,
                "heldout": heldout.as_json(),
                "roles": roles,
            }
        )


def load_policy(config: RunConfig, run: RunFolder, source: str) -> tuple[Sampler, Style]:
    """The policy of stage `source` and its prompt style.

    Raises:
        PolicyError: the checkpoint cannot be loaded.
    """
    from text2sql_rl.learn.checkpoints import load

    dtype = "float32" if config.policy.kind == "scratch" else config.policy.dtype
    return load(run.source(source).path / "checkpoint", dtype)


def open_judge(config: RunConfig) -> AbstractContextManager[Judging]:
    """The judge that the config names, the same as in training.

    Raises:
        ConfigError: there is no such rule.
    """
    settings = config.judge
    limits = Limits(timeout_s=settings.timeout_s, memory_mb=settings.memory_mb)
    return open_judging(load_rule(settings.rule), limits, settings.workers, cache_folder())


def refuse_faults(role: str, rollouts: Sequence[Rollout]) -> None:
    """Stop where more answers than one in twenty could not be judged.

    Raises:
        SandboxError: so many; says how many and most often why.
    """
    reasons = Counter(one.reward.unscored or "no reason given" for one in rollouts if not is_scored(one))
    unscored = sum(reasons.values())
    if unscored > _MOST_UNSCORED * len(rollouts):
        reason, times = reasons.most_common(1)[0]
        raise SandboxError(
            f"{unscored} of {len(rollouts)} answers of {role} could not be judged, {times} of them: {reason}",
            fix="Correct that and evaluate again; an accuracy over the rest would say little.",
        )


def summary(roles: dict[str, Any], leaked: Iterable[str]) -> str:
    """One line: the accuracy of every question set."""
    words = ", ".join(
        f"{role}: nothing scored"
        if part["accuracy"] is None
        else f"{role} {100 * part['accuracy']:.1f} % of {part['scored']}"
        for role, part in roles.items()
    )
    return f"LEAK ALLOWED, {words}" if leaked else words


def in_turn(questions: Sequence[Question], limit: int) -> tuple[Question, ...]:
    """The first `limit` questions, taken in turn from each database so that few still cover all; in their own order."""
    turn: Counter[str] = Counter()
    ranked = []
    for number, question in enumerate(questions):
        ranked.append((turn[question.database], number, question))
        turn[question.database] += 1
    chosen = sorted(ranked, key=lambda entry: entry[:2])[:limit]
    return tuple(question for _, _, question in sorted(chosen, key=lambda entry: entry[1]))


def _questions(content: Content, role: str, limit: int | None) -> tuple[Question, ...]:
    questions = content.questions.role(role)
    if not questions:
        raise DataError(f"the question set {role!r} is empty", field="evaluate.roles", fix="Leave it out.")
    return questions if limit is None else in_turn(questions, limit)

"""The stage evaluate_SOURCE: load, answer, judge, count, write.

In: a config, a run folder and the stage whose checkpoint is evaluated. Out: predictions.parquet and done.json in
stages/evaluate_SOURCE. A killed evaluation starts over; it takes a minute. Not here: torch, which is imported only when
the policy is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from text2sql_rl.config import RunConfig
from text2sql_rl.content import Content, cache_folder, open_content
from text2sql_rl.errors import DataError, SandboxError
from text2sql_rl.evaluate.answers import Examiner, Judging, Sampler
from text2sql_rl.evaluate.guard import refuse_leaks
from text2sql_rl.evaluate.metrics import is_scored, summarise
from text2sql_rl.evaluate.predictions import write_predictions
from text2sql_rl.judge import Judge
from text2sql_rl.prompts import Style
from text2sql_rl.records import Question, Rollout
from text2sql_rl.runs import RunFolder
from text2sql_rl.sandbox import Limits
from text2sql_rl.scoring import load_rule

# Beyond this the accuracy would be one of the verifier, not of the policy.
_MOST_UNSCORED = 0.05


def evaluate_stage(config: RunConfig, run: RunFolder, source: str) -> None:
    """Evaluate the checkpoint of stage `source` (base, sft, warmup, grpo, control) and finish stage evaluate_`source`.

    Raises:
        LeakError: a question stands on a database that the checkpoint's training touched.
        SandboxError: too many answers could not be judged; the stage is then not done.
        RunError: the checkpoint's stage is not done, or the disk refuses.
        DataError: a question set of the config does not exist or is empty.
        PolicyError: the checkpoint cannot be loaded, or a prompt does not fit.
    """
    stage = run.stage(f"evaluate_{source}")
    content = open_content()
    sets = {role: _questions(content, role, config.evaluate.limit) for role in config.evaluate.roles}
    refuse_leaks(run, source, [question for questions in sets.values() for question in questions])
    stage.start()
    policy, style = load_policy(config, run, source)
    samples = config.evaluate.samples
    with open_judge(config) as judge:
        total = sum(map(len, sets.values())) * (2 if samples > 1 else 1)
        examiner = Examiner(
            policy, style, judge, config.sampling, seed=config.seed, stage=stage, checkpoint=source, total=total
        )
        roles: dict[str, Any] = {}
        answers: list[tuple[Question, int, Rollout]] = []
        for role, questions in sets.items():
            pairs = content.pairs(questions)
            greedy = examiner.ask(pairs, samples=1, greedy=True)
            _refuse_faults(role, [group[0] for group in greedy])
            sampled = examiner.ask(pairs, samples=samples, greedy=False) if samples > 1 else []
            roles[role] = summarise(questions, [group[0] for group in greedy], sampled, seed=config.seed)
            for number, question in enumerate(questions):
                group = [*greedy[number], *(sampled[number] if sampled else ())]
                answers += [(question, sample, one) for sample, one in enumerate(group)]
        write_predictions(stage.path / "predictions.parquet", answers)
        stage.finish(
            {
                "summary": ", ".join(_words(role, numbers) for role, numbers in roles.items()),
                "source": source,
                "rule": config.judge.rule,
                "environment": dict(judge.environment),
                "seed": config.seed,
                "samples": samples,
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
    return Judge(load_rule(settings.rule), limits, settings.workers, cache=cache_folder() / "golds")


def _questions(content: Content, role: str, limit: int | None) -> tuple[Question, ...]:
    """The first `limit` questions of a role, taken in turn from each database so that few still cover all."""
    questions = content.questions.role(role)
    if not questions:
        raise DataError(f"the question set {role!r} is empty", field="evaluate.roles", fix="Leave it out.")
    if limit is None or limit >= len(questions):
        return questions
    turn: Counter[str] = Counter()
    ranked = []
    for number, question in enumerate(questions):
        ranked.append((turn[question.database], number, question))
        turn[question.database] += 1
    chosen = sorted(ranked, key=lambda entry: entry[:2])[:limit]
    return tuple(question for _, _, question in sorted(chosen, key=lambda entry: entry[1]))


def _refuse_faults(role: str, rollouts: Sequence[Rollout]) -> None:
    reasons = Counter(one.reward.unscored or "no reason given" for one in rollouts if not is_scored(one))
    unscored = sum(reasons.values())
    if unscored > _MOST_UNSCORED * len(rollouts):
        reason, times = reasons.most_common(1)[0]
        raise SandboxError(
            f"{unscored} of {len(rollouts)} answers of {role} could not be judged, {times} of them: {reason}",
            fix="Correct that and evaluate again; an accuracy over the rest would say little.",
        )


def _words(role: str, numbers: dict[str, Any]) -> str:
    if numbers["accuracy"] is None:
        return f"{role}: nothing scored"
    return f"{role} {numbers['accuracy']:.1%} of {numbers['scored']}"

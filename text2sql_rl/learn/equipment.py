"""What a config means to the training stages: the judge, the dev check, schedules, where rollouts come from.

In: a run's config. Out: the objects that the stages work with. Not here: the stages; which questions (material.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from text2sql_rl.config import Lora, PretrainedPolicy, RunConfig, ScratchPolicy
from text2sql_rl.content import Content, cache_folder, database_folders
from text2sql_rl.errors import ConfigError
from text2sql_rl.instances.store import instances_sha256
from text2sql_rl.judge import Judge
from text2sql_rl.learn.material import asked, shuffled
from text2sql_rl.learn.sft import Schedule
from text2sql_rl.learn.watch import DevCheck
from text2sql_rl.policy.hf import Loading
from text2sql_rl.prompts import Style
from text2sql_rl.records import Database, Question
from text2sql_rl.rollout_log import Lineage, Origin
from text2sql_rl.sandbox import Limits
from text2sql_rl.scoring import load_rule


def refuse_misfit(config: RunConfig) -> None:
    """A policy from scratch knows the words of the slot style and no others; a pretrained one knows no slots.

    Raises:
        ConfigError: policy and prompt style do not go together.
        PolicyError: this machine cannot load the policy as the config says.
    """
    styles = ("slot",) if isinstance(config.policy, ScratchPolicy) else ("ddl", "compact")
    if config.prompt_style not in styles:
        raise ConfigError(
            f"a {config.policy.kind} policy cannot read prompt style {config.prompt_style}",
            field="prompt_style",
            fix=f"Set it to {' or '.join(styles)}, or change policy.kind.",
        )
    loading(config).check()


def open_judge(config: RunConfig) -> Judge:
    """The judge that the config names; prepared golds are kept between stages and runs."""
    limits = Limits(timeout_s=config.judge.timeout_s, memory_mb=config.judge.memory_mb)
    rule, folders = load_rule(config.judge.rule), database_folders()
    return Judge(rule, limits, config.judge.workers, cache=cache_folder() / "golds", folders=folders)


def to_measure(config: RunConfig, content: Content) -> list[tuple[Question, Database]]:
    """The rl questions whose pass rates decide what GRPO asks, under the policy that it starts from.

    After a warm-up those not measured before come first, as long as there are any.
    """
    items, measured = shuffled(content, config.seed), config.difficulty.questions
    if config.warmup is None:
        return items[:measured]
    return (items[measured:] + items[:measured])[: config.warmup.measure]


def dev_check(config: RunConfig, content: Content, style: Style, judge: Judge) -> DevCheck:
    """The check of a policy on the dev questions."""
    return DevCheck(asked(content, "dev"), style, config.sampling, judge, config.seed)


def held_in_check(config: RunConfig, content: Content, style: Style, judge: Judge) -> DevCheck | None:
    """The check of a policy on some questions that it was fine-tuned on, if the config asks for it."""
    if not config.grpo.held_in:
        return None
    items = asked(content, "sft")
    chosen = random.Random(config.seed).sample(items, min(len(items), config.grpo.held_in))
    return DevCheck(chosen, style, config.sampling, judge, config.seed)


def make_schedule(
    config: RunConfig, steps: int, batch: int, rate: float, patience: int | None, offset: int = 0
) -> Schedule:
    """The schedule of a supervised stage; `offset` gives it a seed of its own."""
    muon = isinstance(config.policy, ScratchPolicy)
    rise = max(1, min(100, steps // 10))
    every = config.sft.eval_every
    return Schedule(steps, batch, rate, rise, every, patience, muon, config.seed + offset)


def lineage_of(
    config: RunConfig, name: str, source: str, judge: Judge, items: Sequence[tuple[Question, Database]]
) -> Lineage:
    """Where the rollouts of stage `name` come from: a policy of stage `source`, these questions."""
    environment = judge.environment
    return Lineage(
        run=config.name,
        stage=name,
        checkpoint=source,
        seed=config.seed,
        sampling=config.sampling.model_dump_json(),
        engine=environment["engine"],
        limits_sha256=environment["limits_sha256"],
        origins={
            question.id: Origin(
                instance_sha256=instances_sha256(database),
                gold_sql=question.gold_sql,
                role=question.role,
            )
            for question, database in items
        },
    )


def loading(config: RunConfig) -> Loading:
    """How the policy is loaded for training and measuring."""
    policy = config.policy
    if isinstance(policy, ScratchPolicy):
        return Loading()
    return Loading(policy.dtype, policy.attention, policy.gradient_checkpointing)


def adapters(config: RunConfig) -> Lora | None:
    """The adapters that the config asks for, if any."""
    return config.policy.lora if isinstance(config.policy, PretrainedPolicy) else None

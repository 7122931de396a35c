"""The work of the stage grpo: which questions, their order or their reserve, and what is written of every block.

In: the config, the run, the policy to start from. Out: the stage's result; rollouts, alarms and signs on the way. Not
here: training itself (grpo.py), the stage's begin and end (stages.py).
"""

from __future__ import annotations

from typing import Any

from text2sql_rl.canaries import watch_over
from text2sql_rl.config import RunConfig, ScratchPolicy
from text2sql_rl.content import open_content
from text2sql_rl.group import AdvantageRule, describe, describe_aggregation, describe_truncated
from text2sql_rl.judge import Judge
from text2sql_rl.learn import difficulty as measuring
from text2sql_rl.learn import grpo
from text2sql_rl.learn.asking import Dynamic, Task
from text2sql_rl.learn.equipment import adapters, dev_check, held_in_check, lineage_of, to_measure
from text2sql_rl.learn.material import asked, count_visits, fitting, training_order
from text2sql_rl.learn.reporters import reporters
from text2sql_rl.learn.reserve import Reserve
from text2sql_rl.learn.signs import Signs
from text2sql_rl.learn.trainer import Sampled
from text2sql_rl.policy.hf import Policy
from text2sql_rl.prompts import Style
from text2sql_rl.records import Database, Question
from text2sql_rl.rollout_log import part_path, read_groups, write_groups
from text2sql_rl.runs import RunFolder, StageFolder

Asked = dict[str, tuple[Question, Database]]


def reinforce(
    config: RunConfig, run: RunFolder, stage: StageFolder, policy: Policy, style: Style, judge: Judge, before: str
) -> dict[str, Any]:
    """Train with GRPO on the questions that the config says; `before` is the stage that the policy comes from.

    Raises:
        DataError: no question lies in the band.
    """
    settings, content = config.grpo, open_content()
    measured: StageFolder | None = None
    too_long: list[str] = []
    if settings.questions == "band":
        measured = run.source("difficulty_warm" if config.warmup else "difficulty")
        known = {question.id: (question, database) for question, database in asked(content, "rl")}
        by_id = {name: known[name] for name in measured.result()["kept_ids"]}
    else:
        items, too_long = fitting(
            to_measure(config, content), style, policy.tokenizer, config.sampling.max_prompt_tokens
        )
        by_id = {question.id: (question, database) for question, database in items}
    dynamic = _dynamic(config, measured, by_id, style) if settings.dynamic else None
    tasks = [dynamic.ask(name, 1) for name in by_id] if dynamic else in_order(config, by_id, style)
    lineage = lineage_of(config, "grpo", before, judge, list(by_id.values()))
    watch = watch_over(tasks, judge, settings.canaries, stage) if grpo.is_first_rank() else None
    signs = Signs(stage, settings.save_every)

    def log(block: Sampled) -> None:
        path, first = part_path(stage.path / "rollouts", block.step), not block.measured
        write_groups(path, block.groups, lineage, step=block.step, updates=block.updates)
        if first and watch is not None:
            watch.after(block.step, sum(len(group.rollouts) for group in block.groups))
            signs.after(block.step)

    result = grpo.train(
        policy,
        style,
        tasks,
        settings,
        config.sampling,
        judge,
        stage,
        dev_check(config, content, style, judge),
        seed=config.seed + 3,
        lora=adapters(config),
        muon=isinstance(config.policy, ScratchPolicy),
        dynamic=dynamic,
        held_in=held_in_check(config, content, style, judge),
        report_to=reporters(settings.report_to),
        log_block=log,
    )
    asked_ids = {task.question.id for task in tasks} if dynamic is None else dynamic.reserve.asked()
    rule = AdvantageRule(**settings.advantage.model_dump())
    words = {
        "advantage": describe(rule),
        "truncated": describe_truncated(rule),
        "loss": describe_aggregation(settings.aggregation),
        "sampling": _sampling_words(config),
        "signs": signs.now(settings.steps),
    }
    databases = sorted({by_id[name][1].name for name in asked_ids})
    told = watch.result() if watch is not None else {}
    numbers = {"questions": len(asked_ids), "too_long": too_long, "databases": databases}
    return {**result, **told, **words, **cost(stage), **numbers}


def cost(stage: StageFolder) -> dict[str, Any]:
    """What informative groups cost: completions sampled for each of them, over all steps; None where there was none."""
    rows = stage.metrics()
    completions, groups = (
        round(sum(row.get(f"sampled/{name}") or 0 for row in rows)) for name in ("completions", "informative_groups")
    )
    price = completions / groups if groups else None
    return {"completions": completions, "informative_groups": groups, "completions_per_informative_group": price}


def in_order(config: RunConfig, by_id: Asked, style: Style) -> list[Task]:
    """The tasks of a whole training without dynamic sampling, from the questions of the band."""
    order = training_order(list(by_id), grpo.tasks_needed(config.grpo), config.seed)
    return [Task(*by_id[name], style.prompt(*by_id[name], visit=visit)) for name, visit in count_visits(order)]


def _dynamic(config: RunConfig, measured: StageFolder | None, by_id: Asked, style: Style) -> Dynamic:
    settings = config.grpo.dynamic
    assert settings is not None
    rates = {name: (0, 0) for name in by_id}
    for group in read_groups(measured.path / "rollouts") if measured else ():
        if group.question_id in rates:
            rate = measuring.pass_rate(group)
            rates[group.question_id] = (rate.passed, rate.scored)
    reserve = Reserve(rates, generations=config.grpo.generations, half_life=settings.half_life, seed=config.seed)
    return Dynamic(
        reserve, lambda name, visit: Task(*by_id[name], style.prompt(*by_id[name], visit=visit)), settings.rounds
    )


def _sampling_words(config: RunConfig) -> str:
    settings = config.grpo.dynamic
    if settings is None:
        which = "of the band" if config.grpo.questions == "band" else "without a band"
        return f"every question {which} equally often; degenerate groups are left out of the update"
    return (
        "questions by their chance of a mixed group, from pass rates that are updated while training and count half "
        f"after {settings.half_life} steps; degenerate groups are dropped and others asked, in at most "
        f"{settings.rounds} rounds"
    )

"""The stages of a run, in their order. Each reads what the one before left, and ends with its result.

    base -> sft -> difficulty -> warmup -> difficulty_warm -> grpo
       golds -/ \\-> control

In: the config and the run's folder. Out: stage folders with `checkpoint/`, metrics, rollouts and `done.json`. Not here:
evaluation, how a stage trains, the golds (golds.py), which questions it may read
(material.py), what the config means to it (equipment.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from text2sql_rl.canaries import watch_over
from text2sql_rl.config import RunConfig, ScratchPolicy
from text2sql_rl.content import open_content
from text2sql_rl.group import AGGREGATION_WORDS, AdvantageRule, describe
from text2sql_rl.learn import difficulty as measuring
from text2sql_rl.learn import grpo as group_training
from text2sql_rl.learn.checkpoints import load, save_style
from text2sql_rl.learn.equipment import (
    adapters,
    dev_check,
    lineage_of,
    make_schedule,
    number_format,
    open_judge,
    refuse_misfit,
)
from text2sql_rl.learn.material import asked, count_visits, shuffled, solved_pairs, training_order, vocabulary
from text2sql_rl.learn.pairs import Pair, build_rows, unexpressed
from text2sql_rl.learn.sft import Schedule, fine_tune
from text2sql_rl.learn.signs import Signs
from text2sql_rl.learn.watch import DevCheck
from text2sql_rl.policy.hf import Policy, make_scratch
from text2sql_rl.prompts import Style, make_style
from text2sql_rl.prompts.slot import placeholders
from text2sql_rl.records import Database, Group, PassRate, Question
from text2sql_rl.rollout_log import part_path, read_groups, write_groups
from text2sql_rl.runs import RunFolder, StageFolder

# Far enough apart that the chunks of two measurements never share a seed.
_SAMPLING_SEEDS = {"difficulty": 1_000, "difficulty_warm": 2_501_000}


def base(config: RunConfig, run: RunFolder) -> None:
    """The untrained policy: a new one from scratch, or the name of a pretrained one."""
    refuse_misfit(config)
    stage = run.stage("base")
    stage.start()
    folder = stage.path / "checkpoint"
    folder.mkdir(exist_ok=True)
    if isinstance(config.policy, ScratchPolicy):
        content = open_content()
        words, answers = vocabulary(content)
        style = make_style(config.prompt_style, words)
        longest = config.sampling.max_prompt_tokens + config.sampling.max_completion_tokens
        make_scratch(config.policy, [*placeholders(), *words, *answers], longest, config.seed, folder)
        result: dict[str, Any] = {"words": len(words), "sql_tokens": len(answers)}
    else:
        style = make_style(config.prompt_style)
        (folder / "model_name.txt").write_text(config.policy.model, encoding="utf-8")
        result = {"model": config.policy.model}
    save_style(style, folder)
    stage.finish({**result, "databases": []})


def sft(config: RunConfig, run: RunFolder) -> None:
    """Supervised fine-tuning on the labelled pairs, to convergence on dev."""
    stage = run.stage("sft")
    stage.start()
    with open_judge(config) as judge:
        content = open_content()
        policy, style = load(run.source("base").path / "checkpoint", number_format(config))
        settings = config.sft
        pairs = [Pair(question, database, question.gold_sql) for question, database in asked(content, "sft")]
        schedule = make_schedule(config, settings.steps, settings.batch, settings.learning_rate, settings.patience)
        result = _fine_tune(
            config, stage, policy, style, pairs, schedule, dev_check(config, content, style, judge), True
        )
    stage.finish(result)


def control(config: RunConfig, run: RunFolder) -> None:
    """SFT continued from the sft checkpoint on the same pairs: what the same minutes give without rewards."""
    assert config.control is not None
    stage = run.stage("control")
    stage.start()
    with open_judge(config) as judge:
        content = open_content()
        policy, style = load(run.source("sft").path / "checkpoint", number_format(config))
        pairs = [Pair(question, database, question.gold_sql) for question, database in asked(content, "sft")]
        settings = config.control
        schedule = make_schedule(config, settings.steps, config.sft.batch, settings.learning_rate, None, offset=2)
        result = _fine_tune(
            config, stage, policy, style, pairs, schedule, dev_check(config, content, style, judge), False
        )
    stage.finish(result)


def difficulty(config: RunConfig, run: RunFolder) -> None:
    """Pass rates of rl questions under the sft checkpoint."""
    items = shuffled(open_content(), config.seed)
    _measure(config, run, "difficulty", "sft", items[: config.difficulty.questions])


def difficulty_warm(config: RunConfig, run: RunFolder) -> None:
    """Pass rates after the warm-up, of questions that were not measured before as long as there are any."""
    assert config.warmup is not None
    items, measured = shuffled(open_content(), config.seed), config.difficulty.questions
    _measure(config, run, "difficulty_warm", "warmup", (items[measured:] + items[:measured])[: config.warmup.measure])


def warmup(config: RunConfig, run: RunFolder) -> None:
    """Rejection-sampling fine-tuning: the matching completions that difficulty paid for, beside the labelled pairs."""
    assert config.warmup is not None
    stage = run.stage("warmup")
    stage.start()
    with open_judge(config) as judge:
        content = open_content()
        policy, style = load(run.source("sft").path / "checkpoint", number_format(config))
        settings = config.warmup
        groups = read_groups(run.source("difficulty").path / "rollouts")
        solved = solved_pairs(groups, {q.id: (q, d) for q, d in asked(content, "rl")}, settings.per_question)
        labelled = [Pair(question, database, question.gold_sql) for question, database in asked(content, "sft")]
        schedule = make_schedule(config, settings.steps, settings.batch, settings.learning_rate, None, offset=1)
        dev = dev_check(config, content, style, judge)
        result = _fine_tune(config, stage, policy, style, solved + labelled, schedule, dev, False)
    lineage = {"old_policy_pairs": len(solved), "old_policy": "sft", "labelled_pairs": len(labelled)}
    stage.finish({**result, **lineage})


def grpo(config: RunConfig, run: RunFolder) -> None:
    """Group relative policy optimisation on the questions of the band."""
    stage = run.stage("grpo")
    stage.start()
    before = "warmup" if config.warmup else "sft"
    measured = "difficulty_warm" if config.warmup else "difficulty"
    with open_judge(config) as judge:
        content = open_content()
        policy, style = load(run.source(before).path / "checkpoint", number_format(config))
        by_id = {question.id: (question, database) for question, database in asked(content, "rl")}
        kept = run.source(measured).result()["kept_ids"]
        settings = config.grpo
        order = training_order(kept, settings.steps * settings.questions_per_step, config.seed)
        visits = count_visits(order)
        tasks = [group_training.Task(*by_id[q], style.prompt(*by_id[q], visit=visit)) for q, visit in visits]
        lineage = lineage_of(config, "grpo", before, judge, [by_id[name] for name in kept])
        watch = watch_over(tasks, judge, settings.canaries, stage)
        signs = Signs(stage, settings.save_every)

        def log(step: int, groups: Sequence[Group]) -> None:
            write_groups(part_path(stage.path / "rollouts", step), groups, lineage, step=step)
            watch.after(step, sum(len(group.rollouts) for group in groups))
            signs.after(step)

        result = group_training.train(
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
            log_groups=log,
        )
    databases = sorted({task.question.database for task in tasks})
    words = {
        "advantage": describe(AdvantageRule(settings.advantage.scale, settings.advantage.floor)),
        "loss": AGGREGATION_WORDS,
        "signs": signs.now(settings.steps),
    }
    stage.finish({**result, **watch.result(), **words, "questions": len(set(order)), "databases": databases})


def _measure(
    config: RunConfig, run: RunFolder, name: str, source: str, items: Sequence[tuple[Question, Database]]
) -> None:
    stage = run.stage(name)
    stage.start()
    settings = config.difficulty
    rates: list[PassRate] = []
    began = time.perf_counter()
    with open_judge(config) as judge:
        policy, style = load(run.source(source).path / "checkpoint", number_format(config))
        lineage = lineage_of(config, name, source, judge, items)
        folder = stage.path / "rollouts"

        def done(number: int) -> list[Group] | None:
            path = part_path(folder, number)
            return read_groups(path) if path.is_file() else None

        def log(number: int, groups: list[Group]) -> None:
            write_groups(part_path(folder, number), groups, lineage, step=number)

        seed = config.seed + _SAMPLING_SEEDS[name]
        for count, groups in measuring.measure(
            policy, style, items, config.sampling, judge, samples=settings.samples, seed=seed, done=done, log=log
        ):
            rates += [measuring.pass_rate(group) for group in groups]
            mean = sum(rate.rate for rate in rates) / len(rates)
            stage.progress(count, len(items), f"mean pass rate {mean:.1%}")
    band = measuring.filter_band(rates, settings)
    numbers = measuring.summary(rates, band, settings.samples)
    seconds = time.perf_counter() - began
    databases = sorted({database.name for _, database in items})
    words = f"kept {numbers['kept']}, too easy {numbers['too_easy']}, too hard {numbers['too_hard']}"
    stage.finish({**numbers, "kept_ids": list(band.kept), "seconds": seconds, "databases": databases, "summary": words})


def _fine_tune(
    config: RunConfig,
    stage: StageFolder,
    policy: Policy,
    style: Style,
    pairs: Sequence[Pair],
    schedule: Schedule,
    dev: DevCheck,
    curriculum: bool,
) -> dict[str, Any]:
    rows = build_rows(
        pairs,
        style,
        policy.tokenizer,
        rows=schedule.steps * schedule.batch,
        batch=schedule.batch,
        longest=config.sampling.max_prompt_tokens,
        seed=schedule.seed,
        augment=config.sft.augment,
        curriculum=curriculum,
    )
    left_out = [pair.question.id for pair in unexpressed(pairs, style)]
    result = fine_tune(policy, style, rows, schedule, stage, dev, adapters(config))
    return {
        **result,
        "pairs": len(pairs),
        "unexpressed": left_out,
        "databases": sorted({pair.database.name for pair in pairs}),
        "summary": f"dev {result['dev_accuracy']:.1%} at step {result['best_step']} of {result['steps']}",
    }

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

from text2sql_rl.config import RunConfig, ScratchPolicy
from text2sql_rl.content import open_content
from text2sql_rl.learn import difficulty as measuring
from text2sql_rl.learn import grpo as group_training
from text2sql_rl.learn.checkpoints import load, save_style
from text2sql_rl.learn.equipment import (
    adapters,
    dev_check,
    lineage_of,
    loading,
    make_schedule,
    open_judge,
    refuse_misfit,
    to_measure,
)
from text2sql_rl.learn.material import asked, fitting, shuffled, solved_pairs, vocabulary
from text2sql_rl.learn.pairs import Pair, build_rows, unexpressed
from text2sql_rl.learn.reinforce import reinforce
from text2sql_rl.learn.sft import Schedule, fine_tune
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
        style = make_style(config.prompt_style, max_tokens=config.sampling.max_prompt_tokens)
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
        policy, style = load(run.source("base").path / "checkpoint", loading(config))
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
        policy, style = load(run.source("sft").path / "checkpoint", loading(config))
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
    _measure(config, run, "difficulty_warm", "warmup", to_measure(config, open_content()))


def warmup(config: RunConfig, run: RunFolder) -> None:
    """Rejection-sampling fine-tuning: the matching completions that difficulty paid for, beside the labelled pairs."""
    assert config.warmup is not None
    stage = run.stage("warmup")
    stage.start()
    with open_judge(config) as judge:
        content = open_content()
        policy, style = load(run.source("sft").path / "checkpoint", loading(config))
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
    """Group relative policy optimisation on the questions of the band; under torchrun, on every rank."""
    stage = run.stage("grpo")
    if group_training.is_first_rank():
        stage.start()
    before = "warmup" if config.warmup else "sft"
    with open_judge(config) as judge:
        policy, style = load(run.source(before).path / "checkpoint", loading(config))
        result = reinforce(config, run, stage, policy, style, judge, before)
    if group_training.is_first_rank():
        stage.finish(result)
    group_training.wait_for_all()


def _measure(
    config: RunConfig, run: RunFolder, name: str, source: str, items: Sequence[tuple[Question, Database]]
) -> None:
    stage = run.stage(name)
    stage.start()
    settings = config.difficulty
    rates: list[PassRate] = []
    began = time.perf_counter()
    with open_judge(config) as judge:
        policy, style = load(run.source(source).path / "checkpoint", loading(config))
        items, too_long = fitting(items, style, policy.tokenizer, config.sampling.max_prompt_tokens)
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
    words = f"kept {numbers['kept']}, too easy {numbers['too_easy']}, too hard {numbers['too_hard']}{_left(too_long)}"
    result = {**numbers, "kept_ids": list(band.kept), "too_long": too_long, "seconds": seconds, "databases": databases}
    stage.finish({**result, "summary": words})


def _left(too_long: Sequence[str]) -> str:
    """What a summary adds where prompts did not fit."""
    return f"; {len(too_long)} prompts too long, left out" if too_long else ""


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
    _, too_long = fitting(
        [(one.question, one.database) for one in pairs], style, policy.tokenizer, config.sampling.max_prompt_tokens
    )
    left = set(too_long)
    pairs = [one for one in pairs if one.question.id not in left]
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
    best = f"dev {result['dev_accuracy']:.1%} at step {result['best_step']} of {result['steps']}"
    return {
        **result,
        "pairs": len(pairs),
        "unexpressed": left_out,
        "too_long": too_long,
        "databases": sorted({pair.database.name for pair in pairs}),
        "summary": f"{best}{_left(too_long)}",
    }

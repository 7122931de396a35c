"""The stages of a run, in their order. Each reads what the one before left, and ends with its result.

    base -> sft -> difficulty -> warmup -> difficulty_warm -> grpo
               \\-> control

In: the config and the run's folder. Out: stage folders with `checkpoint/`, metrics, rollouts and `done.json`. Only
training and dev questions come here: `_role` refuses held-out ones. Not here: evaluation, and how a stage trains.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Sequence
from typing import Any

from text2sql_rl.config import Lora, PretrainedPolicy, RunConfig, ScratchPolicy
from text2sql_rl.content import Content, cache_folder, open_content
from text2sql_rl.errors import ConfigError, DataError, LeakError
from text2sql_rl.judge import Judge
from text2sql_rl.learn import difficulty as measuring
from text2sql_rl.learn import grpo as group_training
from text2sql_rl.learn.checkpoints import load, save_style
from text2sql_rl.learn.pairs import Pair, build_rows, unexpressed
from text2sql_rl.learn.sft import Schedule, fine_tune
from text2sql_rl.learn.watch import DevCheck
from text2sql_rl.policy.hf import Policy, make_scratch
from text2sql_rl.prompts import Style, make_style
from text2sql_rl.prompts.slot import SlotStyle, placeholders
from text2sql_rl.records import Database, Group, PassRate, Question, Split
from text2sql_rl.rollout_log import Lineage, Origin, part_path, read_groups, write_groups
from text2sql_rl.runs import RunFolder, StageFolder
from text2sql_rl.sandbox import Limits
from text2sql_rl.scoring import load_rule

# Far enough apart that the chunks of two measurements never share a seed.
_SAMPLING_SEEDS = {"difficulty": 1_000, "difficulty_warm": 2_501_000}


def base(config: RunConfig, run: RunFolder) -> None:
    """The untrained policy: a new one from scratch, or the name of a pretrained one."""
    _refuse_misfit(config)
    stage = run.stage("base")
    stage.start()
    folder = stage.path / "checkpoint"
    folder.mkdir(exist_ok=True)
    if isinstance(config.policy, ScratchPolicy):
        content = open_content()
        words, answers = _vocabulary(content)
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
    with _judge(config) as judge:
        content = open_content()
        policy, style = load(run.source("base").path / "checkpoint", _dtype(config))
        settings = config.sft
        pairs = [Pair(question, database, question.gold_sql) for question, database in _role(content, "sft")]
        schedule = _schedule(config, settings.steps, settings.batch, settings.learning_rate, settings.patience)
        result = _fine_tune(config, stage, policy, style, pairs, schedule, _dev(config, content, style, judge), True)
    stage.finish(result)


def control(config: RunConfig, run: RunFolder) -> None:
    """SFT continued from the sft checkpoint on the same pairs: what the same minutes give without rewards."""
    assert config.control is not None
    stage = run.stage("control")
    stage.start()
    with _judge(config) as judge:
        content = open_content()
        policy, style = load(run.source("sft").path / "checkpoint", _dtype(config))
        pairs = [Pair(question, database, question.gold_sql) for question, database in _role(content, "sft")]
        settings = config.control
        schedule = _schedule(config, settings.steps, config.sft.batch, settings.learning_rate, None, offset=2)
        result = _fine_tune(config, stage, policy, style, pairs, schedule, _dev(config, content, style, judge), False)
    stage.finish(result)


def difficulty(config: RunConfig, run: RunFolder) -> None:
    """Pass rates of rl questions under the sft checkpoint."""
    items = _shuffled(open_content(), config.seed)
    _measure(config, run, "difficulty", "sft", items[: config.difficulty.questions])


def difficulty_warm(config: RunConfig, run: RunFolder) -> None:
    """Pass rates after the warm-up, of questions that were not measured before as long as there are any."""
    assert config.warmup is not None
    items, measured = _shuffled(open_content(), config.seed), config.difficulty.questions
    _measure(config, run, "difficulty_warm", "warmup", (items[measured:] + items[:measured])[: config.warmup.measure])


def warmup(config: RunConfig, run: RunFolder) -> None:
    """Rejection-sampling fine-tuning: the matching completions that difficulty paid for, beside the labelled pairs."""
    assert config.warmup is not None
    stage = run.stage("warmup")
    stage.start()
    with _judge(config) as judge:
        content = open_content()
        policy, style = load(run.source("sft").path / "checkpoint", _dtype(config))
        settings = config.warmup
        groups = read_groups(run.source("difficulty").path / "rollouts")
        solved = _solved(groups, {q.id: (q, d) for q, d in _role(content, "rl")}, settings.per_question)
        labelled = [Pair(question, database, question.gold_sql) for question, database in _role(content, "sft")]
        schedule = _schedule(config, settings.steps, settings.batch, settings.learning_rate, None, offset=1)
        dev = _dev(config, content, style, judge)
        result = _fine_tune(config, stage, policy, style, solved + labelled, schedule, dev, False)
    lineage = {"old_policy_pairs": len(solved), "old_policy": "sft", "labelled_pairs": len(labelled)}
    stage.finish({**result, **lineage})


def grpo(config: RunConfig, run: RunFolder) -> None:
    """Group relative policy optimisation on the questions of the band."""
    stage = run.stage("grpo")
    stage.start()
    before = "warmup" if config.warmup else "sft"
    measured = "difficulty_warm" if config.warmup else "difficulty"
    with _judge(config) as judge:
        content = open_content()
        policy, style = load(run.source(before).path / "checkpoint", _dtype(config))
        by_id = {question.id: (question, database) for question, database in _role(content, "rl")}
        kept = run.source(measured).result()["kept_ids"]
        settings = config.grpo
        order = _order(kept, settings.steps * settings.questions_per_step, config.seed)
        tasks = [group_training.Task(*by_id[name], style.prompt(*by_id[name])) for name in order]
        lineage = _lineage(config, "grpo", before, judge, style, [by_id[name] for name in kept])

        def log(step: int, groups: Sequence[Group]) -> None:
            write_groups(part_path(stage.path / "rollouts", step), groups, lineage, step=step)

        result = group_training.train(
            policy,
            style,
            tasks,
            settings,
            config.sampling,
            judge,
            stage,
            _dev(config, content, style, judge),
            seed=config.seed + 3,
            lora=_lora(config),
            log_groups=log,
        )
    databases = sorted({task.question.database for task in tasks})
    stage.finish({**result, "questions": len(set(order)), "databases": databases})


def _measure(
    config: RunConfig, run: RunFolder, name: str, source: str, items: Sequence[tuple[Question, Database]]
) -> None:
    stage = run.stage(name)
    stage.start()
    settings = config.difficulty
    rates: list[PassRate] = []
    began = time.perf_counter()
    with _judge(config) as judge:
        policy, style = load(run.source(source).path / "checkpoint", _dtype(config))
        lineage = _lineage(config, name, source, judge, style, items)
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
    result = fine_tune(policy, style, rows, schedule, stage, dev, _lora(config))
    return {
        **result,
        "pairs": len(pairs),
        "unexpressed": left_out,
        "databases": sorted({pair.database.name for pair in pairs}),
        "summary": f"dev {result['dev_accuracy']:.1%} at step {result['best_step']} of {result['steps']}",
    }


def _schedule(
    config: RunConfig, steps: int, batch: int, rate: float, patience: int | None, offset: int = 0
) -> Schedule:
    muon = isinstance(config.policy, ScratchPolicy)
    rise = max(1, min(100, steps // 10))
    every = config.sft.eval_every
    return Schedule(steps, batch, rate, rise, every, patience, muon, config.seed + offset)


def _refuse_misfit(config: RunConfig) -> None:
    """A policy from scratch knows the words of the slot style and no others; a pretrained one knows no slots."""
    style = "slot" if isinstance(config.policy, ScratchPolicy) else "ddl"
    if config.prompt_style != style:
        raise ConfigError(
            f"a {config.policy.kind} policy cannot read prompt style {config.prompt_style}",
            field="prompt_style",
            fix=f"Set it to {style}, or change policy.kind.",
        )


def _role(content: Content, role: str) -> list[tuple[Question, Database]]:
    questions = content.questions.role(role)
    for question in questions:
        if question.split is Split.HELDOUT:
            raise LeakError(f"held-out question {question.id} where training would touch it", field=role)
    if not questions:
        raise DataError(f"the question set {role!r} is empty", fix="Synthesize or import questions.")
    return content.pairs(questions)


def _shuffled(content: Content, seed: int) -> list[tuple[Question, Database]]:
    """The rl questions in the run's own fixed order."""
    items = _role(content, "rl")
    return random.Random(seed).sample(items, len(items))


def _order(kept: Sequence[str], count: int, seed: int) -> list[str]:
    if not kept:
        raise DataError(
            "no question lies in the band low < pass rate < high",
            field="difficulty",
            fix="Widen the band, measure more questions, or train SFT longer.",
        )
    rng = random.Random(seed)
    order: list[str] = []
    while len(order) < count:
        order += rng.sample(list(kept), len(kept))
    return order[:count]


def _solved(groups: Sequence[Group], by_id: dict[str, tuple[Question, Database]], most: int) -> list[Pair]:
    """The distinct matching candidates, at most `most` a question, the most frequent first."""
    pairs: list[Pair] = []
    for group in groups:
        counts: dict[str, int] = {}
        for rollout in group.rollouts:
            if rollout.equivalent and rollout.candidate.sql:
                counts[rollout.candidate.sql] = counts.get(rollout.candidate.sql, 0) + 1
        for sql in sorted(counts, key=lambda text: (-counts[text], text))[:most]:
            pairs.append(Pair(*by_id[group.question_id], sql))
    return pairs


def _vocabulary(content: Content) -> tuple[list[str], list[str]]:
    """Words of training questions that name nothing, and the tokens of their SQL answers. Only sft SQL is read."""
    style = SlotStyle(())
    words = {word for role in ("sft", "rl") for q, d in _role(content, role) for word in style.words(q, d)}
    known = SlotStyle(words)
    answers: set[str] = set()
    for question, database in _role(content, "sft"):
        prompt = known.prompt(question, database)
        answers.update((known.completion(prompt, database, question.gold_sql) or "").split())
    slots = set(placeholders())
    return sorted(words - slots), sorted(answers - slots - words)


def _dev(config: RunConfig, content: Content, style: Style, judge: Judge) -> DevCheck:
    return DevCheck(_role(content, "dev"), style, config.sampling, judge, config.seed)


def _judge(config: RunConfig) -> Judge:
    limits = Limits(timeout_s=config.judge.timeout_s, memory_mb=config.judge.memory_mb)
    return Judge(load_rule(config.judge.rule), limits, config.judge.workers, cache=cache_folder() / "golds")


def _lineage(
    config: RunConfig, name: str, source: str, judge: Judge, style: Style, items: Sequence[tuple[Question, Database]]
) -> Lineage:
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
                prompt_sha256=hashlib.sha256(style.prompt(question, database).text.encode()).hexdigest(),
                instance_sha256=database.instances[0].sha256,
                gold_sql=question.gold_sql,
                role=question.role,
            )
            for question, database in items
        },
    )


def _dtype(config: RunConfig) -> str:
    return config.policy.dtype if isinstance(config.policy, PretrainedPolicy) else "float32"


def _lora(config: RunConfig) -> Lora | None:
    return config.policy.lora if isinstance(config.policy, PretrainedPolicy) else None

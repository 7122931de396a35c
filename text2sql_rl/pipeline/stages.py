"""Every stage in one literal tuple, the plan of a config, and running one stage in this process.

In: a config, a run folder. Out: the stage's folder, done. Trainers are imported only when a stage that trains begins,
after the environment that they read at import is set. Not here: child processes (schedule).
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, replace

from text2sql_rl.config import RunConfig
from text2sql_rl.errors import RunError
from text2sql_rl.runs import RunFolder
from text2sql_rl.runs.folder import inherited

# Two stages side by side, one thread each, beat one stage on two threads; and one thread makes sums repeatable.
# A user's own setting wins, e.g. HF_HUB_OFFLINE=0 for a model by name that is not on this disk yet.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "PYTHONHASHSEED": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: the stages it reads, the command that runs it, and `module:function` that does the work.

    `source` is what an evaluation evaluates, `lower` the fields of the config that decide how much memory it takes. The
    order of `STAGES` is the priority: the chain that decides how long a run takes stands first.
    """

    name: str
    needs: tuple[str, ...]
    command: tuple[str, ...]
    work: str
    source: str = ""
    lower: str = "sampling.batch"

    @property
    def less_memory(self) -> str:
        """What a user can do about a stage that ran out of memory."""
        return f"Lower {self.lower}, or set policy.gradient_checkpointing for a pretrained policy that trains."


def _learn(name: str, *needs: str, command: tuple[str, ...] = (), lower: str = "sampling.batch") -> Stage:
    work = f"text2sql_rl.learn.stages:{name}"
    return Stage(name=name, needs=needs, command=command or (name,), work=work, lower=lower)


def _evaluate(source: str) -> Stage:
    command = ("evaluate", "--source", source)
    work = "text2sql_rl.evaluate:evaluate_stage"
    return Stage(name=f"evaluate_{source}", needs=(source,), command=command, work=work, source=source)


SOURCES = ("base", "sft", "warmup", "grpo", "control")
# What a run must find in its parent before any stage of its own.
_POLICIES = ("base", "sft", "warmup")
STAGES: tuple[Stage, ...] = (
    _learn("base"),
    _learn("sft", "base", lower="sft.batch"),
    Stage(name="golds", needs=(), command=("golds",), work="text2sql_rl.learn.golds:golds", lower="judge.memory_mb"),
    _learn("difficulty", "sft", "golds"),
    _learn("warmup", "difficulty", lower="warmup.batch"),
    _learn("difficulty_warm", "warmup", command=("difficulty", "--warm")),
    _learn("grpo", "difficulty_warm", lower="grpo.micro_batch (absent: all of a step), or sampling.max_prompt_tokens"),
    _learn("control", "sft", lower="sft.batch"),
    *(_evaluate(source) for source in SOURCES),
    Stage(
        name="report",
        needs=tuple(f"evaluate_{source}" for source in SOURCES),
        command=("report",),
        work="text2sql_rl.pipeline.stages:report_stage",
    ),
)


def plan(config: RunConfig) -> tuple[Stage, ...]:
    """The stages of this config in order of priority; who needed a stage that is off needs what that one needed."""
    off = set(inherited(config.model_dump()))
    if config.warmup is None:
        off |= {"warmup", "difficulty_warm", "evaluate_warmup"}
    if config.grpo.questions == "all":
        off.add("difficulty_warm" if config.warmup else "difficulty")
    if config.control is None:
        off |= {"control", "evaluate_control"}
    by_name = {stage.name: stage for stage in STAGES}

    def needs(stage: Stage) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for need in stage.needs:
            found |= dict.fromkeys(needs(by_name[need]) if need in off else (need,))
        return tuple(found)

    return tuple(replace(stage, needs=needs(stage)) for stage in STAGES if stage.name not in off)


def find(config: RunConfig, name: str) -> Stage:
    """The stage `name` of this config's plan.

    Raises:
        RunError: the config has it switched off, or takes it from its parent.
    """
    for stage in plan(config):
        if stage.name == name:
            return stage
    where = f"comes from parent run {config.parent!r}" if name in inherited(config.model_dump()) else "is off"
    raise RunError(f"stage {name} {where} in config {config.name!r}", fix="Choose another stage or config.")


def run_stage(stage: Stage, config: RunConfig, run: RunFolder, *, allow_leak: bool = False) -> bool:
    """Run one stage here unless it is done; true when it had to run.

    Args:
        stage: of the config's plan.
        config: of the run.
        run: its folder.
        allow_leak: of an evaluation: mark databases that training touched instead of refusing them.

    Raises:
        RunError: a stage it needs is not done, or it ended without a result.
        Text2SqlError: whatever the stage itself refuses.
    """
    folder = run.stage(stage.name)
    if folder.is_done():
        return False
    for need in (*stage.needs, *(name for name in inherited(config.model_dump()) if name in _POLICIES)):
        if not run.source(need).is_done():
            raise RunError(
                f"stage {stage.name} needs stage {need}, which is not done",
                file=run.source(need).path,
                fix="`text2sql-rl run CONFIG` runs all that is missing, in order.",
            )
    prepare_environment()
    module, _, function = stage.work.partition(":")
    with folder.guard():
        work = getattr(importlib.import_module(module), function)
        options = {"allow_leak": True} if stage.source and allow_leak else {}
        try:
            work(config, run, *([stage.source] if stage.source else []), **options)
        except RuntimeError as error:  # torch's own kind, or plain where the processor's memory ends
            if type(error).__name__ != "OutOfMemoryError" and "can't allocate memory" not in str(error):
                raise
            problem = f"stage {stage.name} ran out of memory ({str(error).splitlines()[0]})"
            raise RunError(problem, fix=stage.less_memory) from error
    if is_first_rank() and not folder.is_done():
        raise RunError(f"stage {stage.name} ended without a result", file=folder.path, fix="See its log.")
    return True


def is_first_rank() -> bool:
    """Whether this process writes what a stage leaves: the only one, or torchrun's first."""
    return int(os.environ.get("RANK", "0")) == 0


def report_stage(config: RunConfig, run: RunFolder) -> None:
    """Write the report; it ends its stage by itself when all that it tells of is there."""
    importlib.import_module("text2sql_rl.report").write_report(run)


def prepare_environment() -> None:
    """Set what trainers read when they are imported: no network, no telemetry, one thread."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)

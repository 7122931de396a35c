"""configs/*.yaml -> one typed, frozen RunConfig; and the place where the content folders lie.

In: the path of a YAML file. Out: a `RunConfig` whose every field is checked, or a `ConfigError` that names the
file, the field and the fix. Not here: reading data, databases or rules; their own doors check those.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from text2sql_rl.errors import ConfigError

_CONTENT = ("databases", "data", "rewards")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)


# What reading a YAML text raises: a date without such a day is a ValueError, thousands of brackets a RecursionError.
YAML_FAULTS = (yaml.YAMLError, ValueError, AttributeError, RecursionError)


class ScratchPolicy(_Part):
    """A small decoder trained from scratch: no download. The slot prompt style."""

    kind: Literal["scratch"]
    hidden_size: int = Field(ge=16, description="Width. Rises: better fit, time grows with its square.")
    layers: int = Field(ge=1, description="Depth. Rises: better linking of words to columns, slower.")
    heads: int = Field(ge=1, description="Attention heads; hidden_size is an even multiple of them.")

    @field_validator("heads")
    @classmethod
    def _divides(cls, heads: int, info: ValidationInfo) -> int:
        # Rotary positions turn the numbers of a head in pairs.
        if (size := info.data.get("hidden_size", 0)) % (2 * heads):
            raise ValueError(f"hidden_size {size} is no even multiple of {heads} heads")
        return heads


class Lora(_Part):
    """Low-rank adapters instead of full fine-tuning."""

    rank: int = Field(ge=1, description="Rank of the update. Rises: more capacity and memory.")
    alpha: int = Field(ge=1, description="Scale of the update. Rises: larger effective steps.")


class PretrainedPolicy(_Part):
    """Any causal language model by Hugging Face name or folder."""

    kind: Literal["pretrained"]
    model: str = Field(description="Name or folder of the model.")
    lora: Lora | None = Field(None, description="Adapters; leave out to train all weights.")
    dtype: Literal["float32", "bfloat16", "nf4"] = Field(
        "bfloat16", description="Precision of the weights; nf4 is QLoRA: 4 bits, for lora on a GPU with bitsandbytes."
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = Field(
        "sdpa", description="How attention is computed; flash_attention_2 needs a GPU and the package flash-attn."
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute activations again instead of keeping them: far less memory, a third slower."
    )

    @field_validator("dtype")
    @classmethod
    def _has_adapters(cls, dtype: str, info: ValidationInfo) -> str:
        if dtype == "nf4" and info.data.get("lora") is None:
            raise ValueError("weights of 4 bits cannot be trained; add lora to train adapters beside them")
        return dtype


class Sampling(_Part):
    """Limits of prompts and completions, and the sampling temperature."""

    max_prompt_tokens: int = Field(
        ge=16, description="Falls: less of a schema is shown, then questions are left out; a prompt is never cut."
    )
    max_completion_tokens: int = Field(ge=8, description="Rises: fewer truncated answers, slower sampling.")
    temperature: float = Field(1.0, gt=0, description="Rises: more varied candidates, lower pass rate.")
    batch: int = Field(ge=1, description="Completions sampled at once. Rises: faster, more memory.")


class JudgeSettings(_Part):
    """How completions are judged during training and evaluation."""

    rule: str = Field(description="A rule of rewards/rules (NAME or path).")
    timeout_s: float = Field(2.0, gt=0, description="Deadline of one candidate. Rises: slow SQL may pass.")
    memory_mb: int = Field(512, ge=64, description="Memory of one sandbox worker. Rises: heavy SQL may pass.")
    workers: int = Field(1, ge=1, description="Sandbox processes. Rises: faster judging, more memory.")


class Sft(_Part):
    """Supervised fine-tuning on the labelled pairs, to convergence on dev."""

    steps: int = Field(ge=1, description="The most optimiser steps; the learning rate decays over them.")
    batch: int = Field(ge=1, description="Pairs a step.")
    learning_rate: float = Field(gt=0, description="Peak; of Muon for a scratch policy, of AdamW otherwise.")
    eval_every: int = Field(ge=1, description="Steps between dev evaluations; the best checkpoint is kept.")
    patience: int = Field(ge=1, description="Dev evaluations without improvement before stopping early.")
    augment: bool = Field(description="Vary schema order, placeholders and function words of each pair (slot style).")


class Difficulty(_Part):
    """Pass rate per question, and the band that training keeps."""

    questions: int = Field(ge=1, description="rl questions measured. Rises: more to train on, longer.")
    samples: int = Field(ge=2, description="Completions a question. Rises: sharper pass rates, longer.")
    low: float = Field(ge=-1, le=1, description="Kept when rate > low; below 0 also those never solved.")
    high: float = Field(ge=0, le=1, description="Kept when rate < high. Falls: fewer solved questions.")

    @field_validator("high")
    @classmethod
    def _above_low(cls, high: float, info: ValidationInfo) -> float:
        if high <= (low := info.data.get("low", -1.0)):
            raise ValueError(f"no rate lies between low {low:g} and high {high:g}")
        return high


class Warmup(_Part):
    """Rejection-sampling fine-tuning on the matching completions that difficulty paid for."""

    steps: int = Field(ge=1, description="Optimiser steps.")
    batch: int = Field(ge=1, description="Pairs a step.")
    learning_rate: float = Field(gt=0, description="Peak learning rate.")
    per_question: int = Field(ge=1, description="Distinct matching candidates kept a question.")
    measure: int = Field(ge=1, description="rl questions measured after it, those not measured before first.")


class Advantage(_Part):
    """The declared definition of the advantage; see text2sql_rl.group."""

    scale: Literal["population", "sample", "batch", "none", "leave_one_out"] = Field(
        description="Divisor of the difference: the group's deviation, the whole step's (batch), or none."
    )
    floor: float = Field(ge=0, description="Least divisor. Rises: small reward differences stay small.")
    truncated: Literal["count", "exclude_from_loss", "exclude_from_statistics"] = Field(
        "count", description="Completions cut at the token limit: judged as they are and counted, or left out."
    )


class Canaries(_Part):
    """Known-wrong answers judged between the policy's, none of which may be paid; see docs/rewards.md."""

    rate: float = Field(gt=0, le=1, description="Canaries for each completion. Rises: alarms come sooner, slower.")
    stop: bool = Field(description="Whether a paid one ends the run, or only stands in alarms.jsonl.")


class Dynamic(_Part):
    """Dynamic sampling: groups that are not mixed are dropped, and other questions asked in their place."""

    rounds: int = Field(ge=2, description="The most rounds of sampling a block. Rises: fuller updates, slower steps.")
    half_life: int = Field(
        ge=1, description="Steps after which a pass rate counts half, and a hopeless question rests."
    )


class Grpo(_Part):
    """Group relative policy optimisation through TRL."""

    steps: int = Field(ge=1, description="Optimiser steps.")
    questions: Literal["band", "all"] = Field(
        "band", description="Asked: those in the band, or all that would be measured for it, which is then not done."
    )
    questions_per_step: int = Field(ge=1, description="Groups in one optimiser step.")
    generations: int = Field(ge=2, description="G: candidates a question.")
    micro_batch: int | None = Field(
        None,
        ge=1,
        description="Completions whose gradients a process works out at once; absent: all of its share of a step. "
        "Falls: less memory, a little slower.",
    )
    steps_per_generation: int = Field(1, ge=1, description="Steps on one sampled block. Rises: faster, staler.")
    learning_rate: float = Field(
        gt=0, description="Peak; of Muon for a scratch policy, of AdamW otherwise. Rises: faster, then unstable."
    )
    beta: float = Field(0.0, ge=0, description="Weight of the KL penalty to the start. Rises: stays closer.")
    advantage: Advantage
    aggregation: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = Field(
        "dapo", description="What token losses are divided by: rollout by rollout, by share, by limit, by all tokens."
    )
    save_every: int = Field(ge=1, description="Steps between checkpoints; a killed run loses at most these.")
    held_in: int = Field(0, ge=0, description="sft questions asked at every checkpoint, to see what is forgotten.")
    keep: Literal["best", "last"] = Field("best", description="The policy that counts: the best on dev, or the last.")
    canaries: Canaries | None = None
    dynamic: Dynamic | None = None
    report_to: tuple[Literal["tensorboard", "trackio", "wandb"], ...] | None = Field(
        None, description="Where curves go beside metrics.jsonl; absent: to tensorboard, where it is installed."
    )

    @field_validator("micro_batch")
    @classmethod
    def _divides_a_step(cls, micro_batch: int | None, info: ValidationInfo) -> int | None:
        step = info.data.get("questions_per_step", 0) * info.data.get("generations", 0)
        if micro_batch is not None and step % min(micro_batch, step or 1):
            raise ValueError(f"the {step} completions of a step do not go into parts of {micro_batch}")
        return micro_batch


class Control(_Part):
    """SFT continued from the same checkpoint for as long as warm-up and GRPO took: the honest baseline."""

    steps: int = Field(ge=1, description="Optimiser steps; set so that it gets at least as many minutes.")
    learning_rate: float = Field(gt=0, description="Peak learning rate after the warm restart.")


class Evaluate(_Part):
    """Held-out evaluation."""

    roles: tuple[str, ...] = Field(min_length=1, description="Question sets evaluated.")
    samples: int = Field(ge=1, description="Sampled completions a question for pass@k beside the greedy one; 1 = none.")
    limit: int | None = Field(None, ge=1, description="At most this many questions a set; leave out for all.")

    @field_validator("roles")
    @classmethod
    def _are_different(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(roles)) < len(roles):
            raise ValueError("a question set is named twice")
        return roles


class RunConfig(_Part):
    """Everything a run depends on beside the code and the content folders."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)] = Field(
        description="Name of the run folder."
    )
    note: str = Field("", description="What the run is for, in a sentence.")
    seed: int = Field(ge=0, lt=2**32, description="Seed of everything random.")
    runs: Path = Field(Path("runs"), description="Where run folders lie.")
    parent: str | None = Field(None, description="Run whose first stages this one starts from.")
    parent_stage: Literal["sft", "warmup"] = Field("sft", description="The last stage taken from the parent.")
    prompt_style: Literal["slot", "ddl", "compact"] = Field(description="How question and schema become a prompt.")
    policy: ScratchPolicy | PretrainedPolicy = Field(discriminator="kind")
    sampling: Sampling
    judge: JudgeSettings
    sft: Sft
    difficulty: Difficulty
    warmup: Warmup | None = Field(None, validate_default=True)
    grpo: Grpo
    control: Control | None = None
    evaluate: Evaluate

    @field_validator("warmup")
    @classmethod
    def _has_what_the_parent_gives(cls, warmup: Warmup | None, info: ValidationInfo) -> Warmup | None:
        if warmup is None and info.data.get("parent") and info.data.get("parent_stage") == "warmup":
            raise ValueError("parent_stage is warmup, so add this section, as the parent has it")
        return warmup


def load_config(path: Path, overrides: tuple[str, ...] = ()) -> RunConfig:
    """Read and check a run config.

    Args:
        path: the YAML file.
        overrides: `dotted.key=value` strings that replace single fields, values in YAML.

    Raises:
        ConfigError: missing file, malformed YAML, unknown key, wrong value; names the field and the fix.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", file=path, fix="Give the path of a config.") from error
    except YAML_FAULTS as error:
        raise ConfigError(
            f"is not YAML ({' '.join(str(error).split())})", file=path, fix="Correct it there."
        ) from error
    if not isinstance(content, dict):
        raise ConfigError("holds no keys", file=path, fix="Start from configs/demo.yaml.")
    for override in overrides:
        _apply(content, override, path)
    try:
        return RunConfig.model_validate(content)
    except ValidationError as error:
        raise _first_fault(error, path) from error


def _first_fault(error: ValidationError, path: Path) -> ConfigError:
    """The first fault in one line; unknown keys first, since a misspelt key is a missing one as well."""
    faults: list[Mapping[str, Any]] = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    first = faults[0]
    place = [str(part) for part in first["loc"] if part not in ("scratch", "pretrained")]
    problem, fix = str(first["msg"]).removeprefix("Value error, ").lower(), "Correct the value."
    if first["type"] == "extra_forbidden":
        missing = [str(one["loc"][-1]) for one in faults if one["type"] == "missing"]
        near = get_close_matches(place[-1], missing, n=1)
        problem = "unknown key"
        fix = f"Is it {near[0]}?" if near else "Remove it or correct its spelling."
    elif first["type"] == "missing":
        problem, fix = "the key is missing", "Add it; configs/demo.yaml shows one."
    elif first["type"] in ("union_tag_not_found", "union_tag_invalid"):
        place, problem, fix = [*place, "kind"], "is neither scratch nor pretrained", "Set it to one of them."
    return ConfigError(problem, file=path, field=".".join(place), fix=fix)


class UniqueKeys(yaml.SafeLoader):
    """YAML keeps the last of two equal keys in silence; a file that decides numbers must not."""


def _mapping(loader: UniqueKeys, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen = set()
    for key, _ in node.value:
        # Keys that are no plain words are refused by construct_mapping or by the model.
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is there twice", problem_mark=key.start_mark)
        seen.add(str(key.value))
    return loader.construct_mapping(node)


UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _apply(content: dict[str, object], override: str, path: Path) -> None:
    key, separator, value = override.partition("=")
    if not separator:
        raise ConfigError(f"override {override!r} has no '='", file=path, fix="Write it as key.key=value.")
    part: object = content
    *parents, last = key.split(".")
    for parent in parents:
        part = part.get(parent) if isinstance(part, dict) else None
    if not isinstance(part, dict):
        raise ConfigError("there is no such section to override", file=path, field=key, fix="Check the key.")
    try:
        part[last] = yaml.load(value, UniqueKeys)
    except YAML_FAULTS as error:
        raise ConfigError(f"override {override!r} is not YAML", field=key, fix="Quote it as YAML does.") from error


def content_root() -> Path:
    """The folder that holds databases/, data/ and rewards/.

    It is $TEXT2SQL_ROOT where set; else the working folder or the nearest one above it that holds all three;
    else the checkout this package runs from.

    Raises:
        ConfigError: no such folder.
    """
    override = os.environ.get("TEXT2SQL_ROOT")
    here = Path.cwd()
    places = [Path(override)] if override else [here, *here.parents, Path(__file__).resolve().parent.parent]
    for place in places:
        if all((place / name).is_dir() for name in _CONTENT):
            return place
    raise ConfigError(
        f"no folder with {', '.join(_CONTENT)} at {places[0]}",
        fix="Run inside a checkout, or set TEXT2SQL_ROOT to one.",
    )

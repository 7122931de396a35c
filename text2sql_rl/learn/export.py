"""A checkpoint -> a plain Hugging Face folder: all weights, the tokenizer, and nothing that needs this project.

In: a checkpoint of a stage, with all weights, or an adapter, or only the name of a pretrained model. Out: a folder that
`AutoModelForCausalLM.from_pretrained` and inference servers load; it is there whole or not at all. An adapter is merged
into its base model in float32, and the sum is rounded once to the base model's own precision. The prompt style goes
along as prompt_style.json, since the model answers in that style only. Not here: quantising, uploading.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from text2sql_rl.errors import PolicyError, RunError
from text2sql_rl.learn.checkpoints import load_style, save_style
from text2sql_rl.policy.hf import Policy
from text2sql_rl.runs.files import new_folder, refuse_existing

_TRAINED = ("grpo", "warmup", "sft", "base")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: where from, where to, whether an adapter was merged, weights and their precision."""

    checkpoint: Path
    folder: Path
    merged: bool
    weights: int
    dtype: str

    def __str__(self) -> str:
        """One line."""
        how = ", its adapter merged" if self.merged else ""
        return f"{self.folder}: {self.weights:,} weights in {self.dtype}, from {self.checkpoint}{how}"


def find_checkpoint(text: str) -> Path:
    """The checkpoint meant by its own folder, a stage's folder, a run's folder, or RUN:STAGE as in runs/demo:sft.

    A run's folder means the last policy it trained.

    Raises:
        RunError: there is none.
    """
    path = Path(text)
    if not path.exists() and ":" in text:
        run, _, stage = text.rpartition(":")
        path = Path(run) / "stages" / stage
    for place in (path, path / "checkpoint", *(path / "stages" / name / "checkpoint" for name in _TRAINED)):
        if any((place / name).is_file() for name in ("config.json", "adapter_config.json", "model_name.txt")):
            return place
    fix = "Give a checkpoint, a run folder, or a run and a stage as in runs/demo:sft"
    raise RunError("holds no checkpoint", file=text, fix=fix)


def export(checkpoint: Path, out: Path) -> Exported:
    """Write the model of a checkpoint as a plain folder.

    Args:
        checkpoint: as `find_checkpoint` gives it; any other folder of a model or an adapter will do.
        out: the folder to make; it may not exist.

    Raises:
        RunError: `out` exists, or the disk refuses.
        PolicyError: the checkpoint or the model it is based on cannot be loaded, or merged it is no number any more.
    """
    refuse_existing(out)
    adapter, base = _names(checkpoint)
    dtype = _precision(base)
    policy = Policy(checkpoint if adapter else base, "float32" if adapter else dtype)
    model = _merged(policy.model, checkpoint).to(getattr(torch, dtype)) if adapter else policy.model
    with new_folder(out) as folder:
        model.save_pretrained(folder)
        policy.tokenizer.save_pretrained(folder)
        if (checkpoint / "prompt_style.json").is_file():
            save_style(load_style(checkpoint), folder)
    return Exported(checkpoint, out, adapter, sum(weight.numel() for weight in model.parameters()), dtype)


def _names(checkpoint: Path) -> tuple[bool, str]:
    """Whether it is an adapter, and the name or folder of the model whose weights it has or changes."""
    settings = checkpoint / "adapter_config.json"
    if settings.is_file():
        try:
            return True, str(json.loads(settings.read_text(encoding="utf-8"))["base_model_name_or_path"])
        except (ValueError, KeyError) as error:
            raise PolicyError("names no base model", file=settings, fix="Train the checkpoint again.") from error
    named = checkpoint / "model_name.txt"
    return False, named.read_text(encoding="utf-8").strip() if named.is_file() else str(checkpoint)


def _precision(name: str) -> str:
    try:
        declared = AutoConfig.from_pretrained(name).dtype
    except (OSError, ValueError) as error:
        line = str(error).strip().splitlines()[0]
        raise PolicyError(f"the model cannot be loaded ({line})", file=name, fix="Put it back in its place.") from error
    return str(declared or "float32").removeprefix("torch.")


def _merged(model: Any, checkpoint: Path) -> Any:
    try:
        return model.merge_and_unload(safe_merge=True)
    except ValueError as error:  # peft's word for weights that are no numbers
        raise PolicyError(f"cannot be merged ({error})", file=checkpoint, fix="Train the checkpoint again.") from error

"""Checkpoints: folders that hold a model, its tokenizer, and the prompt style it was trained with.

In: a folder. Out: the policy and its style, or the newest state of an interrupted trainer. Not here: when to save.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from text2sql_rl.errors import PolicyError
from text2sql_rl.policy.hf import Loading, Policy, token_counter
from text2sql_rl.prompts import SchemaStyle, Style, make_style
from text2sql_rl.prompts.slot import SlotStyle

_STYLE = "prompt_style.json"


def save_style(style: Style, folder: Path) -> None:
    """Write the prompt style beside the model."""
    words = sorted(style.vocabulary) if isinstance(style, SlotStyle) else []
    record: dict[str, Any] = {"style": style.name, "vocabulary": words}
    if isinstance(style, SchemaStyle) and style.max_tokens is not None:
        record["max_tokens"] = style.max_tokens
    (folder / _STYLE).write_text(json.dumps(record), encoding="utf-8")


def load_style(folder: Path) -> Style:
    """The prompt style that the model of this folder reads.

    Raises:
        PolicyError: the folder has none.
    """
    try:
        saved = json.loads((folder / _STYLE).read_text(encoding="utf-8"))
        return make_style(saved["style"], saved["vocabulary"], saved.get("max_tokens"))
    except (OSError, ValueError, KeyError) as error:
        raise PolicyError("has no prompt style", file=folder / _STYLE, fix="Train the checkpoint again.") from error


def save_model(model: Any, tokenizer: Any, style: Style, folder: Path) -> None:
    """Write a checkpoint so that it is either complete or absent."""
    temporary = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    # GRPO with a KL penalty holds a second adapter, the policy it started from.
    own = {"selected_adapters": [model.active_adapter]} if hasattr(model, "peft_config") else {}
    model.save_pretrained(temporary, **own)
    tokenizer.save_pretrained(temporary)
    save_style(style, temporary)
    if folder.exists():
        shutil.rmtree(folder)
    temporary.replace(folder)


def load(folder: Path, loading: Loading | str) -> tuple[Policy, Style]:
    """The policy and its prompt style, whose limit is counted with the policy's own tokenizer.

    Args:
        folder: a checkpoint.
        loading: how the model is loaded; or only the precision of its weights.

    Raises:
        PolicyError: the folder does not hold both, or this machine cannot load it so.
    """
    style = load_style(folder)
    named = folder / "model_name.txt"
    policy = Policy(named.read_text(encoding="utf-8") if named.is_file() else folder, loading)
    if isinstance(style, SchemaStyle):
        style.bind(token_counter(policy.tokenizer))
    return policy, style


def newest_state(folder: Path) -> Path | None:
    """The newest complete state a trainer left in `folder` (checkpoint-STEP), or None."""
    states = [path for path in folder.glob("checkpoint-*") if _is_whole(path / "trainer_state.json")]
    return max(states, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def _is_whole(state: Path) -> bool:
    """A trainer writes this file last, so a kill leaves it absent or cut off."""
    try:
        json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True

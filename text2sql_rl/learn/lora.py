"""Low-rank adapters: what a trainer is told to add to a policy.

In: the config's settings and a model. Out: peft's config, or None where there is nothing to add. Not here: loading or
saving adapters; a checkpoint of one is loaded like any other (policy/hf.py).
"""

from __future__ import annotations

from typing import Any

from peft import LoraConfig

from text2sql_rl.config import Lora


def new_adapter(settings: Lora | None, model: Any) -> LoraConfig | None:
    """The adapter to add: none without settings, and none to a model that has one, which is then trained on."""
    if settings is None or hasattr(model, "peft_config"):
        return None
    return LoraConfig(r=settings.rank, lora_alpha=settings.alpha, task_type="CAUSAL_LM")

"""A complete run config that trains nothing much, for tests that only need one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

CONTENT: dict[str, Any] = {
    "name": "tiny",
    "seed": 1,
    "prompt_style": "slot",
    "policy": {"kind": "scratch", "hidden_size": 16, "layers": 1, "heads": 1},
    "sampling": {"max_prompt_tokens": 64, "max_completion_tokens": 16, "batch": 4},
    "judge": {"rule": "strict-v1"},
    "sft": {"steps": 1, "batch": 1, "learning_rate": 0.01, "eval_every": 1, "patience": 1, "augment": False},
    "difficulty": {"questions": 2, "samples": 2, "low": 0.0, "high": 1.0},
    "warmup": {"steps": 1, "batch": 1, "learning_rate": 0.01, "per_question": 1, "measure": 2},
    "grpo": {
        "steps": 1,
        "questions_per_step": 1,
        "generations": 2,
        "learning_rate": 0.001,
        "advantage": {"scale": "none", "floor": 0.1},
        "save_every": 1,
    },
    "control": {"steps": 1, "learning_rate": 0.01},
    "evaluate": {"roles": ["heldout"], "samples": 1},
}


def write_config(folder: Path, **changes: Any) -> Path:
    """Write the config with top-level changes and its runs under `folder`; gives its path."""
    path = folder / f"{changes.get('name', 'tiny')}.yaml"
    path.write_text(yaml.safe_dump({**CONTENT, "runs": str(folder / "runs"), **changes}))
    return path

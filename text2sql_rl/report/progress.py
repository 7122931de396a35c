"""How far a run is: every stage that its config asks for, and what became of it.

In: a run folder. Out: one `Progress` a stage, in the order in which they run. Reads only; takes no lock. Not here:
numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.report.costs import ORDER
from text2sql_rl.runs import RunFolder, StageFolder, read_json

_ALIVE_S = 120.0  # a stage measures something, or says how far it is, more often than this
_SIGNS = ("started.json", "progress.json", "metrics.jsonl")
_WITHOUT = {"warmup": ("warmup", "difficulty_warm", "evaluate_warmup"), "control": ("control", "evaluate_control")}


@dataclass(frozen=True, slots=True)
class Progress:
    """`state`: waiting, running, silent (begun, and no sign of life for two minutes) or done.

    `words` tell how far it is.
    """

    name: str
    state: str
    words: str


def stages_of(run: RunFolder) -> list[Progress]:
    """What became of each stage.

    Raises:
        RunError: this is no run folder.
    """
    config = run.read()["config"]
    off = {name for key, names in _WITHOUT.items() if config.get(key) is None for name in names}
    if (config.get("grpo") or {}).get("questions") == "all":
        off.add("difficulty_warm" if config.get("warmup") else "difficulty")
    return [_progress(run.source(name)) for name in ORDER if name not in off]


def _progress(stage: StageFolder) -> Progress:
    if stage.is_done():
        return Progress(stage.name, "done", str(stage.result().get("summary", "")))
    signs = [path.stat().st_mtime for name in _SIGNS if (path := stage.path / name).is_file()]
    if not signs:
        return Progress(stage.name, "waiting", "")
    silent_s = max(0.0, time.time() - max(signs))
    if silent_s > _ALIVE_S:
        return Progress(stage.name, "silent", f"{_words(stage)}; last sign of life {silent_s / 60:.0f} minutes ago")
    return Progress(stage.name, "running", _words(stage))


def _words(stage: StageFolder) -> str:
    if not (stage.path / "progress.json").is_file():
        return "begun"
    try:
        found: Mapping[str, Any] = read_json(stage.path / "progress.json")
        return f"{int(found['done']):,} of {int(found['total']):,} {found.get('text', '')}".rstrip()
    except (RunError, KeyError, TypeError, ValueError):
        return "begun"

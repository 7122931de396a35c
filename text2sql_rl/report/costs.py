"""What a run cost: wall time, memory, and minutes of the treatment against those of the control.

In: run.json and the stages' done.json. Out: dicts for report.json. Not here: measuring; the pipeline does.
"""

from __future__ import annotations

from typing import Any

from text2sql_rl.runs import RunFolder, StageFolder
from text2sql_rl.runs.files import read_json

TREATMENT = ("difficulty", "warmup", "difficulty_warm", "grpo")
ORDER = (
    "golds", "base", "sft", *TREATMENT, "control", "evaluate_base", "evaluate_sft", "evaluate_warmup", "evaluate_grpo",
    "evaluate_control",
)  # fmt: skip


def cost_numbers(run: RunFolder) -> dict[str, Any]:
    """The parts `wall_s`, `peak_rss_mb`, `stages`, `treatment_minutes` and `control_minutes` of report.json.

    `wall_s` is what the pipeline took from its first stage to its last, stages side by side; where no pipeline ran it
    is None. A stage's seconds are those of its process, or its own count where it ran alone.
    """
    record = run.read()
    stages = {name: _stage(run, name) for name in ORDER if run.source(name).is_done()}
    treatment = [stages[name]["wall_s"] for name in TREATMENT if name in stages]
    return {
        "wall_s": record.get("wall_s"),
        "peak_rss_mb": record.get("peak_rss_mb") or max((s["peak_rss_mb"] or 0 for s in stages.values()), default=0),
        "stages": stages,
        "treatment_minutes": sum(treatment) / 60 if treatment else None,
        "control_minutes": stages["control"]["wall_s"] / 60 if "control" in stages else None,
    }


def _stage(run: RunFolder, name: str) -> dict[str, Any]:
    folder = run.source(name)
    owner = RunFolder(folder.path.parent.parent)
    recorded = owner.read().get("stages", {}).get(name, {})
    wall_s = recorded.get("wall_s", _own_wall_s(folder))
    return {
        "wall_s": wall_s,
        "minutes": wall_s / 60,
        "peak_rss_mb": recorded.get("peak_rss_mb"),
        "inherited_from": owner.name if owner.name != run.name else None,
    }


def _own_wall_s(folder: StageFolder) -> float:
    return float(read_json(folder.path / "done.json").get("wall_s") or 0.0)

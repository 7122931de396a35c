"""Run folders of which only GRPO has left something: a long plain log, and a short one with every kind of group."""

from __future__ import annotations

from pathlib import Path

from tests.report.fake_run import train_grpo
from tests.run_config import CONTENT
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.records import Candidate, Completion, Execution, Finish, Item, Match, Outcome, Reward, Rollout, Verdict
from text2sql_rl.rollout_log import Lineage, Origin, part_path, write_groups
from text2sql_rl.runs import RunFolder, write_json

# Totals of each group's rollouts by step; 1.0 and above is right, None is unscored.
GROUPS = {
    1: {"one-right": (1, 0, 0, 0), "shaped": (0.05, 0, 0, 0), "solved": (1, 1, 1, 1), "broken": (None, None, None, 1)},
    2: {"overpaid": (1, 0.99, 0, 0), "lost": (0, 0, 0, 0), "close": (1, 1, 0.9, 0.9), "one-wrong": (1, 1, 1, 0)},
}


def log_run(folder: Path) -> RunFolder:
    """20 steps of 30 groups of 3 rollouts, whose texts are hostile."""
    run = _folder(folder)
    train_grpo(run, lambda step: step / 20, lambda step: 0.8 + step / 200)
    return run


def log_kinds(folder: Path) -> RunFolder:
    """`GROUPS`, logged; the last answer of each group holds no SQL and was cut."""
    run = _folder(folder)
    origins = {name: Origin(gold_sql=f"SELECT '{name}'") for step in GROUPS.values() for name in step}
    for step, groups in GROUPS.items():
        made = [make_group([_rollout(name, place, total) for place, total in enumerate(totals)], AdvantageRule())
                for name, totals in groups.items()]  # fmt: skip
        lineage = Lineage(run="demo", stage="grpo", checkpoint="sft", origins=origins)
        write_groups(part_path(run.stage("grpo").path / "rollouts", step), made, lineage, step=step)
    return run


def _folder(folder: Path) -> RunFolder:
    run = RunFolder(folder / "demo", min_free_gb=0.0)
    grpo = {**CONTENT["grpo"], "advantage": {"scale": "population", "floor": 0.25}}
    config = {**CONTENT, "name": "demo", "parent": None, "grpo": grpo}
    write_json(
        run.path / "run.json",
        {"format": 1, "created": "", "config": config, "content": {}, "sessions": [{}], "stages": {}},
    )
    return run


def _rollout(name: str, place: int, total: float | None) -> Rollout:
    right, last = total == 1, place == 3
    sql = None if last else f"SELECT {total}"
    text = "I do not\x1b[31m know" if last else str(sql)
    why = Item(name="correct", kind="component", value=1.0, weight=1.0, points=total or 0.0, why="as gold")
    return Rollout(
        question_id=name, database="aquarium",
        completion=Completion(question_id=name, text=text, raw=text, finish=Finish.LENGTH if last else Finish.STOP,
                              tokens=9),
        candidate=Candidate(sql=sql, reason="no SQL" if last else "", answers=1),
        execution=None if last else Execution(outcome=Outcome.ROWS),
        verdict=None if last else Verdict(match=Match.MATCH if right else Match.MISMATCH, code="rows", words="told so"),
        reward=Reward(total=total, items=(why,) if total else (), unscored="" if total is not None else "no worker",
                      rule="bound-v1", rule_sha256="r"),
        cause="unscored" if total is None else "equivalent" if right else "no_answer" if last else "wrong",
        equivalent=right, gold_rows=4, rows=None if last else 3,
    )  # fmt: skip

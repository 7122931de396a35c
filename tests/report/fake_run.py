"""A whole run folder without training: results, metrics, rollouts, predictions whose numbers a person can check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.run_config import CONTENT
from text2sql_rl.evaluate.judging import Answer, Marks
from text2sql_rl.evaluate.metrics import summarise
from text2sql_rl.evaluate.predictions import write_predictions
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.records import (
    Candidate,
    Completion,
    Finish,
    Item,
    Match,
    Question,
    Reward,
    Rollout,
    Split,
    Verdict,
)
from text2sql_rl.rollout_log import Lineage, Origin, part_path, write_groups
from text2sql_rl.runs import RunFolder, write_json

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m{{ 7 * 7 }} \" '"
# Of 100 questions on ten databases: how many each policy answers. Policies answer the first ones.
RIGHT = {"base": 0, "sft": 60, "control": 70, "warmup": 75, "grpo": 90}
MINUTES = {"base": 0.1, "sft": 3.0, "difficulty": 1.0, "warmup": 1.0, "difficulty_warm": 1.0, "grpo": 4.0,
           "control": 7.5}  # fmt: skip


def question(number: int, role: str = "heldout") -> Question:
    return Question(
        id=f"{role}-{number}", database=f"db{number % 10}", text=f"What is {number}?", gold_sql=f"SELECT {number}",
        split=Split.HELDOUT, role=role, shape="count" if number % 2 else "join", hardness="easy",
    )  # fmt: skip


def rollout(asked: Question, right: bool, sql: str = "SELECT 1") -> Rollout:
    total = 1.0 if right else 0.05
    return Rollout(
        question_id=asked.id, database=asked.database,
        completion=Completion(question_id=asked.id, text=sql, raw=sql, finish=Finish.STOP, tokens=5),
        candidate=Candidate(sql=sql, answers=1), execution=None,
        verdict=Verdict(match=Match.MATCH if right else Match.MISMATCH, code="rows", words=f"3 of 4 rows {HOSTILE}"),
        reward=Reward(total=total, rule="strict-v1", rule_sha256="r",
                      items=(Item(name="correct", kind="component", value=1, weight=1, points=total, why=HOSTILE),)),
        cause="equivalent" if right else "wrong", equivalent=right, gold_rows=1, rows=1,
    )  # fmt: skip


def finish(run: RunFolder, name: str, result: Mapping[str, Any]) -> None:
    stage = run.stage(name)
    if not (stage.path / "started.json").is_file():
        stage.start()
    stage.finish(result)


def evaluate(run: RunFolder, source: str, right: int, unscored: int = 0) -> None:
    roles, answers = {}, []
    for role, count in (("heldout", 100), ("handwritten", 20)):
        asked = [question(number, role) for number in range(count)]
        answered = [rollout(one, number < right * count // 100, HOSTILE) for number, one in enumerate(asked)]
        # One more is right on the real rows only.
        greedy = [Answer(one, Marks(real_rows=number <= right * count // 100)) for number, one in enumerate(answered)]
        roles[role] = summarise(asked, greedy, [[one, one] for one in greedy], seed=1)
        answers += [(one, 0, judged) for one, judged in zip(asked, greedy, strict=True)]
    if unscored:
        roles["heldout"]["unscored"] = {"the sandbox broke": unscored}
    finish(run, f"evaluate_{source}", {"roles": roles, "environment": {"engine": "duckdb 2", "rule_sha256": "r"}})
    write_predictions(run.stage(f"evaluate_{source}").path / "predictions.parquet", answers)


def train_grpo(run: RunFolder, reward: Callable[[int], float], dev: Callable[[int], float], steps: int = 20) -> None:
    stage = run.stage("grpo")
    stage.start()
    for step in range(1, steps + 1):
        row = {"step": step, "reward": reward(step), "step_time": 2.0, "judge_s": 0.02, "accuracy": 0.5,
               "groups/informative": 0.75, "groups/all_wrong": 0.25, "completions/mean_length": 12.0,
               "causes/wrong": 0.4}  # fmt: skip
        stage.append_metrics(row)
        if step % 5 == 0:
            stage.append_metrics({"step": step, "dev_accuracy": dev(step)})
        groups = [make_group([rollout(question(number), number % 2 == index % 2, f"SELECT {index} -- {HOSTILE}")
                              for index in range(3)], AdvantageRule()) for number in range(30)]  # fmt: skip
        origins = {question(number).id: Origin(gold_sql=f"SELECT {number}") for number in range(30)}
        lineage = Lineage(run=run.name, stage="grpo", origins=origins)
        write_groups(part_path(stage.path / "rollouts", step), groups, lineage, step=step)
    stage.finish({"steps": steps, "dev_accuracy": dev(steps), "best_step": steps, "databases": ["bakery"]})


def make_run(
    folder: Path, name: str = "demo", right: Mapping[str, int] = RIGHT, minutes: Mapping[str, float] = MINUTES,
    **config: Any,
) -> RunFolder:  # fmt: skip
    """A finished run; `right` tells how many of 100 questions each policy answers, `minutes` what stages took."""
    content = {**CONTENT, "name": name, "parent": None, "note": HOSTILE, **config}
    run = RunFolder(folder / name, min_free_gb=0.0)
    run.create_or_open(content)
    finish(run, "base", {"databases": []})
    for stage in ("sft", "warmup", "control"):
        run.stage(stage).start()
        run.stage(stage).append_metrics({"step": 50, "loss": 0.5})
        run.stage(stage).append_metrics({"step": 50, "dev_accuracy": 0.8})
        finish(run, stage, {"databases": ["bakery"], "steps": 50, "dev_accuracy": 0.8, "best_step": 50})
    for stage, kept in (("difficulty", 40), ("difficulty_warm", 30)):
        band = {"questions": 100, "samples": 2, "kept": kept, "too_easy": 50, "too_hard": 50 - kept, "unscored": 0}
        counts = {"histogram": [50 - kept, kept, 50], "causes": {"wrong": 30}, "mean_pass_rate": 0.6, "pass_at_k": 0.8}
        finish(run, stage, {**band, **counts, "databases": ["bakery"]})
    train_grpo(run, lambda step: step / 20, lambda step: 0.8 + step / 200)
    for source, count in right.items():
        evaluate(run, source, count)
    run.update(lambda record: record.update(
        wall_s=600.0, peak_rss_mb=1500.0,
        stages={stage: {"wall_s": 60 * spent, "peak_rss_mb": 900.0} for stage, spent in minutes.items()},
    ))  # fmt: skip
    return run


def break_json(path: Path) -> None:
    """Replace a JSON file by one of another shape."""
    write_json(path, {"finished": "then", "wall_s": 1.0, "result": {"roles": {"heldout": {"accuracy": 1.0}}}})

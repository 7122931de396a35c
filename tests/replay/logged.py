"""A run folder with a small log whose every reward the real judge gave, on a bundled database."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tests.run_config import CONTENT
from text2sql_rl.content import open_store
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.judge import Judge
from text2sql_rl.records import Completion, Finish, Group, Question, Split
from text2sql_rl.rollout_log import Lineage, Origin, part_path, write_groups
from text2sql_rl.runs import write_json
from text2sql_rl.scoring import Rule, load_rule

GOLDS = {
    "fish": "SELECT species FROM animal WHERE diet = 'carnivore'",
    "halls": "SELECT hall, count(*) FROM tank GROUP BY hall",
}
ANSWERS = {
    "fish": (
        "SELECT species FROM animal WHERE diet = 'carnivore'",
        "SELECT DISTINCT species FROM animal WHERE diet = 'carnivore'",
        "SELECT species FROM animal WHERE diet = 'Carnivore'",
        "SELECT 'moray eel'",
    ),
    "halls": (
        "SELECT hall, sum(volume_liters) FROM tank GROUP BY hall",
        "SELECT hal FROM tank",
        "DROP TABLE tank",
        "I cannot tell.",
    ),
}


def judged(rule: Rule, definition: AdvantageRule) -> list[Group]:
    """The groups of `ANSWERS`, judged under a rule."""
    database = open_store().get("aquarium")
    groups = []
    with Judge(rule) as judge:
        for name, texts in ANSWERS.items():
            question = Question(
                id=name, database="aquarium", text="", gold_sql=GOLDS[name], split=Split.TRAIN, role="rl"
            )
            completions = [
                Completion(question_id=name, text=text, raw=text, finish=Finish.STOP, tokens=5) for text in texts
            ]
            groups.append(make_group(judge.judge([(question, database, one) for one in completions]), definition))
    return groups


def make_log(folder: Path, rule_name: str = "bound-v1", **config: Any) -> Path:
    """A run folder with the stages grpo (two steps) and evaluate_grpo; gives its path."""
    content = copy.deepcopy({**CONTENT, **config})
    content["judge"]["rule"] = rule_name
    run = folder / "tiny"
    write_json(
        run / "run.json", {"format": 1, "created": "", "config": content, "content": {}, "sessions": [{}], "stages": {}}
    )
    rule = load_rule(rule_name)
    origins = {name: Origin(gold_sql=gold, role="rl") for name, gold in GOLDS.items()}
    trained = AdvantageRule(content["grpo"]["advantage"]["scale"], content["grpo"]["advantage"]["floor"])
    for stage, definition, steps in (("grpo", trained, (1, 2)), ("evaluate_grpo", AdvantageRule("none", 0.0), (0,))):
        groups = judged(rule, definition)
        lineage = Lineage(run="tiny", stage=stage, origins=origins)
        for step in steps:
            write_groups(part_path(run / "stages" / stage / "rollouts", step), groups, lineage, step=step)
    return run

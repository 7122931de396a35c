"""How soon a run's page with 20,000 rollouts can be used.

In: nothing; a run whose 20,000 candidates are all different, each about 300 characters long, is made up and its page
written. Out: seconds on the clock from asking a freshly started chromium for the page until its first chart is drawn
and its browser of groups answers, and processor seconds of the page's process until then. Not here: the time that
writing the page takes.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import Result, median, scaled

from text2sql_rl.config import content_root, load_config
from text2sql_rl.errors import Text2SqlError
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.questions import load_questions
from text2sql_rl.records import (
    Candidate,
    Completion,
    Finish,
    Group,
    Item,
    Match,
    Question,
    Reward,
    Rollout,
    Verdict,
)
from text2sql_rl.report import run_numbers
from text2sql_rl.report.page import page
from text2sql_rl.rollout_log import Lineage, Origin, part_path, write_groups
from text2sql_rl.runs import RunFolder, write_text

_GROUPS, _SIZE, _STEPS, _TIMES = 2_500, 8, 100, 7
_CHARACTERS = 300
_SECONDS = 3.0
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def measure() -> list[Result]:
    """Wall and processor seconds, each in a browser of its own.

    Raises:
        Text2SqlError: there is no chromium, or playwright is not installed.
    """
    with TemporaryDirectory() as folder:
        url = _written(Path(folder)).as_uri()
        opened = [_open(url) for _ in range(scaled(_TIMES))]
    return [
        median("report.open_20000_rollouts", [wall for wall, _ in opened], "s", _SECONDS),
        median("report.open_20000_rollouts_processor", [spent for _, spent in opened], "s", _SECONDS),
    ]


def _open(url: str) -> tuple[float, float]:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        raise Text2SqlError("there is no browser to open the page in",
                            fix="Install chromium and `pip install -e '.[dev]'`.")  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        began = time.perf_counter()
        tab.goto(url, wait_until="commit")
        tab.locator("svg.chart").first.wait_for()
        tab.locator("#groups-status").filter(has_text="rollouts").wait_for()
        tab.locator("#groups-list > details").first.wait_for()
        wall, spent = time.perf_counter() - began, _processor_s(tab)
        browser.close()
    return wall, spent


def _processor_s(tab: Any) -> float:
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable")
    found = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in found if one["name"] == "ProcessTime")


def _written(folder: Path) -> Path:
    """The page of a made-up run."""
    config = load_config(content_root() / "configs" / "demo.yaml")
    run = RunFolder(folder / "runs" / "demo")
    run.create_or_open(config.model_dump(mode="json"))
    stage = run.stage("grpo")
    stage.start()
    groups = list(_groups(scaled(_GROUPS)))
    steps = min(_STEPS, len(groups))
    for step in range(1, steps + 1):
        own = groups[step - 1 :: steps]
        origins = {asked.id: Origin(gold_sql=asked.gold_sql) for asked, _ in own}
        lineage = Lineage(run=run.name, stage="grpo", origins=origins)
        write_groups(part_path(stage.path / "rollouts", step), [group for _, group in own], lineage, step=step)
        stage.append_metrics({"step": step, "reward": 0.5, "accuracy": 0.5, "step_time": 1.0, "judge_s": 0.1})
    out = run.path / "report.html"
    write_text(out, page(run, run_numbers(run, unfinished=True)))
    return out


def _groups(count: int) -> Iterator[tuple[Question, Group]]:
    questions = load_questions(content_root() / "data")
    asked = [one for role in questions.roles() for one in questions.role(role)]
    chance = random.Random(0)
    for number in range(count):
        one = asked[number % len(asked)]
        yield one, make_group([_rollout(one, at == 0, chance) for at in range(_SIZE)], AdvantageRule())


def _rollout(asked: Question, right: bool, chance: random.Random) -> Rollout:
    """One completion; its words are drawn, since what repeats would be packed into nothing."""
    sql = f"{asked.gold_sql} AND "
    while len(sql) < _CHARACTERS:
        sql += f"t{chance.randrange(9)}.column_{chance.randrange(10_000)} <> '{chance.randrange(10**8):x}' AND "
    total = 1.0 if right else 0.02
    words = "the same rows as the gold" if right else f"{chance.randrange(1000)} rows, expected 57"
    return Rollout(
        question_id=asked.id,
        database=asked.database,
        completion=Completion(question_id=asked.id, text=sql, raw=sql, finish=Finish.STOP, tokens=80),
        candidate=Candidate(sql=sql, answers=1),
        execution=None,
        verdict=Verdict(match=Match.MATCH if right else Match.MISMATCH, code="rows", words=words),
        reward=Reward(
            total=total,
            rule="bound-v1",
            rule_sha256="0" * 64,
            items=(Item(name="correct", kind="component", value=total, weight=1, points=total, why="the gold's rows"),),
        ),
        cause="equivalent" if right else "wrong",
        equivalent=right,
        gold_rows=57,
        rows=57,
    )

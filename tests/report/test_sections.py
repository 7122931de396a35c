"""The page's sections on the rule, the red team and how to make a run again; charts; a run with missing stages."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import fake_run
from tests.report.html_tags import Tags
from tests.run_config import CONTENT
from text2sql_rl.errors import RunError
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.records import Item
from text2sql_rl.report import run_numbers, write_report
from text2sql_rl.report.charts import Interval, _ticks, interval_chart
from text2sql_rl.report.components import component_curves
from text2sql_rl.report.examples import example_groups, heldout_failures
from text2sql_rl.report.figures import figures, pass_rate_figure, windows
from text2sql_rl.report.page import commands
from text2sql_rl.report.redteam import Family, read_redteam
from text2sql_rl.report.rule import rule_in_words
from text2sql_rl.report.words import failing, trained
from text2sql_rl.rollout_log import Lineage, part_path, write_groups
from text2sql_rl.runs import RunFolder
from text2sql_rl.scoring import describe, load_rule


def findings(path: Path, overpaid: bool = False, **change: Any) -> Path:
    """Red-team findings of two families."""
    pay = {"executes-only": (0.05, 0.02, None), "result-farming": (None,)}
    payouts = [
        {"family": family, "attack": f"a{number}", "reward": reward, "overpaid": overpaid and reward == 0.05}
        for family, rewards in pay.items()
        for number, reward in enumerate(rewards)
    ]
    levels = ["payouts"] if overpaid else []
    scale = {"failed": -0.02, "right": 1.0, "bound": 0.05}
    content = {"version": 1, "reward": "bound-v1", "sha256": "r", "scale": scale, "failed_levels": levels,
               "payouts": payouts}  # fmt: skip
    path.write_text(json.dumps(content | change))
    return path


def text_of(run: RunFolder, redteam: Path | None = None) -> str:
    write_report(run, redteam)
    tags = Tags()
    tags.feed((run.path / "report.html").read_text())
    assert tags.open == []
    return re.sub(r"\s+", " ", tags.text)


# ---- rule --------------------------------------------------------------------------------------------------


def test_the_rule_says_what_every_outcome_earns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEXT2SQL_ROOT", raising=False)
    rule = load_rule("bound-v1")
    found = rule_in_words("bound-v1", rule.sha256)
    assert found is not None
    assert not found.is_other
    assert found.text == describe(rule)
    assert found.earns["equivalent"] == pytest.approx((0.95, 1.0))
    assert max(most for outcome, (_, most) in found.earns.items() if outcome != "equivalent") <= 0.05
    other = rule_in_words("bound-v1", "0" * 64)
    assert other is not None
    assert other.is_other
    assert rule_in_words("no-such-rule", None) is None


def test_a_rule_that_is_not_at_hand_is_said_to_be(run: RunFolder) -> None:
    run.update(lambda record: record["config"]["judge"].update(rule="gone-v1"))
    assert "The rule gone-v1 is not at hand where this page was written." in text_of(run)


# ---- red team ----------------------------------------------------------------------------------------------


def test_findings_in_the_run_folder_are_shown(run: RunFolder) -> None:
    assert "No red team's findings stand beside this run: text2sql-rl redteam" in text_of(run)
    findings(run.path / "redteam.json")
    text = text_of(run)
    assert "No attack earned more than it may. SQL that fails earns -0.02, the right answer 1." in text
    assert "executes-only 33 0.050 0".replace(" ", "") in text.replace(" ", "")
    assert "result-farming 11none scored0".replace(" ", "") in text.replace(" ", "")


def test_a_given_file_goes_before_and_what_got_through_is_said(run: RunFolder, tmp_path: Path) -> None:
    findings(run.path / "redteam.json")
    assert "Attacks got through at: payouts." in text_of(run, findings(tmp_path / "mine.json", overpaid=True))


def test_families_are_counted(tmp_path: Path) -> None:
    found = read_redteam(findings(tmp_path / "f.json", overpaid=True), given=True)
    assert found is not None
    assert found.families == (
        Family(name="executes-only", attacks=3, payouts=3, most=0.05, overpaid=1),
        Family(name="result-farming", attacks=1, payouts=1, most=None, overpaid=0),
    )


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"payouts": [{}]}, {"scale": None}, {"scale": {"failed": "x", "right": 1}}]
)
def test_a_file_that_is_no_findings_is_named(run: RunFolder, change: dict[str, Any]) -> None:
    findings(run.path / "redteam.json", **change)
    with pytest.raises(RunError, match=re.escape("redteam.json")):
        write_report(run)
    assert not (run.path / "report.html").exists()


def test_a_named_file_that_is_missing_is_an_error(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        write_report(run, tmp_path / "nothing.json")


# ---- making it again ---------------------------------------------------------------------------------------


def test_commands_make_the_run_again() -> None:
    lineage = {
        "git": {"commit": "abc"},
        "versions": {"python": "3.11.7"},
        "command": "text2sql-rl run configs/demo.yaml",
    }
    assert commands(lineage, Path("/somewhere/runs/my demo")) == [
        "git checkout abc",
        "pip install -c constraints.txt -e '.[train]'  # Python 3.11.7",
        "text2sql-rl run configs/demo.yaml",
        "text2sql-rl report 'runs/my demo'",
    ]
    assert commands({**lineage, "git": None}, Path("/runs/demo"))[0].startswith("pip install")


# ---- charts ------------------------------------------------------------------------------------------------


def test_the_band_shades_what_the_filter_keeps() -> None:
    part = {"histogram": [780, 191, 188, 343, 1498]}
    drawn = str(pass_rate_figure({"low": 0.0, "high": 1.0, "before_warmup": part, "after_warmup": None}))
    assert drawn.count('class="band"') == 3
    assert "before the warm-up, 4: 1498" in drawn
    assert pass_rate_figure({"low": 0, "high": 1, "before_warmup": None, "after_warmup": None}) == ""


def test_an_interval_is_drawn_where_it_is() -> None:
    drawn = str(interval_chart("t", [Interval("GRPO", 0.5, 0.25, 0.75)]))
    ends = re.search(r'class="l c0" x1="([\d.]+)" x2="([\d.]+)"', drawn)
    middle = re.search(r'class="p c0" cx="([\d.]+)"', drawn)
    assert ends
    assert middle
    assert float(middle[1]) == pytest.approx((float(ends[1]) + float(ends[2])) / 2, abs=0.1)
    assert "GRPO: 50.0%, 25.0% to 75.0%" in drawn
    assert interval_chart("t", []) == ""


def test_causes_are_drawn_the_most_frequent_first(run: RunFolder) -> None:
    rows = [{"step": step, "reward": 0.1, "causes/equivalent": 0.5, "causes/near": 0.1, "causes/error": 0.4,
             "causes/empty": 0.0, "entropy": 0.2} for step in range(1, 4)]  # fmt: skip
    drawn = " ".join(f"{title} {chart}" for title, chart in figures(run_numbers(run), rows).items())
    assert re.search(r"Why sampled candidates failed.*error.*near", drawn)
    assert "equivalent: " not in drawn
    assert "Entropy of the policy" in drawn


def test_windows_keep_the_mean_and_the_last_step() -> None:
    points = [[float(step), float(step % 4)] for step in range(1, 161)]
    found = windows(points)
    assert (len(found), found[-1]) == (40, [160.0, 1.5])
    assert windows(points[:7]) == points[:7]


def test_parts_of_the_reward_are_means_over_the_scored_rollouts(run: RunFolder) -> None:
    stage, asked = run.stage("grpo"), fake_run.question(1)
    right, wrong = fake_run.rollout(asked, True), fake_run.rollout(asked, False)
    penalty = Item(name="empty", kind="penalty", value=1, weight=0.1, points=-0.1, why="")
    wrong = replace(wrong, reward=replace(wrong.reward, items=(penalty,)))
    unscored = replace(wrong, reward=replace(wrong.reward, total=None, unscored="the sandbox broke"))
    group = make_group([right, wrong, unscored], AdvantageRule())
    write_groups(part_path(stage.path / "rollouts", 21), [group], Lineage(run="demo", stage="grpo"), step=21)
    found = component_curves(stage)
    assert [points[-1] for points in (found["component"]["correct"], found["penalty"]["empty"])] == [[21, 0.5]] * 2
    assert len(found["component"]["correct"]) == 21
    assert found["component"]["correct"][0] == [1, 1.0]
    drawn = figures(run_numbers(run), [])
    assert "correct: " in drawn["How far the sampled candidates reach each part of the reward"]
    assert "empty (penalty): " in drawn["Sampled candidates that a penalty or a gate hits"]


def test_ticks_are_round_and_hold_the_values() -> None:
    assert _ticks(0.55, 0.98) == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert _ticks(0, 220) == [0, 50, 100, 150, 200, 250]
    assert _ticks(3, 3)[0] <= 3 <= _ticks(3, 3)[-1]


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_any_values_lie_within_their_ticks(low: float, width: float) -> None:
    ticks = _ticks(low, low + width)
    assert 2 <= len(ticks) <= 9
    slack = (ticks[1] - ticks[0]) * 1e-6
    assert ticks[0] <= low + slack
    assert ticks[-1] >= low + width - slack


def test_hardness_and_what_was_held_in_are_drawn_where_they_were_measured(run: RunFolder) -> None:
    rows = [{"step": step, "reward": 0.1, "by/hardness/easy/reward": 0.5, "by/hardness/hard/reward": step / 10,
             "by/hardness/hard/tokens": 9.0, "held_in_accuracy": 0.9} for step in (1, 2)]  # fmt: skip
    drawn = figures(run_numbers(run), rows)
    assert re.findall(r">(\w+: [\d. →]+)<", drawn["Mean reward by hardness of the question"]) == [
        "easy: 0.5 → 0.5", "hard: 0.1 → 0.2",
    ]  # fmt: skip
    assert "on questions of SFT, to compare: 90% → 90%" in drawn["Greedy accuracy on dev"]
    assert drawn["Mean reward by hardness of the question"] != figures(run_numbers(run), [])


# ---- what a newcomer reads first ----------------------------------------------------------------------------


def test_what_was_trained_and_what_is_wrong_are_told_in_words(run: RunFolder) -> None:
    run.update(lambda record: record["config"].update(
        policy={"kind": "scratch", "layers": 4, "hidden_size": 128, "heads": 4},
        grpo={**CONTENT["grpo"], "questions_per_step": 16, "generations": 8},
    ))  # fmt: skip
    text = text_of(run)
    assert (
        "What was trained. A policy from scratch (4 layers of width 128). Then GRPO: 20 steps of 16 questions with 8 "
        "answers each, rewarded by rule strict-v1 for what they give when run;"
    ) in text
    assert "What it still gets wrong. 10 of 100 answers are wrong: 10 give other rows." in text
    numbers = run_numbers(run)
    weak = {"db0": {"correct": 1, "scored": 4}, "db1": {"correct": 3, "scored": 4}}
    part = {**numbers["heldout"]["grpo"], "by_database": weak, "by_hardness": {}}
    assert failing({"grpo": part}).endswith("Weakest: database db0 (25 % right).")
    assert failing({}) == ""
    lora = {"policy": {"kind": "pretrained", "model": "a/b", "lora": {"rank": 8}}, "grpo": {}}
    measured = {"sft": {"pairs": 800}, "warmup": {"old_policy_pairs": 1_500}, "grpo": None}
    assert trained(measured, lora) == (
        "a/b, with LoRA adapters. Fine-tuned on 800 questions with their SQL. Warmed up on 1,500 of its own answers "
        "that matched."
    )


# ---- beside other runs -------------------------------------------------------------------------------------


def test_named_runs_stand_beside_this_one(run: RunFolder, tmp_path: Path) -> None:
    config = {**run.read()["config"], "name": "other", "grpo": {**CONTENT["grpo"], "beta": 0.04}}
    other = RunFolder(tmp_path / "elsewhere" / "other", min_free_gb=0.0)
    other.create_or_open(config)
    fake_run.evaluate(other, "grpo", 80)
    (found,) = run_numbers(run, [run, other])["related"]
    assert (found["path"], found["differs"]) == ("../elsewhere/other", {"grpo.beta": [None, 0.04]})
    assert found["policies"]["grpo"]["accuracy"] == 0.8
    against = found["against"]
    assert (against["first"], against["second"], against["difference"]) == ("grpo", "grpo", pytest.approx(-0.1))
    assert (against["only_first"], against["only_second"]) == (10, 0)
    write_report(run, beside=[other])
    text = re.sub(r"\s+", " ", (run.path / "report.html").read_text())
    assert "What ../elsewhere/other has set otherwise" in text
    assert "-10.0 points (-10.0 to -10.0 points, p = 0.002), GRPO against GRPO" in text
    # Other held-out questions: the same ids may be others, so nothing is paired.
    other.update(lambda record: record["content"]["data"].update({"heldout/heldout.jsonl": "x"}))
    assert run_numbers(run, [other])["related"][0]["against"] is None


# ---- missing stages ----------------------------------------------------------------------------------------


def test_a_page_of_a_run_with_missing_stages(run: RunFolder) -> None:
    for stage in ("grpo", "warmup", "control", "difficulty", "difficulty_warm", "evaluate_warmup", "evaluate_grpo",
                  "evaluate_control"):  # fmt: skip
        shutil.rmtree(run.stage(stage).path)
    text = text_of(run)
    assert "The run is not finished: evaluate_control, evaluate_warmup, evaluate_grpo not done." in text
    assert "12 wrong held-out answers of SFT" in text
    assert "Groups, one by one" not in text
    assert "Pass rates" not in text


def test_a_page_of_a_run_with_nothing_but_an_evaluated_base(tmp_path: Path, content: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "bare", min_free_gb=0.0)
    run.create_or_open({**CONTENT, "name": "bare", "parent": None})
    fake_run.evaluate(run, "base", 3)
    assert "greedy answers are right as follows: untrained base 3.0 %" in text_of(run)


def test_examples_take_the_databases_in_turn(run: RunFolder) -> None:
    groups = example_groups(run.stage("grpo"), {}, 12)
    assert len({one.database for one in groups}) == 10  # there are ten
    wrong = heldout_failures(run.source("evaluate_sft"), 12)
    assert len({one.database for one in wrong}) == 10

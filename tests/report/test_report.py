"""The report: numbers against counts made by hand, hostile SQL, unfinished and damaged runs."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.report import fake_run
from tests.report.fake_run import HOSTILE, RIGHT
from tests.report.html_tags import Tags
from tests.run_config import CONTENT
from text2sql_rl.errors import RunError
from text2sql_rl.report import report_tables, run_numbers, write_report
from text2sql_rl.report.charts import Line, area_chart, bar_chart, line_chart
from text2sql_rl.report.training import curve
from text2sql_rl.report.words import p_value, short, visible
from text2sql_rl.runs import RunFolder
from text2sql_rl.statistics import mcnemar


def again(run: RunFolder, source: str, right: int, unscored: int = 0) -> None:
    """Evaluate a policy again with another outcome."""
    shutil.rmtree(run.stage(f"evaluate_{source}").path)
    fake_run.evaluate(run, source, right, unscored)


def read(run: RunFolder) -> dict:  # type: ignore[type-arg]
    return json.loads((run.path / "report.json").read_text())  # type: ignore[no-any-return]


# ---- golden ------------------------------------------------------------------------------------------------


def test_report_json_has_what_a_reader_looks_for(run: RunFolder) -> None:
    write_report(run)
    numbers = read(run)
    heldout = numbers["heldout"]
    assert {name: heldout[name]["accuracy"] for name in ("base", "sft", "sft_control", "warmup", "grpo")} == {
        "base": 0.0, "sft": 0.6, "sft_control": 0.7, "warmup": 0.75, "grpo": 0.9,
    }  # fmt: skip
    assert heldout["grpo"]["ci95"] == [0.9, 0.9]  # every database has the same share
    assert (heldout["questions"], heldout["databases"], heldout["grpo"]["correct"]) == (100, 10, 90)
    assert heldout["grpo"]["pass_at"] == {"1": 0.9, "2": 0.9}
    assert heldout["mcnemar_p_vs_control"] == mcnemar(0, 20)
    assert heldout["mcnemar_p_grpo_vs_warmup"] == mcnemar(0, 15)
    assert heldout["errors_removed_share"] == 30 / 40
    assert heldout["errors_removed_share_by"] == {"warmup": 15 / 40, "control": 10 / 40, "grpo_alone": 15 / 40}
    assert heldout["comparisons"]["grpo_vs_control"]["difference"] == 0.2
    assert heldout["handwritten"]["grpo"]["accuracy"] == 0.9
    assert heldout["handwritten"]["questions"] == 20
    assert (numbers["wall_s"], numbers["peak_rss_mb"], numbers["seed"]) == (600.0, 1500.0, 1)
    assert (numbers["treatment_minutes"], numbers["control_minutes"]) == (7.0, 7.5)
    assert numbers["stages"]["grpo"]["minutes"] == 4.0


def test_training_numbers(run: RunFolder) -> None:
    numbers = run_numbers(run)
    assert numbers["difficulty"]["before_warmup"]["histogram"] == [10, 40, 50]
    assert numbers["difficulty"]["after_warmup"]["kept"] == 30
    grpo = numbers["grpo"]
    assert grpo["reward"][:2] == [[1.0, 0.05], [2.0, 0.1]]
    assert grpo["dev_accuracy"] == [[step, pytest.approx(0.8 + step / 200)] for step in (0, 5, 10, 15, 20)]
    assert grpo["kinds"]["informative"][0] == [1.0, 0.75]
    assert grpo["start"]["reward"] == pytest.approx(0.075)
    assert grpo["reward_share"] == pytest.approx(
        {"median": 0.01, "low": 0.01, "high": 0.01, "steps": 20, "whole": 0.01}
    )


def test_counts_and_logged_shares_are_read_as_well(tmp_path: Path, content: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "other", min_free_gb=0.0)
    run.create_or_open({**CONTENT, "name": "other", "parent": None})
    fake_run.evaluate(run, "grpo", 50)
    run.stage("grpo").append_metrics(
        {"step": 1, "reward": 0.1, "kinds": {"informative": 3, "all_correct": 1}, "reward_share": 0.2, "mean_tokens": 9}
    )
    grpo = run_numbers(run)["grpo"]
    assert grpo["kinds"] == {"informative": [[1.0, 0.75]], "all_correct": [[1.0, 0.25]]}
    assert (grpo["reward_share"]["median"], grpo["mean_tokens"]) == (0.2, [[1.0, 9.0]])


def test_the_answer_says_what_was_found(run: RunFolder) -> None:
    numbers = run_numbers(run)
    assert numbers["answer"] == (
        "Better than the control: yes. Better than the warm-up, by GRPO alone: yes. "
        "On 100 questions over 10 databases that training never touched, greedy answers are right as follows: "
        "untrained base 0.0 %, SFT 60.0 %, warm-up 75.0 %, GRPO 90.0 %. The last has a 95 % interval of 90.0 to "
        "90.0 % over databases. Warm-up and GRPO together remove 75 % of SFT's errors (GRPO alone 38 %). "
        "The control, which is SFT continued instead, reaches 70.0 %: warm-up and GRPO together stand +20.0 points "
        "from it (95 % interval +20.0 to +20.0 points, McNemar p < 0.001). Over the warm-up, GRPO alone makes "
        "+15.0 points (p < 0.001). On 20 hand-written questions: SFT 60.0 %, GRPO 90.0 %."
    )
    assert numbers["warnings"] == [
        "100 questions over 10 databases are few; at least 600 over at least 8 are what this project asks for."
    ]


def test_a_loss_is_told_as_plainly_as_a_gain(run: RunFolder) -> None:
    again(run, "grpo", 50)
    numbers = run_numbers(run)
    assert numbers["heldout"]["errors_removed_share"] == -10 / 40
    assert "Warm-up and GRPO together add 25 % of SFT's errors" in numbers["answer"]
    assert "warm-up and GRPO together stand -20.0 points from it" in numbers["answer"]
    assert numbers["warnings"][:2] == [
        "Warm-up and GRPO together are not better than the control: -20.0 points, p < 0.001.",
        "GRPO alone is not better than the warm-up that it started from: -25.0 points, p < 0.001.",
    ]


def test_warnings_name_what_flatters(run: RunFolder) -> None:
    again(run, "control", 88)
    run.update(lambda record: record["stages"]["control"].update(wall_s=180.0))
    shutil.rmtree(run.stage("grpo").path)
    fake_run.train_grpo(run, lambda step: step / 20, lambda step: 0.9 - step / 50)
    again(run, "sft", 60, unscored=3)
    warnings = " ".join(run_numbers(run)["warnings"])
    assert (
        "Warm-up and GRPO together are not significantly better than the control: +2.0 points, p = 0.500." in warnings
    )
    assert "The control got fewer minutes (3.0) than difficulty, warm-up and GRPO took (7.0)" in warnings
    assert "The reward rose by 0.90 while dev accuracy fell from 80.0 % to 50.0 %: look for farmed" in warnings
    assert "3 answers of sft could not be judged and are left out: the sandbox broke." in warnings


def test_the_console_shows_the_table(run: RunFolder) -> None:
    out = io.StringIO()
    Console(width=80, file=out).print(report_tables(run))
    text = out.getvalue()
    assert re.search(r"GRPO +90\.0 % +90\.0 to 90\.0 +91\.0 % +90\.0 % +75\.0 to 100\.0", text)
    assert re.search(r"warm-up \+ GRPO over control +\+20\.0 +\+20\.0 to \+20\.0 +20 +0 +p < 0\.001", text)
    assert re.search(r"before the warm-up +100 +40 % +50 % +10 % +60\.0 % +80\.0 %", text)
    assert "…" not in text


def test_runs_beside_it(run: RunFolder, tmp_path: Path) -> None:
    second = RunFolder(tmp_path / "runs" / "second", min_free_gb=0.0)
    second.create_or_open({**run.read()["config"], "name": "second", "seed": 2})
    fake_run.evaluate(second, "grpo", 80)
    lesson = {**CONTENT, "name": "lesson", "parent": "demo", "judge": {"rule": "executes-only"}}
    other = RunFolder(tmp_path / "runs" / "lesson", min_free_gb=0.0)
    other.create_or_open(lesson)
    fake_run.train_grpo(other, lambda step: 0.5 + step / 40, lambda step: 0.8 - step / 50)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text("{")
    write_report(run)
    numbers = read(run)
    assert [(one["run"], one["rule"]) for one in numbers["related"]] == [("lesson", "executes-only")]
    assert numbers["related"][0]["grpo"]["dev_accuracy"][-1] == [20, pytest.approx(0.4)]
    assert [row["accuracy"]["grpo"] for row in numbers["seeds"]] == [0.9, 0.8]
    assert numbers["seed_spread"]["grpo"]["least"] == 0.8
    page = (run.path / "report.html").read_text()
    assert "lesson (executes-only)" in page
    assert "The last groups of lesson" in page


# ---- the page ----------------------------------------------------------------------------------------------


def test_hostile_sql_is_text_and_nothing_is_fetched(run: RunFolder) -> None:
    write_report(run)
    page = (run.path / "report.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert {tag for tag, _ in tags.seen} & {"img", "link", "iframe", "object"} == set()
    for tag, attributes in tags.seen:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style", "action")]
        assert tag != "a" or (attributes["href"] or "").startswith("#")
    assert page.count("Content-Security-Policy") == 1
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script>alert(1)</script>" in tags.text  # shown, not run
    assert "{{ 7 * 7 }}" in tags.text
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "\\u{202e}" in tags.text


def test_the_page_holds_every_part(run: RunFolder) -> None:
    write_report(run)
    page = (run.path / "report.html").read_text()
    for heading in ("Held-out accuracy", "handwritten", "Training", "What still fails", "Groups, one by one",
                    "12 groups from GRPO to begin with",
                    "12 wrong held-out answers of GRPO", "What was rewarded", "Cost",
                    "Where the numbers come from, and how to make them again"):  # fmt: skip
        assert heading in page
    assert page.index("are few; at least 600") < page.index("On 100 questions") < page.index("Held-out accuracy")
    # Held-out accuracy; reward, dev, its parts, kinds, causes, tokens, loss and dev while fine-tuning, pass rates.
    assert page.count('class="chart"') == 10
    assert "(KL is measured only where <code>grpo.beta</code> is above 0)" in page
    assert page.count('class="band"') == 1  # 1 of 2 is the one share between 0 and 1


def test_text_is_made_visible() -> None:
    assert visible("SELECT 1\n\tFROM é 漢") == "SELECT 1\n\tFROM é 漢"
    assert visible("a\u202eb\x00c\ud800") == "a\\u{202e}b\\u{0}c\\u{d800}"
    assert short("x" * 2_000).endswith("x … (500 more characters)")
    assert short(None) == ""


# ---- properties --------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=900), st.text(max_size=20))
def test_charts_are_markup_whatever_they_show(values: list[float], name: str) -> None:
    points = [[float(step), value] for step, value in enumerate(values)]
    shares = [[step, 0.5] for step, _ in points]
    for chart in (
        line_chart(name, [Line(name, points)], name),
        line_chart(name, [Line(name, shares)], name, share=True),
        area_chart(name, [Line(name, shares), Line("b", shares)], name),
        bar_chart(name, {name: [abs(value) for value in values[:9]]}, [str(n) for n in range(len(values[:9]))], name),
    ):
        assert "nan" not in chart.lower().replace(name.lower(), "") or "nan" in name.lower()
        tags = Tags()
        tags.feed(str(chart))
        assert tags.open == []
        assert {tag for tag, _ in tags.seen} <= {"figure", "figcaption", "svg", "line", "polyline", "polygon", "circle",
                                                 "rect", "text", "title", "div", "span"}  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 2_000), st.integers(1, 50))
def test_a_thinned_curve_keeps_its_mean_and_its_end(steps: int, most: int) -> None:
    rows = [{"step": step, "reward": float(step % 7)} for step in range(1, steps + 1)]
    points = curve(rows, "reward", most)
    assert len(points) <= most
    assert points[-1][0] == steps
    assert min(value for _, value in points) >= 0
    assert max(value for _, value in points) <= 6


@given(st.floats(0, 1))
def test_a_p_value_reads_like_one(p: float) -> None:
    assert re.fullmatch(r"p < 0\.001|p = [01]\.\d{3}", p_value(p))


# ---- faults ------------------------------------------------------------------------------------------------


def test_nothing_evaluated_is_an_error(tmp_path: Path, content: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "new", min_free_gb=0.0)
    run.create_or_open({**CONTENT, "name": "new", "parent": None})
    with pytest.raises(RunError, match="no stage has been evaluated yet"):
        write_report(run)
    assert not (run.path / "report.json").exists()


def test_no_run_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be read"):
        write_report(RunFolder(tmp_path / "nothing"))


def test_an_unfinished_run_is_reported_but_not_done(run: RunFolder) -> None:
    for name in ("evaluate_grpo", "grpo", "warmup", "evaluate_warmup", "difficulty_warm", "control"):
        shutil.rmtree(run.stage(name).path)
    write_report(run)
    numbers = read(run)
    assert numbers["warnings"][0] == "The run is not finished: evaluate_warmup, evaluate_grpo not done."
    assert numbers["heldout"]["mcnemar_p_vs_control"] is None
    assert numbers["grpo"] is None
    assert not run.stage("report").is_done()
    assert (run.path / "report.html").is_file()


def test_a_finished_run_is_done_once_and_can_be_reported_again(run: RunFolder) -> None:
    write_report(run)
    assert run.stage("report").result()["summary"].startswith("Better than the control: yes.")
    (run.path / "report.json").unlink()
    write_report(run)
    assert read(run)["heldout"]["questions"] == 100


def test_stages_that_the_config_leaves_out_are_not_missed(tmp_path: Path, content: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "plain", min_free_gb=0.0)
    run.create_or_open({**CONTENT, "name": "plain", "parent": None, "warmup": None, "control": None})
    for source in ("base", "sft", "grpo"):
        fake_run.evaluate(run, source, RIGHT[source])
    write_report(run)
    numbers = read(run)
    assert run.stage("report").is_done()
    assert "GRPO remove" in numbers["answer"]
    assert numbers["heldout"]["mcnemar_p_grpo_vs_warmup"] == mcnemar(0, 30)
    assert numbers["difficulty"]["before_warmup"] is None
    assert numbers["wall_s"] is None


def test_a_damaged_result_is_named(run: RunFolder) -> None:
    fake_run.break_json(run.stage("evaluate_sft").path / "done.json")
    with pytest.raises(RunError, match=r"evaluate_sft/done.json: result.roles: is not the result of an evaluation"):
        write_report(run)


@pytest.mark.parametrize("name", ["evaluate_grpo/predictions.parquet", "grpo/rollouts/step-000020.parquet"])
def test_a_damaged_log_is_named_and_nothing_is_written(run: RunFolder, name: str) -> None:
    (run.path / "stages" / name).write_bytes(b"PAR1 not")
    with pytest.raises(RunError, match=re.escape(name)):
        write_report(run)
    assert not (run.path / "report.html").exists()
    assert not run.stage("report").is_done()


def test_hostile_text_stays_out_of_the_terminal(run: RunFolder) -> None:
    assert HOSTILE not in json.dumps(run_numbers(run)["answer"])

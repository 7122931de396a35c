"""The page in a real browser: drawn, quiet, inert, quick, at three widths, on paper, by keyboard."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import Chromium, chromium
from tests.report.fake_run import HOSTILE, question, rollout
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.report import write_report
from text2sql_rl.rollout_log import Lineage, Origin, part_path, write_groups
from text2sql_rl.runs import RunFolder

__all__ = ["chromium"]  # a fixture

_WITHIN = "[document.documentElement.scrollWidth, innerWidth]"


@pytest.fixture(scope="module")
def page_url(made: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("browsed") / "runs" / "demo"
    shutil.copytree(made, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXT2SQL_ROOT", str(made.parent.parent))
        write_report(RunFolder(folder, min_free_gb=0.0))
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (820, "light"), (1440, "dark")])
def test_it_is_drawn_whole_and_quiet_at_any_width(chromium: Chromium, page_url: str, width: int, scheme: str) -> None:
    with chromium.tab(page_url, width, scheme) as tab:
        charts = tab.page.locator("svg.chart")
        assert charts.count() == 10
        for number in range(charts.count()):
            box = charts.nth(number).bounding_box()
            assert box["width"] > min(250, width - 100)
            assert box["height"] > 80
        drawn = (
            "[...document.querySelectorAll('svg.chart')].every(one => one.querySelector('polyline, polygon, .b, .p'))"
        )
        assert tab.page.evaluate(drawn)
        across, shown = tab.page.evaluate(_WITHIN)
        assert across <= shown
        for summary in tab.page.locator("#groups-list > details > summary").all()[:2]:
            summary.click()
        across, shown = tab.page.evaluate(_WITHIN)
        assert across <= shown
        assert tab.wrong == []


def test_light_and_dark_differ_and_can_be_read(chromium: Chromium, page_url: str) -> None:
    def brightness(scheme: str) -> tuple[float, float]:
        with chromium.tab(page_url, scheme=scheme) as tab:
            style = "one => getComputedStyle(document.body)[one].match(/\\d+/g).map(Number)"
            back, ink = (sum(tab.page.evaluate(style, one)[:3]) / 765 for one in ("backgroundColor", "color"))
            return back, ink

    (light, ink), (dark, chalk) = brightness("light"), brightness("dark")
    assert light - ink > 0.7
    assert chalk - dark > 0.7


def test_filters_leave_what_they_say(chromium: Chromium, page_url: str) -> None:
    with chromium.tab(page_url) as tab:
        page = tab.page
        tab.wait_for("#groups-status", "600 of 600 groups")
        page.fill("#groups-search", "SELECT heldout-7")
        page.select_option("#groups-kind", label="right and wrong")
        page.fill("#groups-from", "19")
        # Question 7 is asked once a step; its groups of the last two steps are what the filters leave.
        tab.wait_for("#groups-status", "2 of 600 groups, 6 rollouts")
        groups = page.locator("#groups-list > details")
        assert groups.count() == 2
        for number in range(2):
            groups.nth(number).locator("summary").first.click()
            groups.nth(number).locator("table.answers").wait_for()
            text = groups.nth(number).inner_text()
            for sampled in range(3):
                assert text.count(f"SELECT {sampled} -- </pre><script>alert(1)</script>") == 1
            assert "gold" in text
        page.select_option("#groups-cause", label="equivalent")
        page.click("button[type=reset]")
        tab.wait_for("#groups-status", "600 of 600 groups")
        assert page.locator("#groups-list > details").count() == 20
        page.click("#groups-more")
        assert page.locator("#groups-list > details").count() == 40
        assert tab.wrong == []


def test_nothing_that_a_model_wrote_runs(chromium: Chromium, page_url: str) -> None:
    with chromium.tab(page_url) as tab:
        tab.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        tab.page.wait_for_timeout(300)
        assert tab.page.locator("img").count() == 0
        assert tab.page.locator("script").count() == 2
        assert "<script>alert(1)</script>" in tab.page.inner_text("body")
        assert "\u202e" not in tab.page.inner_text("body")
        assert tab.wrong == []


def test_it_is_used_without_a_mouse(chromium: Chromium, page_url: str) -> None:
    with chromium.tab(page_url) as tab:
        page = tab.page
        focused = "document.activeElement.id || document.activeElement.tagName"
        tab.wait_for("#groups-status", "600 of 600 groups")
        page.keyboard.press("/")
        assert page.evaluate(focused) == "groups-search"
        assert page.input_value("#groups-search") == ""
        fields = [f"groups-{name}" for name in ("stage", "kind", "cause", "database", "from", "to")]
        for wanted in (*fields, "BUTTON", "SUMMARY"):
            page.keyboard.press("Tab")
            assert page.evaluate(focused) == wanted
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        page.wait_for_selector("#groups-list > details[open] table.answers")
        assert tab.wrong == []


def test_on_paper_it_has_no_controls_and_every_table_open(chromium: Chromium, page_url: str) -> None:
    with chromium.tab(page_url) as tab:
        tab.page.emulate_media(media="print")
        assert not tab.page.locator("#groups-form").is_visible()
        assert not tab.page.locator("nav").first.is_visible()
        assert tab.page.pdf().startswith(b"%PDF")
        assert tab.page.evaluate("[...document.querySelectorAll('details[data-print]')].every(one => one.open)")


def test_twenty_thousand_rollouts_open_soon(chromium: Chromium, run: RunFolder) -> None:
    folder = run.stage("grpo").path / "rollouts"
    shutil.rmtree(folder)
    asked = [question(number) for number in range(125)]
    lineage = Lineage(run="demo", stage="grpo", origins={one.id: Origin(gold_sql=f"SELECT {one.id}") for one in asked})
    variants = [
        [
            make_group(
                [rollout(one, at % 2 == 0, f"SELECT {at * part} -- {one.id} {HOSTILE}") for at in range(8)],
                AdvantageRule(),
            )
            for one in asked
        ]
        for part in range(1, 5)
    ]
    for step in range(1, 21):
        write_groups(part_path(folder, step), variants[step % 4], lineage, step=step)
    write_report(run)
    with chromium.tab((run.path / "report.html").as_uri()) as tab:
        tab.wait_for("#groups-status", "2,500 of 2,500 groups, 20,000 rollouts")
        # Processor seconds, which other work on the machine does not change; on a quiet one they are the time it takes.
        assert _processor_s(tab.page) < 3
        tab.page.fill("#groups-search", "heldout-77")
        tab.wait_for("#groups-status", "20 of 2,500 groups")
        assert _processor_s(tab.page) < 4
        assert tab.wrong == []


def _processor_s(page: Any) -> float:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["ProcessTime"])

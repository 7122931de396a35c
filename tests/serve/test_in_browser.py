"""The served pages in a real browser: the playground judges, results stand side by side, the page follows the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chromium import Chromium, chromium
from tests.serve.conftest import Asker, serving, train
from text2sql_rl.runs import RunFolder
from text2sql_rl.serve import pages

__all__ = ["chromium"]  # a fixture

_WITHIN = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture
def quick(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asker]:
    """A server whose pages look again without much waiting."""
    monkeypatch.setattr(pages, "POLL_S", 0.2)
    monkeypatch.setattr(pages, "REDRAW_S", 0.1)
    with serving(run) as asker:
        yield asker


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1200, "light")])
def test_the_playground_judges_what_is_typed(chromium: Chromium, ask: Asker, width: int, scheme: str) -> None:
    with chromium.tab(f"{ask.server.url}playground", width, scheme) as tab:
        page = tab.page
        tab.wait_for("#play-status", "3 questions")
        tab.wait_for("#play-question", "Which horses are older than 8? </script><script>alert(1)")
        page.fill("#play-sql", "SELECT name FROM horse WHERE age > 9")
        page.click("#play-judge")
        tab.wait_for(".verdict", "counted as wrong")
        assert [row.inner_text() for row in page.locator("tr.lacking").all()] == ["Arkle", "NULL"]
        page.get_by_role("button", name="the gold", exact=True).click()
        tab.wait_for(".verdict", "reward 1 under bound-v1, counted as equivalent")
        page.fill("#play-sql", "SELECT name FROM horse WHERE id = 3")
        page.press("#play-sql", "Control+Enter")
        tab.wait_for(".rows", "</script><script>alert(1)")
        page.fill("#play-sql", "SELECT name FROM horse WHERE 1 = 0")
        page.click("#play-judge")
        tab.wait_for(".verdict", "counted as empty")
        tab.wait_for("#play-answer", "executes-only-v2, bad on purpose")
        assert page.locator("#play-tries tbody tr").count() == 4
        page.fill("#play-words", "how many")
        tab.wait_for("#play-status", "1 question")
        page.select_option("#play-list", "q2")
        tab.wait_for("#play-question", "How many?")
        assert page.locator("img").count() == 0
        assert page.evaluate(_WITHIN)
        assert tab.wrong == []


def test_a_page_follows_its_run(chromium: Chromium, quick: Asker, run: RunFolder) -> None:
    with chromium.tab(f"{quick.server.url}runs/0") as tab:
        tab.wait_for("#live-status", "reward 0.10 at step 1")
        assert "0.1" in tab.page.locator("[data-live=charts] .key").first.inner_text()
        train(run, 2)
        tab.wait_for("#live-status", "reward 0.20 at step 2. More groups were logged")
        tab.wait_for("[data-live=charts] .key >> nth=0", "0.1 → 0.2")
        # Drawn anew, with its colours: the marks came from the server, as HTML, without any script.
        assert tab.page.locator("[data-live=charts] polyline").first.bounding_box()["width"] > 50
        tab.page.context.set_offline(True)
        tab.wait_for("#live-status", "The server does not answer")
        assert [one for one in tab.wrong if "ERR_INTERNET_DISCONNECTED" not in one and "failed: " not in one] == []


def test_results_stand_beside_golds(chromium: Chromium, ask: Asker) -> None:
    with chromium.tab(f"{ask.server.url}runs/0") as tab:
        tab.page.locator("#groups-list > details > summary").first.click()
        tab.page.get_by_role("button", name="Results beside gold's").nth(1).click()
        tab.wait_for("#groups-list .results", "what the gold gives")
        both = tab.page.locator("#groups-list .result")
        assert both.count() == 2
        assert "Arkle" in both.nth(0).inner_text()
        assert both.nth(1).inner_text().split()[-3:] == ["1", "1", "row"]
        assert tab.page.evaluate(_WITHIN)
        assert tab.wrong == []

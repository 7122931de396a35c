"""A real browser for tests: the chromium of this machine, driven by playwright; tests skip where either is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

_PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = ("--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update")


@dataclass
class Tab:
    """A page and what went wrong in it: console messages but for plain ones, exceptions, dialogs, failed requests."""

    page: Any
    wrong: list[str] = field(default_factory=list)

    def wait_for(self, selector: str, text: str) -> None:
        """Wait until an element says this; the page's policy forbids what `wait_for_function` does."""
        self.page.locator(selector).filter(has_text=text).wait_for(timeout=30_000)


class Chromium:
    """Opens tabs of its own; `playwright` is imported only here, since it is not needed without a browser."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @contextmanager
    def tab(self, url: str, width: int = 1200, scheme: str = "light") -> Iterator[Tab]:
        page = self._browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab = Tab(page)
        page.on("console", lambda said: said.type in ("log", "info") or tab.wrong.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: tab.wrong.append(f"exception: {error}"))
        page.on("dialog", lambda dialog: (tab.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("requestfailed", lambda request: tab.wrong.append(f"failed: {request.url}"))
        page.goto(url)
        yield tab
        page.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """One browser a test file; its driver's event loop may not outlive the file."""
    if _PROGRAM is None:
        pytest.skip("no chromium on this machine")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_PROGRAM, args=list(_FLAGS))
        yield Chromium(browser)
        browser.close()

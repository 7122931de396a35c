"""What is served, as text: a run's page and how far the run is, the playground's page.

In: run folders, finished or not. Out: HTML and plain data. A page is made when it is asked for and kept until the run
writes something. Not here: HTTP, judging.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from text2sql_rl.report import run_numbers
from text2sql_rl.report.browser import as_json
from text2sql_rl.report.page import Served, content_policy, environment, page
from text2sql_rl.report.progress import Progress, stages_of
from text2sql_rl.report.training import grpo_numbers
from text2sql_rl.runs import RunFolder

POLL_S = 5.0
REDRAW_S = 15.0  # at least: making the numbers takes time from the training that is watched
_FOLDER = Path(__file__).parent
_FILES = ("done.json", "metrics.jsonl", "results.json")


@dataclass(frozen=True, slots=True)
class Page:
    """An HTML document and the content policy that its scripts need."""

    text: str
    policy: str


class Pages:
    """The pages of some runs; safe for several threads."""

    def __init__(self, runs: Sequence[RunFolder], token: str, problem: str) -> None:
        """Read nothing yet.

        Args:
            runs: what is served, the first one first.
            token: what a page must send to have something judged.
            problem: why there is no playground; empty where there is one.
        """
        self.runs = tuple(runs)
        self._token, self._problem = token, problem
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, bool], tuple[str, Page]] = {}

    def run(self, number: int, *, groups: bool = True) -> Page:
        """The page of a run; without its groups it is small, and soon made.

        Raises:
            RunError: one of its files is damaged.
        """
        with self._lock:
            version = self._version()
            if (number, groups) not in self._kept or self._kept[number, groups][0] != version:
                self._kept[number, groups] = version, self._make(number, version, groups)
            return self._kept[number, groups][1]

    def state(self, number: int) -> dict[str, Any]:
        """How far a run is, for a page that looks again and again.

        Raises:
            RunError: as `run`.
        """
        run = self.runs[number]
        stages = stages_of(run)
        return {
            "version": self._version(),
            "parts": _parts(run),
            "ended": all(one.state == "done" for one in stages),
            "words": _words(run, stages),
        }

    def playground(self) -> Page:
        """The playground's page."""
        script = _script("ask.js", "playground.js")
        policy = content_policy([script], asks=True)
        text = environment(_FOLDER).get_template("playground.html.j2").render(
            script=Markup(script),
            policy_words=Markup(policy),
            data=Markup(as_json({"token": self._token})),
            links=self._links(),
            problem=self._problem,
        )  # fmt: skip
        return Page(text, policy)

    def problem(self, words: str) -> Page:
        """A page that says why there is none."""
        policy = content_policy([])
        text = environment(_FOLDER).get_template("problem.html.j2").render(
            policy_words=Markup(policy), links=self._links(), words=words
        )  # fmt: skip
        return Page(text, policy)

    def _make(self, number: int, version: str, groups: bool) -> Page:
        run = self.runs[number]
        script = _script("ask.js", "live.js")
        data = {
            "token": self._token,
            "run": number,
            "version": version,
            "parts": _parts(run),
            "poll_s": POLL_S,
            "redraw_s": REDRAW_S,
            "judges": not self._problem,
        }
        served = Served(script, data, self._links(), stages_of(run))
        numbers = run_numbers(run, self.runs, unfinished=True)
        text = page(run, numbers, served=served, groups=groups)
        return Page(text, _declared(text))

    def _version(self) -> str:
        """Changes whenever one of the runs has measured something or ended a stage."""
        digest = hashlib.sha256()
        for run in self.runs:
            for path in sorted((run.path / "stages").glob("*/*")):
                if path.name in _FILES and path.is_file():
                    state = path.stat()
                    digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
        return digest.hexdigest()[:16]

    def _links(self) -> list[tuple[str, str]]:
        names = [run.name for run in self.runs]
        shown = [run.name if names.count(run.name) == 1 else str(run.path) for run in self.runs]
        runs = [(f"Run {name}", f"/runs/{number}") for number, name in enumerate(shown)]
        return [*runs, ("Playground: try to cheat the judge", "/playground")]


def _script(*names: str) -> str:
    return "".join((_FOLDER / name).read_text("utf-8") for name in names)


def _declared(text: str) -> str:
    """The content policy that a page declares in its head."""
    return text.split('http-equiv="Content-Security-Policy" content="', 1)[1].split('"', 1)[0]


def _parts(run: RunFolder) -> int:
    return sum(1 for _ in run.path.glob("stages/*/rollouts/*.parquet"))


def _words(run: RunFolder, stages: Sequence[Progress]) -> str:
    done = sum(one.state == "done" for one in stages)
    at_work = [
        f"{one.name} {one.state}, {one.words}".strip(", ") for one in stages if one.state in ("running", "silent")
    ]
    words = f"{done} of {len(stages)} stages done"
    if at_work:
        words += f"; {'; '.join(at_work)}"
    if any(one.name == "grpo" and one.state == "running" for one in stages) and (grpo := grpo_numbers(run)):
        step, reward = grpo["reward"][-1]
        words += f"; reward {reward:.2f} at step {step:.0f}"
    return f"{words}."

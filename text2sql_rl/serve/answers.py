"""What is answered: one route a line.

In: a path, the number of a run, the texts that were asked with. Out: a `Page`, plain data, or a place to go to. Not
here: headers and sockets (handler.py), making pages, judging.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from text2sql_rl.errors import SandboxError
from text2sql_rl.serve.pages import Page, Pages
from text2sql_rl.serve.playground import Logged, Playground, changed_content

Body = dict[str, str]
Found = Page | Mapping[str, Any] | str | None
"""A page, data for JSON, another place, or nothing."""


class Answers:
    """What the requests of one server share.

    Args:
        pages: of the runs.
        playground: None where there is none.
        problem: why not.
        records: of the runs, as run.json holds them.
    """

    def __init__(
        self, pages: Pages, playground: Playground | None, problem: str, records: Sequence[dict[str, Any]]
    ) -> None:
        self.pages = pages
        self._playground, self._problem, self._records = playground, problem, records
        self._changed: dict[int, set[str]] = {}

    def judge(self) -> Playground:
        """The playground.

        Raises:
            SandboxError: there is none; says why.
        """
        if self._playground is None:
            raise SandboxError(self._problem)
        return self._playground

    def logged(self, number: int, body: Body) -> dict[str, Any]:
        """A candidate of a logged group and its gold, run again; `changed` where the rows are no longer the run's."""
        found = self.judge().again(Logged(body["database"], body["gold_sql"], body["sql"]))
        if number not in self._changed:
            self._changed[number] = changed_content(self._records[number])
        return {**found, "changed": body["database"] in self._changed[number]}


Route = Callable[[Answers, int, Body], Found]


def _run_page(answers: Answers, number: int, asked: Body) -> Page:
    return answers.pages.run(number)


def _run_numbers(answers: Answers, number: int, asked: Body) -> Page:
    return answers.pages.run(number, groups=False)


def _questions(answers: Answers, number: int, asked: Body) -> Found:
    return answers.judge().questions(asked["role"], asked["database"], asked["words"])


PAGES = (_run_page, _run_numbers)
_RUN = r"/runs/(?P<run>\d{1,6})"
GET: Sequence[tuple[str, Route]] = (
    ("/", lambda answers, number, asked: "/runs/0"),
    (_RUN, _run_page),
    (f"{_RUN}/numbers", _run_numbers),
    (f"{_RUN}/state", lambda answers, number, asked: answers.pages.state(number)),
    ("/playground", lambda answers, number, asked: answers.pages.playground()),
    ("/favicon.ico", lambda answers, number, asked: None),
)
POST: Sequence[tuple[str, Route]] = (
    ("/api/choices", lambda answers, number, asked: answers.judge().choices()),
    ("/api/questions", _questions),
    ("/api/question", lambda answers, number, asked: answers.judge().question(asked["id"])),
    ("/api/judge", lambda answers, number, asked: answers.judge().judged(asked["id"], asked["text"])),
    (f"{_RUN}/results", lambda answers, number, asked: answers.logged(number, asked)),
)

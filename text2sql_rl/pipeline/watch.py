"""What a person sees while stages run: a bar a running stage on a terminal, plain lines elsewhere.

In: stage folders, whose progress.json is read. Out: text on a rich console. Not here: what the stages do.
"""

from __future__ import annotations

import json
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from text2sql_rl.runs import StageFolder

_PLAIN_EVERY_S = 15.0


class Watch(Protocol):
    """Whoever shows how stages fare; used in a `with` block."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the screen as it is."""
        ...

    def started(self, stage: StageFolder) -> None:
        """A stage has begun."""
        ...

    def refresh(self, stages: list[StageFolder]) -> None:
        """Look at the running stages again."""
        ...

    def ended(self, stage: StageFolder, words: str) -> None:
        """A stage has ended; `words` say how."""
        ...


def make_watch(console: Console) -> Watch:
    """Bars where the console is a terminal, lines where it is not."""
    return Bars(console) if console.is_terminal else Lines(console)


def latest(stage: StageFolder) -> tuple[int, int, str]:
    """Done, total and text of a stage's progress.json; (0, 0, "") before it wrote one."""
    try:
        content = json.loads((stage.path / "progress.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0, 0, ""
    return int(content["done"]), int(content["total"]), str(content["text"])


class Bars:
    """A line a running stage: name, bar, seconds, latest measurement; ended stages stay above as lines."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description:<17}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
            console=console,
            refresh_per_second=4,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing and give the cursor back."""
        self._progress.stop()

    def started(self, stage: StageFolder) -> None:
        """Add its bar."""
        self._tasks[stage.name] = self._progress.add_task(stage.name, total=None, text="")

    def refresh(self, stages: list[StageFolder]) -> None:
        """Move the bars."""
        for stage in stages:
            done, total, text = latest(stage)
            self._progress.update(self._tasks[stage.name], completed=done, total=total or None, text=escape(text))

    def ended(self, stage: StageFolder, words: str) -> None:
        """Replace its bar by a line that stays."""
        self._progress.remove_task(self._tasks.pop(stage.name))
        self._progress.refresh()
        self._progress.console.print(f"[bold]{stage.name:<17}[/bold] {escape(words)}", highlight=False)


class Lines:
    """A line when a stage begins or ends, and now and then where something changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, tuple[float, str]] = {}

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to leave."""

    def started(self, stage: StageFolder) -> None:
        """Say so."""
        self._shown[stage.name] = (time.monotonic(), "")
        self._say(stage, "started")

    def refresh(self, stages: list[StageFolder]) -> None:
        """Say what changed, at most every 15 seconds a stage."""
        for stage in stages:
            shown_s, before = self._shown[stage.name]
            done, total, text = latest(stage)
            words = f"{done}/{total} {text}".strip()
            if total and words != before and time.monotonic() - shown_s >= _PLAIN_EVERY_S:
                self._shown[stage.name] = (time.monotonic(), words)
                self._say(stage, words)

    def ended(self, stage: StageFolder, words: str) -> None:
        """Say how."""
        self._say(stage, words)

    def _say(self, stage: StageFolder, words: str) -> None:
        self._console.print(f"{stage.name:<17} {words}", markup=False, highlight=False, soft_wrap=True)

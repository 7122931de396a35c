"""All stages of a config as child processes: up to two at once, the decisive chain first, what is done is skipped.

In: a config and its run folder. Out: every stage done and its cost in run.json, or one RunError with the
failing stage's own words and its log. Not here: what the stages do; sharing work between machines.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from text2sql_rl.config import RunConfig
from text2sql_rl.errors import RunError
from text2sql_rl.pipeline.children import Child, end_all, tree_rss_mb
from text2sql_rl.pipeline.stages import ENVIRONMENT, STAGES, Stage, plan
from text2sql_rl.pipeline.watch import Watch, make_watch
from text2sql_rl.runs import RunFolder
from text2sql_rl.runs.folder import inherited

_PROGRAM = (sys.executable, "-m", "text2sql_rl.cli")
_POLL_S = 0.2
_MEMORY_EVERY_S = 1.0
# A trainer ends within its step; a step of a large model takes a while.
_GRACE_S = 60.0


class Stopped(Exception):
    """A signal asked the pipeline to stop."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


def run_pipeline(
    config: RunConfig,
    run: RunFolder,
    arguments: Sequence[str],
    console: Console,
    jobs: int = 2,
    program: Sequence[str] = _PROGRAM,
) -> None:
    """Run what is not done yet.

    Args:
        config: the resolved config.
        run: its folder, opened.
        arguments: what a stage's command gets: the config's path and its overrides.
        console: where to show progress.
        jobs: stages at once.
        program: the command line that a stage's command and the arguments are added to.

    Raises:
        RunError: a stage failed, the parent run is unfinished, or another pipeline works in this folder.
        SystemExit: 130 or 143 after SIGINT or SIGTERM, when all children have ended.
    """
    _require_parent(config, run)
    with run.lock().held(wait_s=5.0), _signals_raise(), make_watch(console) as watch:
        pipeline = _Pipeline(plan(config), run, watch, lambda stage: [*program, *stage.command, *arguments])
        try:
            pipeline.work_or_end(jobs)
        except Stopped as stop:
            pipeline.end(stop.number)
            raise SystemExit(128 + stop.number) from stop


class _Pipeline:
    def __init__(
        self, stages: Sequence[Stage], run: RunFolder, watch: Watch, command: Callable[[Stage], Sequence[str]]
    ) -> None:
        self._stages, self._run, self._command, self._watch = stages, run, command, watch
        self._done = {stage.name for stage in stages if run.stage(stage.name).is_done()}
        self._children: dict[str, Child] = {}
        self._began = time.monotonic()
        self._peak_rss_mb = 0.0
        before = run.read()
        self._wall_before_s = float(before.get("wall_s", 0.0))
        self._peak_before_mb = float(before.get("peak_rss_mb", 0.0))

    def work_or_end(self, jobs: int) -> None:
        """Work until all is done; where a stage fails, end the others first."""
        try:
            self._work(jobs)
        except RunError:
            self.end(signal.SIGTERM)
            raise

    def _work(self, jobs: int) -> None:
        measured_s = 0.0
        while len(self._done) < len(self._stages):
            for stage in self._ready()[: jobs - len(self._children)]:
                self._start(stage)
            time.sleep(_POLL_S)
            for child in list(self._children.values()):
                if child.poll():
                    self._settle(child)
            if time.monotonic() - measured_s >= _MEMORY_EVERY_S:
                measured_s = time.monotonic()
                self._peak_rss_mb = max(self._peak_rss_mb, tree_rss_mb(os.getpid()))
            self._watch.refresh([self._run.stage(name) for name in self._children])

    def end(self, number: signal.Signals) -> None:
        """End the children that still run, and keep what they cost."""
        end_all(list(self._children.values()), number, _GRACE_S)
        while self._children:
            _, child = self._children.popitem()
            self._record(child)
            self._watch.ended(self._run.stage(child.name), "stopped; the same command goes on from here")

    def _ready(self) -> list[Stage]:
        waiting = (stage for stage in self._stages if stage.name not in self._done | set(self._children))
        return [stage for stage in waiting if set(stage.needs) <= self._done]

    def _start(self, stage: Stage) -> None:
        folder = self._run.stage(stage.name)
        environment = {**ENVIRONMENT, **os.environ}
        child = Child(stage.name, self._command(stage), folder.path / "log.txt", environment)
        self._children[stage.name] = child
        self._watch.started(folder)

    def _settle(self, child: Child) -> None:
        del self._children[child.name]
        self._record(child)
        stage = self._run.stage(child.name)
        if child.exit_code or not stage.is_done():
            self._watch.ended(stage, "failed")
            raise _failure(child)
        self._done.add(child.name)
        summary = str(stage.result().get("summary", ""))
        self._watch.ended(stage, f"done in {_duration(child.wall_s)}  {summary}".rstrip())

    def _record(self, child: Child) -> None:
        # Written after every stage, so that the report stage finds the cost of all before it.
        def change(record: dict[str, object]) -> None:
            stages = record["stages"]
            assert isinstance(stages, dict)
            before = stages.get(child.name, {"wall_s": 0.0, "peak_rss_mb": 0.0})
            stages[child.name] = {
                "wall_s": round(before["wall_s"] + child.wall_s, 3),
                "cpu_s": round(before.get("cpu_s", 0.0) + child.cpu_s, 3),
                "peak_rss_mb": round(max(before["peak_rss_mb"], child.peak_rss_mb), 1),
                "exit_code": child.exit_code,
            }
            record["wall_s"] = round(self._wall_before_s + time.monotonic() - self._began, 3)
            record["peak_rss_mb"] = round(max(self._peak_before_mb, self._peak_rss_mb), 1)

        self._run.update(change)


def _require_parent(config: RunConfig, run: RunFolder) -> None:
    for name in inherited(config.model_dump()):
        if not run.source(name).is_done():
            raise RunError(
                f"stage {name} of parent run {config.parent!r} is not done",
                file=run.source(name).path,
                field="parent",
                fix="Run the parent's config first.",
            )


def _failure(child: Child) -> RunError:
    if child.exit_code is not None and child.exit_code < 0:
        number = signal.Signals(-child.exit_code)
        problem = f"stage {child.name} was killed by {number.name}"
        if number == signal.SIGKILL:
            less = next(stage.less_memory for stage in STAGES if stage.name == child.name)
            return RunError(f"{problem} (out of memory?)", fix=f"{less} Its log: {child.log}")
    else:
        problem = f"stage {child.name} failed: {child.last_line().removeprefix('error: ').rstrip('.')}"
    return RunError(problem, fix=f"Its log: {child.log}")


def _duration(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@contextmanager
def _signals_raise() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        # A second signal while children end would tear that apart.
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(signal.Signals(number))

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

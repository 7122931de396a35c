"""The real command line with stages that train nothing: what a pipeline test starts as its children.

$FAKE_STAGES is a JSON object of stage -> behaviour: "fail" (a user's error), "crash" (a bug), "memory" (ran out of it),
"wait" (until a file `go` lies in the run folder), "hang" (ignores SIGTERM), "kill" (SIGKILLs itself), "silent" (ends
without a result);
stages not named take no time. Each stage adds `+name` and `-name` lines to order.txt of the run folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType

from text2sql_rl import pipeline
from text2sql_rl.cli import main
from text2sql_rl.config import RunConfig
from text2sql_rl.errors import DataError
from text2sql_rl.runs import RunFolder


def note(run: RunFolder, line: str) -> None:
    with (run.path / "order.txt").open("a") as file:
        file.write(f"{line}\n")


def act(name: str, config: RunConfig, run: RunFolder) -> None:
    stage = run.stage(name)
    stage.start()
    note(run, f"+{name}")
    stage.progress(1, 2, "half way")
    behaviour = json.loads(os.environ.get("FAKE_STAGES", "{}")).get(name, "")
    if behaviour == "fail":
        raise DataError("row 7 has no gold", file="data/train/rl.jsonl", field="gold_sql", fix="Add it.")
    if behaviour == "crash":
        raise ZeroDivisionError("a bug")
    if behaviour == "memory":
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes\nC++ frames")
    if behaviour == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "silent":
        return
    if behaviour == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        helper = subprocess.Popen(["sleep", "60"])
        (run.path / "helper.pid").write_text(str(helper.pid))
    while behaviour in ("wait", "hang") and not (run.path / "go").exists():
        time.sleep(0.02)
    note(run, f"-{name}")
    stage.finish({"summary": f"threads {os.environ['OMP_NUM_THREADS']}"})


def write_report(run: RunFolder, findings: object = None, beside: object = ()) -> None:
    note(run, "+report")
    stage = run.stage("report")
    if not stage.is_done():
        stage.start()
        stage.finish({"summary": "better by half"})
    note(run, "-report")


def fakes() -> dict[str, ModuleType]:
    """The modules that stand in for the rooms which train, evaluate and report."""
    modules = {name: ModuleType(name) for name in ("learn", "learn.stages", "learn.golds", "evaluate", "report")}
    for stage in pipeline.STAGES:
        room, _, function = stage.work.removeprefix("text2sql_rl.").partition(":")
        if room.startswith("learn"):
            setattr(modules[room], function, partial(act, stage.name))
    modules["evaluate"].evaluate_stage = lambda config, run, source: act(f"evaluate_{source}", config, run)  # type: ignore[attr-defined]
    modules["report"].write_report = write_report  # type: ignore[attr-defined]
    modules["report"].run_numbers = lambda run, *_, **__: {"run": run.name}  # type: ignore[attr-defined]
    modules["report"].report_tables = lambda run: f"the tables of {run.name}"  # type: ignore[attr-defined]
    return {f"text2sql_rl.{name}": module for name, module in modules.items()}


def run_pipeline() -> Callable[..., None]:
    """The real pipeline, whose children are this program."""
    return partial(pipeline.run_pipeline, program=(sys.executable, __file__))


if __name__ == "__main__":
    sys.modules.update(fakes())
    main()

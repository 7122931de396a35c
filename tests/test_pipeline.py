"""The pipeline: order, skipping, failing, stopping and going on. Its stages are fakes that take no time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.console import Console

from tests.run_config import CONTENT, write_config
from text2sql_rl.config import RunConfig, load_config
from text2sql_rl.errors import RunError
from text2sql_rl.pipeline import STAGES, plan, run_pipeline, run_stage
from text2sql_rl.pipeline.children import tree_rss_mb
from text2sql_rl.pipeline.stages import find
from text2sql_rl.pipeline.watch import Bars, latest
from text2sql_rl.runs import RunFolder

FAKE = (sys.executable, str(Path(__file__).with_name("fake_program.py")))
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _environment(content: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXT2SQL_MIN_FREE_GB", "0")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("text2sql_rl.pipeline.schedule._POLL_S", 0.02)


def behave(monkeypatch: pytest.MonkeyPatch, **behaviour: str) -> None:
    monkeypatch.setenv("FAKE_STAGES", json.dumps(behaviour))


def run_all(path: Path, *, fresh: bool = False) -> tuple[RunFolder, str]:
    config = load_config(path)
    run = RunFolder(config.runs / config.name)
    run.create_or_open(config.model_dump(mode="json"))
    output = StringIO()
    run_pipeline(config, run, [str(path)], Console(file=output, width=200), program=FAKE)
    return run, output.getvalue()


def order(run: RunFolder) -> list[str]:
    return (run.path / "order.txt").read_text().split()


# ---- golden ------------------------------------------------------------------------------------------------


def test_the_whole_plan() -> None:
    stages = {stage.name: stage.needs for stage in plan(RunConfig.model_validate(CONTENT))}
    assert stages == {
        "base": (),
        "sft": ("base",),
        "golds": (),
        "difficulty": ("sft", "golds"),
        "warmup": ("difficulty",),
        "difficulty_warm": ("warmup",),
        "grpo": ("difficulty_warm",),
        "control": ("sft",),
        "evaluate_base": ("base",),
        "evaluate_sft": ("sft",),
        "evaluate_warmup": ("warmup",),
        "evaluate_grpo": ("grpo",),
        "evaluate_control": ("control",),
        "report": ("evaluate_base", "evaluate_sft", "evaluate_warmup", "evaluate_grpo", "evaluate_control"),
    }


def test_without_warmup_and_control_grpo_follows_difficulty() -> None:
    config = RunConfig.model_validate({**CONTENT, "warmup": None, "control": None})
    stages = {stage.name: stage.needs for stage in plan(config)}
    assert stages["grpo"] == ("difficulty",)
    assert not {"warmup", "difficulty_warm", "control", "evaluate_warmup", "evaluate_control"} & set(stages)
    assert {"evaluate_base", "evaluate_sft", "evaluate_grpo"} <= set(stages["report"]) <= set(stages)


def test_a_child_run_takes_base_and_sft_from_its_parent() -> None:
    stages = {stage.name: stage.needs for stage in plan(RunConfig.model_validate({**CONTENT, "parent": "tiny"}))}
    assert not {"base", "sft", "evaluate_base", "evaluate_sft"} & set(stages)
    assert stages["difficulty"] == stages["control"] == ()


def test_a_child_run_may_start_from_its_parents_warm_up_and_ask_without_a_band() -> None:
    child = {**CONTENT, "parent": "tiny", "parent_stage": "warmup"}
    stages = {stage.name: stage.needs for stage in plan(RunConfig.model_validate(child))}
    assert set(stages) == {"difficulty_warm", "grpo", "control", "evaluate_grpo", "evaluate_control", "report"}
    assert (stages["difficulty_warm"], stages["grpo"]) == ((), ("difficulty_warm",))
    asks_all = {**CONTENT["grpo"], "questions": "all"}
    alone = {stage.name: stage.needs for stage in plan(RunConfig.model_validate({**child, "grpo": asks_all}))}
    assert set(stages) - set(alone) == {"difficulty_warm"}
    assert alone["grpo"] == ()
    cold = RunConfig.model_validate({**CONTENT, "warmup": None, "grpo": asks_all})
    assert {stage.name: stage.needs for stage in plan(cold)}["grpo"] == ("sft", "golds")
    with pytest.raises(ValidationError, match="parent_stage is warmup, so add this section"):
        RunConfig.model_validate({**child, "warmup": None})


def test_all_stages_run_once_and_what_they_cost_is_recorded(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    run, output = run_all(path)
    assert {line[1:] for line in order(run)} == {stage.name for stage in STAGES}
    assert "grpo              started" in output
    assert "threads 1" in output
    record = run.read()
    assert set(record["stages"]) == {stage.name for stage in STAGES}
    assert all(cost["wall_s"] > 0 and cost["peak_rss_mb"] > 5 for cost in record["stages"].values())
    assert all(0 < cost["cpu_s"] < cost["wall_s"] * 2 for cost in record["stages"].values())
    assert record["wall_s"] > 0
    assert record["peak_rss_mb"] > 10
    before = order(run)
    refuse_disorder(before)
    again, output = run_all(path)
    assert order(again) == before
    assert output == ""


def refuse_disorder(lines: list[str]) -> None:
    """No stage begins before what it needs has ended, and two at most run at once."""
    needs = {stage.name: stage.needs for stage in STAGES}
    running: set[str] = set()
    ended: set[str] = set()
    for line in lines:
        if line[0] == "+":
            assert set(needs[line[1:]]) <= ended
            running.add(line[1:])
        else:
            running.remove(line[1:])
            ended.add(line[1:])
        assert len(running) <= 2


def test_a_child_run_after_its_parent(tmp_path: Path) -> None:
    run_all(write_config(tmp_path, warmup=None, control=None))
    child, _ = run_all(write_config(tmp_path, name="other", parent="tiny", warmup=None, control=None))
    assert {line[1:] for line in order(child)} == {"difficulty", "grpo", "evaluate_grpo", "report"}


def test_a_child_run_from_the_warm_up_of_its_parent(tmp_path: Path) -> None:
    run_all(write_config(tmp_path, control=None, warmup=None))
    with pytest.raises(RunError, match="stage warmup of parent run 'tiny' is not done"):
        run_all(write_config(tmp_path, name="other", parent="tiny", parent_stage="warmup", control=None))


# ---- properties --------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(warmup=st.booleans(), control=st.booleans(), parent=st.booleans())
def test_every_plan_can_be_run_and_ends_with_the_report(warmup: bool, control: bool, parent: bool) -> None:
    changes = {} if warmup else {"warmup": None}
    changes |= {} if control else {"control": None}
    stages = plan(RunConfig.model_validate({**CONTENT, **changes, "parent": "tiny" if parent else None}))
    done: set[str] = set()
    while ready := [stage for stage in stages if stage.name not in done and set(stage.needs) <= done]:
        done.add(ready[0].name)
    assert done == {stage.name for stage in stages}
    assert not any("report" in stage.needs for stage in stages)
    assert all(stage.name in stages[-1].needs for stage in stages if stage.source)


# ---- faults ------------------------------------------------------------------------------------------------


def test_a_failing_stage_stops_the_run_with_its_own_words_and_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, difficulty="fail", control="wait")
    path = write_config(tmp_path)
    with pytest.raises(RunError) as caught:
        run_all(path)
    assert "stage difficulty failed: data/train/rl.jsonl: gold_sql: row 7 has no gold. Add it." in str(caught.value)
    assert str(caught.value).endswith("difficulty/log.txt")
    run = RunFolder(tmp_path / "runs" / "tiny")
    assert "-control" not in order(run)
    behave(monkeypatch)
    run_all(path)
    assert order(run).count("-sft") == 1
    assert order(run).count("-difficulty") == 1


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("crash", "stage base failed: ZeroDivisionError: a bug"),
        ("kill", "stage base was killed by SIGKILL (out of memory?). Lower sampling.batch, or set"),
        ("memory", "stage base failed: stage base ran out of memory (DefaultCPUAllocator: can't allocate memory:"),
        ("silent", "stage base failed: stage base ended without a result"),
    ],
)
def test_whatever_ends_a_stage_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, words: str
) -> None:
    behave(monkeypatch, base=behaviour)
    with pytest.raises(RunError) as caught:
        run_all(write_config(tmp_path))
    assert words in str(caught.value).replace(str(tmp_path), "").replace("/runs/tiny/stages/base: ", "")


def test_a_child_that_ignores_the_end_is_killed_with_its_helpers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, base="hang")
    run = RunFolder(tmp_path / "runs" / "tiny")
    with pipeline(write_config(tmp_path)) as process:
        eventually(lambda: (run.path / "helper.pid").exists())
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=20) == 143
    helper = int((run.path / "helper.pid").read_text())
    eventually(lambda: not alive(helper))


@contextmanager
def pipeline(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A whole pipeline as a process of its own, with a short grace."""
    code = (
        "import sys; from pathlib import Path; from rich.console import Console\n"
        "from text2sql_rl.config import load_config; from text2sql_rl.runs import RunFolder\n"
        "from text2sql_rl.pipeline import run_pipeline, schedule\n"
        "schedule._GRACE_S = 0.5\n"
        "path, *program = sys.argv[1:]\n"
        "config = load_config(Path(path)); run = RunFolder(config.runs / config.name)\n"
        "run.create_or_open(config.model_dump(mode='json'))\n"
        "run_pipeline(config, run, [path], Console(), program=program)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path), *FAKE], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def eventually(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def child_of(run: RunFolder, stage: str) -> int:
    started = run.path / "stages" / stage / "started.json"
    eventually(started.exists)
    return int(json.loads(started.read_text())["pid"])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_children_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    behave(monkeypatch, sft="wait")
    path = write_config(tmp_path)
    run = RunFolder(tmp_path / "runs" / "tiny")
    with pipeline(path) as process:
        pid = child_of(run, "sft")
        eventually(lambda: "+sft" in order(run))
        os.kill(process.pid, number)
        assert process.wait(timeout=20) == code
        assert not alive(pid)
    assert not run.stage("sft").is_done()
    (run.path / "go").touch()
    run_all(path)
    assert order(run).count("-base") == 1
    assert order(run).count("-sft") == 1


def test_no_child_outlives_a_pipeline_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behave(monkeypatch, base="wait")
    path = write_config(tmp_path)
    run = RunFolder(tmp_path / "runs" / "tiny")
    with pipeline(path) as process:
        pid = child_of(run, "base")
        process.kill()
        eventually(lambda: not alive(pid))
    (run.path / "go").touch()
    run_all(path)
    assert run.stage("report").is_done()


def test_two_pipelines_never_work_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behave(monkeypatch, base="wait")
    path = write_config(tmp_path)
    run = RunFolder(tmp_path / "runs" / "tiny")
    with pipeline(path):
        child_of(run, "base")
        with pytest.raises(RunError, match="run tiny is in use by another process"), run.lock().held():
            pass


def test_an_unfinished_parent_is_refused_at_once(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path))
    RunFolder(config.runs / config.name).create_or_open(config.model_dump(mode="json"))
    with pytest.raises(RunError, match="stage base of parent run 'tiny' is not done"):
        run_all(write_config(tmp_path, name="other", parent="tiny"))


def test_a_stage_alone_needs_those_before_it(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path))
    run = RunFolder(config.runs / config.name)
    run.create_or_open(config.model_dump(mode="json"))
    with pytest.raises(RunError, match="stage grpo needs stage difficulty_warm"):
        run_stage(find(config, "grpo"), config, run)


def test_a_stage_that_is_off_is_refused() -> None:
    config = RunConfig.model_validate({**CONTENT, "warmup": None, "parent": "p"})
    with pytest.raises(RunError, match="stage warmup is off in config 'tiny'"):
        find(config, "warmup")
    with pytest.raises(RunError, match="stage sft comes from parent run 'p'"):
        find(config, "sft")


# ---- watching ----------------------------------------------------------------------------------------------


def test_bars_show_each_running_stage_with_its_latest_measurement(tmp_path: Path) -> None:
    output = StringIO()
    stage = RunFolder(tmp_path / "one").stage("grpo")
    with Bars(Console(file=output, force_terminal=True, width=120)) as bars:
        bars.started(stage)
        bars.refresh([stage])
        stage.progress(3, 10, "reward 0.61 [of 1]")
        bars.refresh([stage])
        bars._progress.refresh()
        bars.ended(stage, "done in 0:03")
    assert "reward 0.61 [of 1]" in output.getvalue()
    assert "done in 0:03" in output.getvalue()
    assert latest(stage) == (3, 10, "reward 0.61 [of 1]")


def test_memory_of_a_tree_counts_its_children() -> None:
    alone_mb = tree_rss_mb(os.getpid())
    code = "import time; block = bytearray(64 << 20); print('ready', flush=True); time.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert tree_rss_mb(os.getpid()) > alone_mb + 64
        child.kill()

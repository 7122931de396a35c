"""Run folders: what they promise to whoever reads them, and what they do when something goes wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import run_config
from text2sql_rl.config import RunConfig
from text2sql_rl.errors import ConfigError, RunError
from text2sql_rl.runs import DiskGuard, RunFolder, StageFolder, write_json
from text2sql_rl.runs.origin import differences

CONFIG = {"name": "one", "seed": 7, "note": "", "runs": "runs", "parent": None, "grpo": {"steps": 10, "beta": 0.0}}


@pytest.fixture
def run(tmp_path: Path, content: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "runs" / "one", min_free_gb=0.0)
    folder.create_or_open(CONFIG)
    return folder


# ---- golden ------------------------------------------------------------------------------------------------


def test_run_json_tells_what_made_the_run(run: RunFolder) -> None:
    record = run.read()
    assert record["config"] == CONFIG
    assert record["seed"] == 7
    assert record["sessions"][0]["argv"] == sys.argv
    assert record["sessions"][0]["versions"]["duckdb"]
    assert list(record["content"]["databases"]) == ["stable"]
    assert list(record["content"]["data"]) == ["train/rl.jsonl"]
    assert list(record["content"]["rules"]) == ["strict-v1.yaml"]


def test_a_stage_is_done_only_after_its_result(run: RunFolder) -> None:
    stage = run.stage("sft")
    stage.start()
    assert not run.stage("sft").is_done()
    stage.append_metrics({"step": 1, "loss": float("nan")})
    stage.finish({"accuracy": 0.5})
    assert run.stage("sft").is_done()
    assert run.stage("sft").result() == {"accuracy": 0.5}
    assert run.stage("sft").metrics() == [{"step": 1, "loss": None}]


def test_an_unfinished_stage_has_no_result(run: RunFolder) -> None:
    with pytest.raises(RunError, match="stage grpo is not done"):
        run.stage("grpo").result()


def test_a_done_stage_is_not_started_again(run: RunFolder) -> None:
    stage = run.stage("sft")
    stage.start()
    stage.finish({})
    with pytest.raises(RunError, match="done already"):
        run.stage("sft").start()


def test_the_same_config_goes_on_and_notes_no_second_session(run: RunFolder) -> None:
    run.create_or_open({**CONFIG, "note": "another purpose", "runs": "elsewhere"})
    assert len(run.read()["sessions"]) == 1


def test_inherited_stages_are_read_from_the_parent(run: RunFolder) -> None:
    child = RunFolder(run.path.parent / "two", min_free_gb=0.0)
    child.create_or_open({**CONFIG, "name": "two", "parent": "one"})
    assert child.source("sft").path == run.path / "stages" / "sft"
    assert child.source("grpo").path == child.path / "stages" / "grpo"


def test_time_of_a_killed_attempt_counts_until_its_last_sign(run: RunFolder) -> None:
    stage = run.stage("sft")
    stage.start()
    began = time.time() - 100
    write_json(stage.path / "started.json", {"unix_s": began, "attempt": 1, "spent_s": 5.0})
    for name, age_s in (("started.json", 100), ("progress.json", 60)):
        (stage.path / name).touch()
        os.utime(stage.path / name, (began + 100 - age_s,) * 2)
    stage._lock.release()
    again = run.stage("sft")
    again.start()
    assert again.wall_s() == pytest.approx(45.0, abs=1.0)


# ---- properties --------------------------------------------------------------------------------------------

_rows = st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=3), max_size=5)


@settings(max_examples=40, deadline=None)
@given(rows=_rows, torn=st.integers(min_value=1, max_value=40))
def test_a_torn_last_line_costs_that_line_only(rows: list[dict[str, object]], torn: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        stage = StageFolder(Path(folder) / "sft", 0.0)
        for row in rows:
            stage.append_metrics(row)
        stage.append_metrics({"last": "x" * 50})
        path = stage.path / "metrics.jsonl"
        os.truncate(path, path.stat().st_size - torn)
        assert stage.metrics() == rows
        stage.start()
        stage.append_metrics({"after": 1})
        assert stage.metrics() == [*rows, {"after": 1}]


_config = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    before=st.dictionaries(st.sampled_from("ab"), _config, max_size=2),
    after=st.dictionaries(st.sampled_from("ab"), _config, max_size=2),
)
def test_differences_are_none_exactly_for_equal_configs(before: dict[str, object], after: dict[str, object]) -> None:
    assert (not differences(before, after)) == (before == after)


# ---- faults ------------------------------------------------------------------------------------------------


def test_a_run_begun_before_a_field_existed_goes_on_with_its_default(tmp_path: Path, content: Path) -> None:
    snapshot = RunConfig.model_validate(run_config.CONTENT).model_dump(mode="json")
    older = json.loads(json.dumps(snapshot))
    del older["grpo"]["advantage"]["truncated"]
    folder = RunFolder(tmp_path / "runs" / "tiny", min_free_gb=0.0)
    folder.create_or_open(older)
    folder.create_or_open(snapshot)
    snapshot["grpo"]["advantage"]["truncated"] = "exclude_from_loss"
    with pytest.raises(RunError, match=r"grpo.advantage.truncated: was made with 'count'"):
        folder.create_or_open(snapshot)


def test_another_config_is_refused_with_the_key_and_both_values(run: RunFolder) -> None:
    with pytest.raises(RunError, match=r"grpo\.beta: was made with 0\.0, the config now says 0\.1 \(also grpo\.steps"):
        run.create_or_open({**CONFIG, "grpo": {"steps": 11, "beta": 0.1}})


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("databases/stable/rows/horse.csv", "^databases/stable: has changed since run one began"),
        ("data/train/rl.jsonl", r"^data/train/rl\.jsonl: has changed"),
        ("rewards/rules/strict-v1.yaml", r"^rewards/rules/strict-v1\.yaml: has changed"),
    ],
)
def test_changed_content_is_refused(run: RunFolder, content: Path, file: str, told: str) -> None:
    (content / file).write_text("changed\n")
    with pytest.raises(RunError, match=told):
        run.create_or_open(CONFIG)


def test_new_content_and_prose_are_not_a_change(run: RunFolder, content: Path) -> None:
    (content / "rewards/rules/later.yaml").write_text("name: later\n")
    (content / "databases/stable/ABOUT.md").write_text("A stable.\n")
    run.create_or_open(CONFIG)


def test_a_further_release_in_lock_is_no_change(tmp_path: Path, content: Path) -> None:
    lock, run = content / "rewards/rules/LOCK", RunFolder(tmp_path / "runs" / "two", min_free_gb=0.0)
    lock.write_text("0 strict-v1.yaml\n")
    run.create_or_open(CONFIG)
    lock.write_text("0 strict-v1.yaml\n1 later.yaml\n")
    run.create_or_open(CONFIG)


def test_a_missing_parent_is_refused_before_anything_is_written(tmp_path: Path, content: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "child")
    with pytest.raises(RunError, match="parent run 'gone' does not exist"):
        folder.create_or_open({**CONFIG, "parent": "gone"})
    assert not folder.path.exists()


def test_a_run_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path, content: Path) -> None:
    (tmp_path / "runs").write_text("a file where a folder should be")
    with pytest.raises(RunError, match="refuses access"):
        RunFolder(tmp_path / "runs" / "one").create_or_open(CONFIG)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1}'])
def test_a_damaged_run_json_is_refused(run: RunFolder, text: str) -> None:
    (run.path / "run.json").write_text(text)
    with pytest.raises(RunError, match=r"run\.json"):
        run.create_or_open(CONFIG)


def test_too_little_disk_is_told_before_a_stage_starts(tmp_path: Path) -> None:
    stage = StageFolder(tmp_path / "sft", min_free_gb=1e9)
    with pytest.raises(RunError, match=r"may need 1e\+09 GB"):
        stage.start()
    assert not (stage.path / "started.json").exists()


def test_the_least_free_disk_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXT2SQL_MIN_FREE_GB", "1e9")
    with pytest.raises(RunError, match=r"TEXT2SQL_MIN_FREE_GB"):
        RunFolder(tmp_path / "one").stage("sft").start()
    monkeypatch.setenv("TEXT2SQL_MIN_FREE_GB", "much")
    with pytest.raises(RunError, match="'much' is not a number"):
        RunFolder(tmp_path / "one")


def test_a_disk_that_fills_while_writing_leaves_nothing_half_written(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = run.stage("sft")
    stage.start()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="disk is full"):
        stage.finish({"accuracy": 1.0})
    assert not stage.is_done()
    assert sorted(path.name for path in stage.path.iterdir()) == ["lock", "started.json"]


def test_a_writer_that_hides_the_full_disk_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("text2sql_rl.runs.files.free_bytes", lambda path: 0)
    with pytest.raises(RunError, match="disk is full"), DiskGuard(tmp_path):
        raise RuntimeError("writer failed")


def test_other_failures_pass_the_guard_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a bug"), DiskGuard(tmp_path):
        raise RuntimeError("a bug")


def test_rewinding_drops_the_steps_that_will_be_measured_again(run: RunFolder) -> None:
    stage = run.stage("grpo")
    for step in range(1, 6):
        stage.append_metrics({"step": step})
    stage.rewind_metrics(3)
    assert [row["step"] for row in stage.metrics()] == [1, 2, 3]


_HOLDER = """
import sys, time
from pathlib import Path
from text2sql_rl.runs import StageFolder
stage = StageFolder(Path(sys.argv[1]), 0.0)
stage.start()
print("held", flush=True)
time.sleep(60)
"""


def test_two_processes_never_run_one_stage_and_a_killed_one_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "sft"
    with subprocess.Popen([sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(RunError, match=f"in use by another process .id {holder.pid}."):
                StageFolder(path, 0.0).start(wait_s=0.0)
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
    stage = StageFolder(path, 0.0)
    stage.start()
    assert json.loads((path / "started.json").read_text())["attempt"] == 2


_UPDATER = """
import sys
from pathlib import Path
from text2sql_rl.runs import RunFolder
run = RunFolder(Path(sys.argv[1]), 0.0)
for index in range(20):
    run.update(lambda record: record["stages"].update({f"{sys.argv[2]}{index}": 1}))
"""


def test_updates_of_run_json_from_two_processes_are_all_kept(run: RunFolder) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", _UPDATER, str(run.path), name]) for name in "ab"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert len(run.read()["stages"]) == 40


def test_a_run_is_removed_but_no_other_folder(run: RunFolder, tmp_path: Path) -> None:
    run.remove()
    assert not run.path.exists()
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").touch()
    with pytest.raises(RunError, match="not a run folder"):
        RunFolder(other).remove()
    assert (other / "cat.jpg").exists()


def test_a_folder_that_never_became_a_run_can_be_started_over(
    tmp_path: Path, content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "runs" / "one", min_free_gb=0.0)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match="disk is full"):
            folder.create_or_open(CONFIG)
    assert not (folder.path / "run.json").exists()
    folder.remove()
    folder.create_or_open(CONFIG)
    assert folder.read()["config"] == CONFIG


def test_without_content_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="no folder with databases"):
        RunFolder(tmp_path / "runs" / "one").create_or_open(CONFIG)
    assert not (tmp_path / "runs").exists()


def test_a_run_in_use_is_not_removed(run: RunFolder) -> None:
    stage = run.stage("sft")
    stage.start()
    with pytest.raises(RunError, match="stage sft is in use"):
        run.remove()
    assert (run.path / "run.json").exists()


@pytest.mark.parametrize("content", ["{}", '{"result": 1}'])
def test_a_done_stage_without_a_result_is_one_clear_error(tmp_path: Path, content: str) -> None:
    stage = StageFolder(tmp_path / "sft", 0.0)
    stage.path.mkdir()
    (stage.path / "done.json").write_text(content)
    with pytest.raises(RunError, match=r"done\.json: holds no result.*--fresh"):
        stage.result()


def test_a_measurement_that_is_no_object_is_one_clear_error(tmp_path: Path) -> None:
    stage = StageFolder(tmp_path / "sft", 0.0)
    stage.path.mkdir()
    (stage.path / "metrics.jsonl").write_text('[1]\n{"step": 1}\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl: holds a line that is no JSON object"):
        stage.metrics()

"""Folders for made rows: where they lie, that they go with their owner, and that a killed owner's is cleared away."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from text2sql_rl.instances import scratch

OWNER = """
import sys, time
from pathlib import Path
from text2sql_rl.instances import scratch
scratch.SHARED_MEMORY = Path(sys.argv[1])
one = scratch.Scratch()
(one.path / "rows.duckdb").write_text("rows")
print(one.path, flush=True)
time.sleep(60)
"""


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(scratch, "SHARED_MEMORY", tmp_path)
    return tmp_path


def test_small_shared_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch, memory: Path) -> None:
    for free, inside in ((64 << 20, False), (1 << 30, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        one = scratch.Scratch()
        assert (one.path.parent == memory) is inside
        one.close()
        assert not one.path.exists()


def test_it_goes_with_its_owner(memory: Path) -> None:
    one = scratch.Scratch()
    (one.path / "rows.duckdb").write_text("rows")
    del one
    assert list(memory.iterdir()) == []


def test_a_killed_owners_folder_goes_and_a_living_ones_stays(memory: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(memory)]
    owners = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        left, kept = (Path(owner.stdout.readline().strip()) for owner in owners if owner.stdout)
        owners[0].send_signal(signal.SIGKILL)
        owners[0].wait()
        assert left.is_dir()
        scratch.Scratch().close()
        assert left.is_dir()  # too young to be sure of
        for folder in (left, kept):
            os.utime(folder, (0, 0))
        scratch.Scratch().close()
        assert not left.exists()
        assert (kept / "rows.duckdb").is_file()
    finally:
        for owner in owners:
            owner.kill()
            owner.communicate()

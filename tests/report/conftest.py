"""A finished run for the tests of the report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.report.fake_run import make_run
from text2sql_rl.runs import RunFolder


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, made once; tests get a copy."""
    root = tmp_path_factory.mktemp("made")
    for name in ("databases", "data", "rewards"):
        (root / name).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXT2SQL_ROOT", str(root))
        return make_run(root / "runs").path


@pytest.fixture
def run(tmp_path: Path, made: Path, content: Path) -> RunFolder:
    shutil.copytree(made, tmp_path / "runs" / "demo")
    return RunFolder(tmp_path / "runs" / "demo", min_free_gb=0.0)

"""One content root and one untrained policy for all tests of this room; nothing trains on them in place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="package")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A content root that the package's own doors find."""
    from tests.learn.tiny import write_content

    path = write_content(tmp_path_factory.mktemp("content"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXT2SQL_ROOT", str(path))
        patch.setenv("TEXT2SQL_MIN_FREE_GB", "0")
        yield path


@pytest.fixture(scope="package")
def content(root: Path) -> Any:
    from text2sql_rl.content import open_content

    return open_content(root)


@pytest.fixture(scope="package")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.learn.tiny import make_policy

    path = tmp_path_factory.mktemp("policy")
    make_policy(path)
    return path

"""What every test stands on: no network, one thread, and content folders of its own where it asks for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false")
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A content root of one database, one question file and one rule file."""
    root = tmp_path / "content"
    for name, text in {
        "databases/stable/schema.sql": "CREATE TABLE horse (id INTEGER);\n",
        "databases/stable/rows/horse.csv": "id\n1\n",
        "data/train/rl.jsonl": "{}\n",
        "rewards/rules/strict-v1.yaml": (REPOSITORY / "rewards/rules/binary-v1.yaml").read_text(),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setenv("TEXT2SQL_ROOT", str(root))
    return root

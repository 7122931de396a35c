"""One stage's folder: begun, how far, measured, done.

In: a stage's name and result. Out: its files, written so that a killed stage is never taken for a done one, and its
lock, so that two processes never run the same stage. Not here: checkpoints, rollouts and predictions, which a stage
writes itself under `path`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.runs.files import DiskGuard, Lock, finite, free_bytes, read_json, write_json

# A killed parent's child needs a moment to end before its stage can be taken over.
_LOCK_WAIT_S = 5.0


def now() -> str:
    """The present second in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class StageFolder:
    """The folder of one stage of one run.

    Args:
        path: where it is; made on first use.
        min_free_gb: free disk that `start` asks for, in 10^9 bytes.
    """

    def __init__(self, path: Path, min_free_gb: float) -> None:
        self.path, self.name = path, path.name
        self._min_free_gb = min_free_gb
        self._lock = Lock(path / "lock", f"stage {path.name}")
        self._began = 0.0
        self._spent_s = 0.0

    def is_done(self) -> bool:
        """Whether the stage has ended with a result."""
        return (self.path / "done.json").is_file()

    def start(self, wait_s: float = _LOCK_WAIT_S) -> None:
        """Take the stage for this process and note that it began; repairs what a killed attempt left.

        Raises:
            RunError: it is done, another process runs it, it cannot be written, or the disk has too little space.
        """
        if self.is_done():
            raise RunError(f"stage {self.name} is done already", file=self.path, fix="Start the run over with --fresh.")
        self._lock.acquire(wait_s)
        free_gb = free_bytes(self.path) / 1e9
        if free_gb < self._min_free_gb:
            raise RunError(
                f"{free_gb:.1f} GB are free and stage {self.name} may need {self._min_free_gb:g} GB",
                file=self.path,
                fix="Free some space, or set TEXT2SQL_MIN_FREE_GB if you know that less will do.",
            )
        self._spent_s, attempt = 0.0, 1
        if (self.path / "started.json").is_file():
            earlier = read_json(self.path / "started.json")
            attempt = int(earlier["attempt"]) + 1
            self._spent_s = float(earlier["spent_s"]) + max(0.0, self._last_sign() - float(earlier["unix_s"]))
        self._repair_metrics()
        self._began = time.time()
        write_json(
            self.path / "started.json",
            {"started": now(), "unix_s": self._began, "attempt": attempt, "spent_s": self._spent_s, "pid": os.getpid()},
        )

    def wall_s(self) -> float:
        """Seconds this stage has taken, those of earlier attempts up to their last sign of life included."""
        return self._spent_s + (time.time() - self._began if self._began else 0.0)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Make the stage done, with its result; the last thing a stage does. Key `summary` is shown to people.

        Raises:
            RunError: the disk refuses; the stage is then not done.
        """
        write_json(
            self.path / "done.json", {"finished": now(), "wall_s": round(self.wall_s(), 3), "result": dict(result)}
        )
        self._lock.release()

    def result(self) -> dict[str, Any]:
        """What `finish` was given.

        Raises:
            RunError: the stage is not done.
        """
        if not self.is_done():
            raise RunError(f"stage {self.name} is not done", file=self.path, fix="Run it first.")
        result = read_json(self.path / "done.json").get("result")
        if not isinstance(result, dict):
            raise RunError(
                "holds no result", file=self.path / "done.json", fix="Restore it, or start the run over with --fresh."
            )
        return result

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add one line to metrics.jsonl. A kill can tear the last line only; the next `start` removes that.

        Raises:
            RunError: the disk refuses.
        """
        line = (json.dumps(finite(row), ensure_ascii=False, allow_nan=False) + "\n").encode()
        with DiskGuard(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / "metrics.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                while line:  # a nearly full disk takes a part, then refuses the rest
                    line = line[os.write(descriptor, line) :]
            finally:
                os.close(descriptor)

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl in the order written, without a torn last line."""
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return []
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        try:
            rows = [json.loads(line) for line in whole.splitlines() if line]
        except ValueError as error:
            raise RunError("holds a line that is not JSON", file=path, fix="Remove that line.") from error
        if not all(isinstance(row, dict) for row in rows):
            raise RunError("holds a line that is no JSON object", file=path, fix="Remove that line.")
        return rows

    def rewind_metrics(self, step: int) -> None:
        """Drop the rows after `step`: a stage that goes on from a checkpoint measures those steps again."""
        rows = [row for row in self.metrics() if row.get("step", 0) <= step]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        temporary = self.path / ".metrics.jsonl"
        with DiskGuard(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self.path / "metrics.jsonl")

    def progress(self, done: int, total: int, text: str = "") -> None:
        """Tell whoever watches how far the stage is: `done` of `total` units, and its latest measurement."""
        temporary = self.path / ".progress.json"
        with DiskGuard(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps({"done": done, "total": total, "text": text}), encoding="utf-8")
            temporary.replace(self.path / "progress.json")

    def guard(self) -> DiskGuard:
        """A block whose disk faults become one RunError; around trainers, which write checkpoints by themselves."""
        return DiskGuard(self.path)

    def _last_sign(self) -> float:
        signs = (self.path / name for name in ("started.json", "progress.json", "metrics.jsonl"))
        return max(path.stat().st_mtime for path in signs if path.is_file())

    def _repair_metrics(self) -> None:
        path = self.path / "metrics.jsonl"
        if path.is_file() and not (content := path.read_bytes()).endswith(b"\n") and content:
            with DiskGuard(path):
                os.truncate(path, content.rfind(b"\n") + 1)

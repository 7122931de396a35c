"""A run's folder: which config and content made it, its stages, its parent.

In: a path and a resolved config. Out: run.json and the stages' folders. A folder made by another config or from other
content is refused, so that one run's numbers never mix two origins. Not here: deciding which stage runs when.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from text2sql_rl.config import RunConfig, content_root
from text2sql_rl.errors import RunError
from text2sql_rl.runs import origin
from text2sql_rl.runs.files import DiskGuard, Lock, finite, read_json, write_json
from text2sql_rl.runs.stage import StageFolder, now

# What a run takes from its parent, by the last stage that it takes.
_INHERITED = {
    "sft": ("base", "sft", "evaluate_base", "evaluate_sft", "golds"),
    "warmup": (
        "base", "sft", "evaluate_base", "evaluate_sft", "golds", "difficulty", "warmup", "evaluate_warmup",
    ),
}  # fmt: skip
_FORMAT = 1
_KEYS: Mapping[str, type] = {"created": str, "config": dict, "content": dict, "sessions": list, "stages": dict}
_LOCK = "run.lock"
_MIN_FREE_GB = 2.0
# These say where a run lies and what it is for; no number depends on them.
_FREE_KEYS = ("note", "runs")


class RunFolder:
    """The folder of one run.

    Args:
        path: where it is or will be; its last part is the run's name.
        min_free_gb: free disk that each stage asks for before it starts, in 10^9 bytes; $TEXT2SQL_MIN_FREE_GB
            where set, else 2.
    """

    def __init__(self, path: Path, min_free_gb: float | None = None) -> None:
        self.path, self.name = path, path.name
        self._file = path / "run.json"
        self._min_free_gb = read_min_free_gb() if min_free_gb is None else min_free_gb

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self._file.is_file()

    def create_or_open(self, config_snapshot: Mapping[str, Any]) -> None:
        """Make the folder for this config, or go on with it where the same config and content made it.

        Raises:
            RunError: another config or other content made it, its parent is missing, or it cannot be written.
        """
        if (parent := self._parent_of(config_snapshot)) and not parent._file.is_file():
            raise RunError(f"parent run {parent.name!r} does not exist", file=parent.path, field="parent",
                           fix="Run its config first, or correct the name.")  # fmt: skip
        root = content_root()
        content = origin.content_hashes(root)
        session = {"at": now(), "argv": sys.argv, "versions": origin.versions(), "git": origin.commit(root)}
        with self._writing():
            if not self._file.is_file():
                record = {
                    "format": _FORMAT, "name": self.name, "created": now(), "updated": now(),
                    "seed": config_snapshot.get("seed"), "config": dict(config_snapshot), "content": content,
                    "sessions": [session], "stages": {},
                }  # fmt: skip
                write_json(self._file, record)
                return
            record = self.read()
            self._refuse_other_config(record["config"], config_snapshot)
            self._refuse_other_content(record["content"], content)
            last = record["sessions"][-1]
            if any(last[key] != session[key] for key in ("versions", "git")):
                record["sessions"].append(session)
                write_json(self._file, {**record, "updated": now()})

    def read(self) -> dict[str, Any]:
        """The content of run.json.

        Raises:
            RunError: this is no run folder, its record is damaged, or of a version this code does not know.
        """
        record = read_json(self._file)
        if record.get("format") != _FORMAT:
            raise RunError(f"has format {record.get('format')!r}, not {_FORMAT}", file=self._file, field="format",
                           fix="Read it with the version of text2sql-rl that wrote it.")  # fmt: skip
        for key, kind in _KEYS.items():
            if not isinstance(record.get(key), kind) or (not record[key] and kind is list):
                raise RunError("is missing or damaged", file=self._file, field=key,
                               fix="Restore it, or start the run over with --fresh.")  # fmt: skip
        return record

    def update(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change run.json in one step; safe beside other processes that do the same.

        Raises:
            RunError: this is no run folder, or the disk refuses.
        """
        with self._writing():
            record = self.read()
            change(record)
            write_json(self._file, {**record, "updated": now()})

    def stage(self, name: str) -> StageFolder:
        """The folder of this run's stage `name`."""
        return StageFolder(self.path / "stages" / name, self._min_free_gb)

    @property
    def parent(self) -> RunFolder | None:
        """The run whose first stages this one starts from, if its config names one."""
        return self._parent_of(self.read()["config"])

    def source(self, name: str) -> StageFolder:
        """The folder where stage `name` of this run is to be read: its parent's for what it inherits."""
        config = self.read()["config"]
        parent = self._parent_of(config) if name in inherited(config) else None
        return parent.source(name) if parent else self.stage(name)

    def lock(self) -> Lock:
        """The lock of whoever runs the whole pipeline in this folder."""
        return Lock(self.path / "pipeline.lock", f"run {self.name}")

    def remove(self) -> None:
        """Delete the run, to start it over; a folder that is no run folder is left alone.

        Raises:
            RunError: it is in use, or something else lies there.
        """
        if not self.path.exists():
            return
        if not self._file.is_file() and {path.name for path in self.path.iterdir()} - {_LOCK}:
            raise RunError(
                "is not a run folder, so it is not deleted", file=self.path, fix="Give the run another name."
            )
        stages = sorted((self.path / "stages").iterdir()) if (self.path / "stages").is_dir() else []
        for lock in (self.lock(), *(Lock(stage / "lock", f"stage {stage.name}") for stage in stages)):
            lock.acquire()
            lock.release()
        with DiskGuard(self.path):
            shutil.rmtree(self.path)

    def _parent_of(self, config: Mapping[str, Any]) -> RunFolder | None:
        name = config.get("parent")
        return RunFolder(self.path.parent / name, self._min_free_gb) if name else None

    def _writing(self) -> Any:
        return Lock(self.path / _LOCK, f"run {self.name}").held(wait_s=10.0)

    def _refuse_other_config(self, before: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
        changed = origin.differences(_with_defaults(before), finite(snapshot))
        for key in _FREE_KEYS:
            changed.pop(key, None)
        if changed:
            field, (old, new) = next(iter(changed.items()))
            others = f" (also {', '.join(list(changed)[1:])})" if len(changed) > 1 else ""
            raise RunError(
                f"was made with {old!r}, the config now says {new!r}{others}",
                file=self._file,
                field=field,
                fix="Give the run another name, or start it over with --fresh.",
            )

    def _refuse_other_content(self, before: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        for kind, folder in origin.CONTENT.items():
            for name, sha256 in before[kind].items():  # what came since then was never read by this run
                # LOCK grows with every release, and the rules it lists have hashes of their own here.
                if name != "LOCK" and content[kind].get(name) != sha256:
                    raise RunError(
                        f"has changed since run {self.name} began",
                        file=f"{folder}/{name}",
                        fix="Put it back, give the run another name, or start it over with --fresh.",
                    )


def inherited(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The stages that a run of this config takes from its parent; none where it names no parent."""
    return _INHERITED[config.get("parent_stage", "sft")] if config.get("parent") else ()


def _with_defaults(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config with the fields that came since it was recorded, at their defaults: those change no number."""
    try:
        filled = finite(RunConfig.model_validate(config).model_dump(mode="json"))
    except ValidationError:
        return config
    assert isinstance(filled, dict)
    return filled


def read_min_free_gb() -> float:
    """Free disk that a stage asks for, in 10^9 bytes: $TEXT2SQL_MIN_FREE_GB, or 2.

    Raises:
        RunError: it is not a number.
    """
    text = os.environ.get("TEXT2SQL_MIN_FREE_GB", "")
    try:
        return float(text) if text else _MIN_FREE_GB
    except ValueError as error:
        raise RunError(
            f"{text!r} is not a number", field="TEXT2SQL_MIN_FREE_GB", fix="Give gigabytes, e.g. 2."
        ) from error

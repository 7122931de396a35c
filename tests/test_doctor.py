"""The doctor says bad where something is bad: a disk too small, a sandbox that lets through."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from text2sql_rl import doctor
from text2sql_rl.doctor import State
from text2sql_rl.records import Execution, Instance, Outcome


def states(findings: list[doctor.Finding]) -> dict[str, State]:
    return {finding.name: finding.state for finding in findings}


def test_too_little_disk_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXT2SQL_MIN_FREE_GB", "0")
    assert states(list(doctor._machine()))["disk"] is State.GOOD
    monkeypatch.setenv("TEXT2SQL_MIN_FREE_GB", "1e9")
    assert states(list(doctor._machine()))["disk"] is State.BAD


def test_missing_trainers_are_weak_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "versions", lambda: {"python": "3.11", "duckdb": "2.0.1", "sqlglot": "30", "trl": "1.16"}
    )
    judging, training = doctor._packages()
    assert judging.state is State.GOOD
    assert training.state is State.WEAK
    assert "without torch, transformers, peft, accelerate, datasets" in training.found


class LeakySandbox:
    """Gives rows for everything, and has lost a layer."""

    def __init__(self, limits: object) -> None:
        pass

    def __enter__(self) -> LeakySandbox:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def doctor(self) -> dict[str, bool]:
        return {"landlock": False, "seccomp": True}

    def run(self, jobs: list[object]) -> tuple[Execution, ...]:
        return (Execution(outcome=Outcome.ROWS),)


def test_a_sandbox_that_lets_through_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "Sandbox", LeakySandbox)
    instance = Instance(database="stable", index=0, path=Path(os.devnull), sha256="")
    found = states(list(doctor._sandbox(instance)))
    assert found["sandbox: landlock"] is State.WEAK
    assert found["sandbox: seccomp"] is State.GOOD
    assert found["sandbox: answers"] is State.GOOD
    bad = {name for name, state in found.items() if state is State.BAD}
    assert bad == {f"sandbox: {name}" for name, _, wanted in doctor._PROBES if Outcome.ROWS not in wanted}


def test_a_cache_that_cannot_be_written_is_bad(content: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TEXT2SQL_CACHE", str(tmp_path / "file"))
    found = list(doctor.examine())
    assert states(found)["cache"] is State.BAD
    assert "name another cache folder" in found[-1].found


def test_no_database_is_bad(content: Path) -> None:
    for folder in (content / "databases").iterdir():
        folder.rename(content / folder.name)
    assert states(list(doctor.examine()))["content"] is State.BAD

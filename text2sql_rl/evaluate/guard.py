"""The wall between training and evaluation, proved from what training wrote down.

In: a run folder and the stage evaluated, or a checkpoint folder, and the questions. Out: a `HeldOut`, or a `LeakError`
that names the question, its database and the stage that touched it. Not here: the wall between question sets; their
door (questions) keeps that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from text2sql_rl.errors import LeakError, RunError
from text2sql_rl.records import Question
from text2sql_rl.runs import RunFolder

# What each checkpoint has in it, oldest first; stages that a config leaves out are skipped.
CHAINS = {
    "base": ("base",),
    "sft": ("base", "sft"),
    "warmup": ("base", "sft", "difficulty", "warmup"),
    "grpo": ("base", "sft", "difficulty", "warmup", "difficulty_warm", "grpo"),
    "control": ("base", "sft", "control"),
}
# The base policy may be untrained, or come from elsewhere with no record of what it read.
_MAY_HAVE_NO_RECORD = ("base",)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What is known about questions and training: the record that was read, and the databases on both sides of it.

    `record` is empty where no training record exists, as for a model from elsewhere: nothing is proved then. `leaked`
    maps a database to the stage that touched it, and is empty unless the user allowed it.
    """

    record: str = ""
    leaked: Mapping[str, str] = field(default_factory=dict)

    @property
    def warning(self) -> str:
        """What must be said beside every number; empty where training is known to have touched no database asked of."""
        if self.leaked:
            names = ", ".join(sorted(self.leaked))
            return f"LEAK ALLOWED: training touched {len(self.leaked)} of the databases ({names})"
        return "" if self.record else "no training record: that these databases are held out is not proved"

    def as_json(self) -> dict[str, Any]:
        """For results.json."""
        return {
            "proved": bool(self.record) and not self.leaked,
            "record": self.record,
            "leaked": dict(sorted(self.leaked.items())),
            "warning": self.warning,
        }


def touched_databases(run: RunFolder, source: str) -> dict[str, str]:
    """The databases that made the checkpoint of `source`, each with the first stage that touched it.

    Raises:
        RunError: the stage is not done, or a stage on the way to it did not write down what it touched.
    """
    touched: dict[str, str] = {}
    for name in CHAINS[source]:
        stage = run.source(name)
        if not stage.is_done() and name != source:
            continue
        record = stage.result().get("databases")
        if record is None and name in _MAY_HAVE_NO_RECORD:
            continue
        if not isinstance(record, list):
            raise RunError(
                f"stage {name} did not write down which databases it touched, so held-out cannot be proved",
                file=stage.path / "done.json",
                field="result.databases",
                fix="Run the stage again.",
            )
        for database in record:
            touched.setdefault(str(database), name)
    return touched


def refuse_leaks(run: RunFolder, source: str, questions: Sequence[Question], *, allow: bool = False) -> HeldOut:
    """Refuse questions on databases that the checkpoint's training touched, or mark them where that is allowed.

    Raises:
        LeakError: there is one, and it is not allowed; names it.
        RunError: the training record is missing.
    """
    touched = touched_databases(run, source)
    leaked = {question.database: touched[question.database] for question in questions if question.database in touched}
    if leaked and not allow:
        question = next(one for one in questions if one.database in leaked)
        raise LeakError(
            f"question {question.id} of {question.role} is on database {question.database!r}, which stage "
            f"{touched[question.database]} of this policy was trained on",
            file=run.source(touched[question.database]).path / "done.json",
            field="result.databases",
            fix="Evaluate on databases that training never touched, or mark the result with --allow-leak.",
        )
    return HeldOut(f"{run.name}:{source}", leaked)


def guard_checkpoint(
    path: Path | None, questions: Sequence[Question], *, must: bool = False, allow: bool = False
) -> HeldOut:
    """Refuse or mark leaks of a policy by the folder it lies in; a policy of no run has no record.

    Args:
        path: a checkpoint or another folder of a stage; any other name; None.
        questions: to be asked.
        must: whether a folder of no run is an error.
        allow: mark leaks instead of refusing them.

    Raises:
        LeakError: a question is on a database that training touched.
        RunError: the run has no record, no policy comes from that stage, or the folder lies in no run but must.
    """
    found = _trained_by(path) if path else None
    if found:
        return refuse_leaks(*found, questions, allow=allow)
    if must:
        raise RunError("lies in no run", file=path, fix="Give a stage's folder or checkpoint of a run.")
    return HeldOut()


def _trained_by(path: Path) -> tuple[RunFolder, str] | None:
    """The run and the stage that a stage folder, its checkpoint or a folder in it belongs to; None for other folders.

    Raises:
        RunError: the folder lies in a run, but no policy comes from that stage.
    """
    place = path.resolve()
    for folder in (place, *place.parents):
        if folder.parent.name == "stages" and (folder.parent.parent / "run.json").is_file():
            if folder.name not in CHAINS:
                raise RunError(
                    "no policy comes from this stage", file=path, fix=f"Name one of {', '.join(CHAINS)} instead."
                )
            return RunFolder(folder.parent.parent), folder.name
    return None

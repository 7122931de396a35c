"""The wall between training and evaluation, proved from what training wrote down.

In: a run folder, the stage evaluated, the questions. Out: nothing, or a `LeakError` that names the question, its
database and the stage that touched it. Not here: the wall between question sets; their door (questions) keeps that one.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def refuse_leaks(run: RunFolder, source: str, questions: Sequence[Question]) -> None:
    """Refuse questions on databases that the checkpoint's training touched.

    Raises:
        LeakError: there is one; names it.
        RunError: the training record is missing.
    """
    touched = touched_databases(run, source)
    for question in questions:
        if question.database in touched:
            raise LeakError(
                f"question {question.id} of {question.role} is on database {question.database!r}, which stage "
                f"{touched[question.database]} of this policy was trained on",
                file=run.source(touched[question.database]).path / "done.json",
                field="result.databases",
                fix="Evaluate on databases that training never touched.",
            )

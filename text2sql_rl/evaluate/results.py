"""results.json: what one evaluation found, in one documented shape whoever was evaluated.

In: the parts. Out: the file. docs/evaluation.md explains every key, and a test compares. Not here: the numbers of a
question set (metrics), words (words).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.evaluate.guard import HeldOut
from text2sql_rl.questions import dump_line
from text2sql_rl.records import Database, Question
from text2sql_rl.runs import read_json, write_json

FILE = "results.json"
FORMAT = 1
_MANY_UNSCORED = 0.05
_FEW_DATABASES = 5
_NAMED = 20


def build_results(
    *,
    source: Mapping[str, Any],
    heldout: HeldOut,
    environment: Mapping[str, str],
    databases: Mapping[str, Database],
    questions: Sequence[Question],
    seed: int,
    seconds: Mapping[str, float],
    roles: Mapping[str, Any],
    too_long: Sequence[str] = (),
) -> dict[str, Any]:
    """The content of results.json.

    Args:
        source: who was evaluated: at least `kind` and `name`.
        heldout: what is known about the wall.
        environment: the judge's hashes and versions.
        databases: those of the questions, with the instances that were judged on.
        questions: all of them.
        seed: of sampling, bootstraps and votes.
        seconds: what the phases took.
        roles: question set -> its numbers.
        too_long: questions that were not asked, because no part of their schema that would do fits into a prompt.
    """
    lines = "\n".join(dump_line(question) for question in questions)
    return {
        "format": FORMAT,
        "source": dict(source),
        "warnings": [*_warnings(heldout, roles), *_not_asked(too_long, len(questions))],
        "heldout": heldout.as_json(),
        "environment": dict(environment),
        "instances": {name: len(database.instances) for name, database in sorted(databases.items())},
        "questions_sha256": hashlib.sha256(lines.encode("utf-8", "replace")).hexdigest(),
        "seed": seed,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "roles": dict(roles),
    }


def _warnings(heldout: HeldOut, roles: Mapping[str, Any]) -> Iterator[str]:
    """What must be read before any number."""
    if heldout.warning:
        yield heldout.warning
    for role, numbers in roles.items():
        unscored = sum(numbers["unscored"].values())
        if unscored > _MANY_UNSCORED * numbers["questions"]:
            reason = next(iter(numbers["unscored"]))
            yield (
                f"{role}: {unscored} of {numbers['questions']} questions could not be judged and are left out, "
                f"most often: {reason}"
            )
        if numbers["databases"] == 1:
            yield f"{role}: one database only; the interval over databases tells nothing"
        elif numbers["databases"] < _FEW_DATABASES:
            yield f"{role}: {numbers['databases']} databases; an interval over so few is too narrow"


def _not_asked(too_long: Sequence[str], questions: int) -> Iterator[str]:
    if too_long:
        shown = ", ".join(too_long[:_NAMED]) + (", ..." if len(too_long) > _NAMED else "")
        yield (
            f"{len(too_long)} of {questions} questions were not asked and count as not answered: their prompts do not "
            f"fit ({shown})"
        )


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Write results.json into `folder`.

    Raises:
        RunError: the disk refuses.
    """
    write_json(folder / FILE, results)


def read_results(folder: Path) -> dict[str, Any]:
    """The content of a results.json.

    Raises:
        RunError: it is missing, or none that this code knows.
    """
    content = read_json(folder / FILE)
    roles = content.get("roles")
    if content.get("format") != FORMAT or not isinstance(roles, dict) or not roles:
        raise RunError(
            f"is no result of format {FORMAT}", file=folder / FILE, field="format",
            fix="Evaluate again, or read it with the version that wrote it.",
        )  # fmt: skip
    return content

"""Groups of a stage: which are there, which are most worth reading, and one of them with all its evidence.

In: a run folder, a stage with logged rollouts, and what is asked for. Out: `Line`s (a group in one line) and `View`s
(a group with its rollouts). Not here: how they are shown (words.py); anything that the log does not hold, except the
question's text, which is taken from the content folders where the question there is still the one that was asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from text2sql_rl.config import content_root
from text2sql_rl.errors import RunError, Text2SqlError
from text2sql_rl.explain import evidence
from text2sql_rl.group import AdvantageRule, describe
from text2sql_rl.inspection.query import query
from text2sql_rl.questions import load_questions
from text2sql_rl.records import Group, GroupKind, Question
from text2sql_rl.replay import open_source
from text2sql_rl.rollout_log import LogRow, part_path, read_rollouts, to_groups
from text2sql_rl.runs import RunFolder

# One row a group. Rewards of wrong answers count only where they are scored.
_LINES = """
    SELECT step, CAST(regexp_extract(group_id, '\\d+$') AS INTEGER) AS number, first(question_id), first(database),
           first(group_kind), first(group_cause), count(*), count(total), count(*) FILTER (equivalent),
           first(group_mean), first(group_spread),
           coalesce(max(advantage) FILTER (NOT equivalent AND total IS NOT NULL), 0.0), max(abs(advantage))
    FROM rollouts GROUP BY step, number ORDER BY step, number
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A group in one line. `wrong_gains` is the largest advantage of a wrong answer, `largest` of any, by size."""

    step: int
    number: int
    question_id: str
    database: str
    kind: str
    cause: str
    size: int
    scored: int
    right: int
    mean: float
    spread: float
    wrong_gains: float
    largest: float

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        names = [name for name in self.__slots__ if name not in ("number", "largest")]
        return {"group": self.number, **{name: getattr(self, name) for name in names}, "tells": tells(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A group with everything the log holds of it. `text` is empty where the question's words are not at hand."""

    stage: str
    step: int
    number: int
    checkpoint: str
    database: str
    text: str
    gold_sql: str
    rule: str
    definition: str
    group: Group

    def as_json(self) -> dict[str, Any]:
        """For programs: the group, and each rollout with its evidence and advantage, in sampling order."""
        group = self.group
        rollouts = [
            {"advantage": advantage, **evidence(rollout)}
            for rollout, advantage in zip(group.rollouts, group.advantages, strict=True)
        ]
        return {
            "stage": self.stage, "step": self.step, "group": self.number, "checkpoint": self.checkpoint,
            "question_id": group.question_id, "database": self.database, "question": self.text,
            "gold_sql": self.gold_sql, "rule": self.rule, "kind": group.kind.value, "cause": group.cause,
            "mean": group.mean, "spread": group.spread, "definition": self.definition, "rollouts": rollouts,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class StageLog:
    """The logged groups of one stage; `definition` is that of its advantages, in words."""

    run: str
    stage: str
    folder: Path
    definition: str
    lines: tuple[Line, ...]


def open_stage(run: RunFolder, stage: str) -> StageLog:
    """The groups a stage has logged; those of the parent run where the stage is the parent's.

    Raises:
        RunError: this is no run folder, the stage has logged nothing, or a part file is damaged.
    """
    run.read()
    place = run.source(stage).path
    if not any((place / "rollouts").glob("*.parquet")):
        logged = sorted({part.parent.parent.name for part in run.path.glob("stages/*/rollouts/*.parquet")})
        fix = f"Name one of {', '.join(logged)} with --stage" if logged else "Train or measure first"
        raise RunError(f"stage {stage!r} has logged no rollouts", file=run.path, fix=fix)
    source = open_source(place)
    rows = query(source.parts, _LINES).rows
    rule = source.advantage(stage) or AdvantageRule("none")
    return StageLog(run.name, stage, place / "rollouts", describe(rule), tuple(Line(*row) for row in rows))


def choose(
    log: StageLog, *, step: int | None = None, number: int | None = None, question_id: str = ""
) -> tuple[Line, ...]:
    """The groups of a step, of a question, or the one with this number; all where nothing is asked for.

    Raises:
        RunError: there is none; says what there is.
    """
    steps = sorted({line.step for line in log.lines})
    if step is not None and step not in steps:
        fix = f"It has steps {steps[0]} to {steps[-1]}"
        raise RunError(f"stage {log.stage} has logged no step {step}", file=log.folder, field="--step", fix=fix)
    lines = [line for line in log.lines if step is None or line.step == step]
    if number is not None:
        found = tuple(line for line in lines if line.number == number)
        last = max(line.number for line in lines)
        if not found:
            raise RunError(f"there is no group {number}", file=log.folder, field="--group", fix=f"Give 0 to {last}")
        return found
    if question_id:
        found = tuple(line for line in lines if line.question_id == question_id)
        if not found:
            known = sorted({line.question_id for line in lines})
            close = get_close_matches(question_id, known, n=3, cutoff=0.0)
            where = "" if step is None else f" of step {step}"
            problem = f"question {question_id!r} is in no group{where} of stage {log.stage}"
            raise RunError(problem, file=log.folder, field="--question", fix=f"It has {', '.join(close)}, ...")
        return found
    return tuple(lines)


def view(log: StageLog, lines: Sequence[Line]) -> list[View]:
    """The groups of these lines with all their rollouts.

    Raises:
        RunError: a part file is damaged.
    """
    questions = _questions()
    views = []
    for step, chosen in groupby(lines, key=lambda line: line.step):
        rows: dict[str, list[LogRow]] = defaultdict(list)
        for row in read_rollouts(part_path(log.folder, step)):
            rows[row.group_id].append(row)
        views += [_view(log, line, rows[f"{log.stage}-{step}-{line.number}"], questions) for line in chosen]
    return views


def tells(line: Line) -> str:
    """Why a group is worth reading, in words; empty where all answers are right."""
    if line.kind == GroupKind.UNSCORED:
        return "could not be judged"
    if line.wrong_gains > 0:
        beside = "beside a right one" if line.right else "though none is right"
        return f"a wrong answer gains {beside}"
    if line.kind == GroupKind.LOW_SPREAD:
        return "right and wrong, paid nearly the same"
    if not line.right:
        return f"all wrong, mostly {line.cause}"
    if line.right == line.scored:
        return ""
    if line.right == 1:
        return "one right answer"
    return "one wrong answer" if line.scored - line.right == 1 else "right and wrong"


def telling(lines: Iterable[Line], most: int) -> list[Line]:
    """Up to `most` groups that tell something, the largest advantages first, in turn from each reason to look."""
    by_reason: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if reason := tells(line):
            by_reason[reason].append(line)
    order = [
        sorted(by_reason[reason], key=lambda line: (-line.wrong_gains, -line.largest, -line.step, line.number))
        for reason in sorted(by_reason, key=_gravity)
    ]
    return [one for layer in zip_longest(*order) for one in layer if one is not None][:most]


def _gravity(reason: str) -> tuple[int, str]:
    """What should not be comes first."""
    starts = ("a wrong answer gains beside", "a wrong answer gains", "could not", "right and wrong, paid", "one right",
              "all wrong", "one wrong", "right and wrong")  # fmt: skip
    return next(place for place, start in enumerate(starts) if reason.startswith(start)), reason


def _view(log: StageLog, line: Line, rows: Sequence[LogRow], questions: dict[str, Question]) -> View:
    first, (group,) = rows[0], to_groups(rows)
    question = questions.get(first.question_id)
    same = question is not None and (question.database, question.gold_sql) == (first.database, first.gold_sql)
    return View(
        stage=log.stage, step=line.step, number=line.number, checkpoint=first.checkpoint, database=first.database,
        text=question.text if question is not None and same else "", gold_sql=first.gold_sql, rule=first.rule,
        definition=log.definition, group=group,
    )  # fmt: skip


def _questions() -> dict[str, Question]:
    try:
        questions = load_questions(content_root() / "data")
    except Text2SqlError:  # a log can be read where its content is not at hand
        return {}
    return {one.id: one for role in questions.roles() for one in questions.role(role)}

"""Groups to look at: candidates with their rewards and reasons, and held-out answers that are wrong.

In: a run's rollout log and predictions. Out: `Example`s and `Failure`s, few enough to read. Not here: drawing them, or
judging anything again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import pyarrow.parquet as pq

from text2sql_rl.config import content_root
from text2sql_rl.errors import Text2SqlError
from text2sql_rl.explain import one_line
from text2sql_rl.questions import load_questions
from text2sql_rl.records import GroupKind, Match
from text2sql_rl.report.logged import Row, named, read_part
from text2sql_rl.runs import StageFolder

T = TypeVar("T")

# What teaches first, then what fails; solved groups have little to show.
_KINDS = (GroupKind.INFORMATIVE, GroupKind.ALL_WRONG, GroupKind.LOW_SPREAD, GroupKind.ALL_CORRECT, GroupKind.UNSCORED)
_PREDICTION_COLUMNS = (
    "question_id", "role", "database", "question", "gold_sql", "sample", "candidate_sql", "cause", "scored",
    "equivalent", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One distinct candidate of a group and how often it was sampled.

    `result` tells what the log keeps of its rows beside gold's; empty where none came. `parts` are the points of its
    reward.
    """

    sql: str
    times: int
    total: float | None
    advantage: float
    cause: str
    reason: str
    result: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One group: its question and its distinct candidates, the best first."""

    step: int
    question_id: str
    database: str
    question: str
    gold_sql: str
    kind: str
    mean: float
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A held-out question that the policy answered wrongly."""

    role: str
    database: str
    question: str
    gold_sql: str
    candidate_sql: str
    cause: str
    reason: str


def question_texts() -> dict[str, str]:
    """Question id -> text, of the content folders; empty where they are not at hand, since a report needs them not."""
    try:
        questions = load_questions(content_root() / "data")
    except Text2SqlError:
        return {}
    return {one.id: one.text for role in questions.roles() for one in questions.role(role)}


def example_groups(stage: StageFolder, texts: Mapping[str, str], most: int) -> list[Example]:
    """Up to `most` groups from a stage's start, middle and end, instructive kinds first, the databases in turn.

    Raises:
        RunError: a part file that should be shown is damaged.
    """
    parts = sorted((stage.path / "rollouts").glob("*.parquet"))
    if not parts:
        return []
    chosen = sorted({0, len(parts) // 2, len(parts) - 1})
    shares = [most // len(chosen) + (number < most % len(chosen)) for number in range(len(chosen))]
    shown: Counter[str] = Counter()
    return [
        as_example(group, texts)
        for index, share in zip(chosen, shares, strict=True)
        for group in _pick(read_part(parts[index]), share, shown)
    ]


def heldout_failures(stage: StageFolder, most: int) -> list[Failure]:
    """Up to `most` wrong greedy answers, taken in turn from the causes and the databases so that each is seen.

    Raises:
        RunError: predictions.parquet is damaged.
    """
    path = stage.path / "predictions.parquet"
    if not path.is_file():
        return []
    with named(path, "Delete the stage's folder and evaluate again."):
        rows = pq.read_table(path, columns=list(_PREDICTION_COLUMNS)).to_pylist()
    wrong: dict[str, list[Failure]] = defaultdict(list)
    for row in rows:
        if row["sample"] == 0 and row["scored"] and not row["equivalent"]:
            wrong[row["cause"]].append(
                Failure(
                    role=row["role"],
                    database=row["database"],
                    question=row["question"],
                    gold_sql=row["gold_sql"],
                    candidate_sql=row["candidate_sql"] or "",
                    cause=row["cause"],
                    reason=one_line(row["reason"] or ""),
                )
            )
    return _in_turn([wrong[cause] for cause in sorted(wrong)], most, lambda one: one.database, Counter())


def _pick(groups: Sequence[list[Row]], most: int, shown: Counter[str]) -> list[list[Row]]:
    by_kind = [[group for group in groups if group[0].group_kind == kind] for kind in _KINDS]
    # Two informative groups to one of each other kind.
    halves = [by_kind[0][::2], by_kind[0][1::2], *by_kind[1:]]
    return _in_turn(halves, most, lambda group: group[0].database, shown)


def _in_turn(lists: Sequence[Sequence[T]], most: int, database: Callable[[T], str], shown: Counter[str]) -> list[T]:
    """Up to `most`, from each list in turn, of each the first on the database that was `shown` least; counts it."""
    left = [list(one) for one in lists]
    out: list[T] = []
    while len(out) < most and any(left):
        for own in left:
            if own and len(out) < most:
                out.append(own.pop(min(range(len(own)), key=lambda at: shown[database(own[at])])))
                shown[database(out[-1])] += 1
    return out


def as_example(group: Sequence[Row], texts: Mapping[str, str]) -> Example:
    """A group as a reader sees it: the same candidate once."""
    first = group[0]
    same: dict[str, list[Row]] = defaultdict(list)
    for row in group:
        same[row.text if row.candidate is None else row.candidate].append(row)
    answers = [_answer(sql, rows) for sql, rows in same.items()]
    answers.sort(key=lambda one: (one.total is None, -(one.total or 0.0), -one.times))
    return Example(
        step=first.step, question_id=first.question_id, database=first.database,
        question=texts.get(first.question_id, first.question_id), gold_sql=first.gold_sql,
        kind=first.group_kind, mean=first.group_mean, answers=tuple(answers),
    )  # fmt: skip


def _answer(sql: str, rows: Sequence[Row]) -> Answer:
    row = rows[0]
    reason = row.verdict_words or row.outcome_reason or row.no_candidate or row.unscored
    return Answer(
        sql=sql,
        times=len(rows),
        total=row.total,
        advantage=row.advantage,
        cause=row.cause,
        reason=one_line(reason),
        result=_result(row),
        parts=_parts(row.items),
    )


def _result(row: Row) -> str:
    if row.rows is None:
        return ""
    counts = f"{row.rows:,} row{'s' * (row.rows != 1)}, gold has {row.gold_rows:,}"
    if row.verdict != Match.MISMATCH:
        return counts
    return f"{counts}; of gold's it gives {row.row_overlap:.0%} of the rows, {row.column_overlap:.0%} of the columns"


@cache
def _parts(items: str) -> tuple[str, ...]:
    return tuple(f"{item['points']:+.3g} {item['name']}: {item['why']}" for item in json.loads(items) if item["points"])

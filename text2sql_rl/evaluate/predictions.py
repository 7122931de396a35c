"""Every evaluated answer as one row of predictions.parquet.

In: questions with their judged answers. Out: the file, whole or absent. Not here: reading it back into records; it is
for people, notebooks and the report.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from text2sql_rl.evaluate.metrics import is_scored
from text2sql_rl.records import Question, Rollout
from text2sql_rl.runs import DiskGuard

SCHEMA = pa.schema(
    [
        ("question_id", pa.string()),
        ("role", pa.string()),
        ("database", pa.string()),
        ("shape", pa.string()),
        ("hardness", pa.string()),
        ("question", pa.string()),
        ("gold_sql", pa.string()),
        ("sample", pa.int32()),  # 0 is the greedy answer, 1..K the sampled ones
        ("completion", pa.string()),
        ("tokens", pa.int32()),
        ("finish", pa.string()),
        ("candidate_sql", pa.string()),
        ("cause", pa.string()),
        ("scored", pa.bool_()),
        ("equivalent", pa.bool_()),
        ("reward", pa.float64()),
        ("reason", pa.string()),
        ("gold_rows", pa.int64()),
        ("rows", pa.int64()),
    ]
)


def write_predictions(path: Path, answers: Iterable[tuple[Question, int, Rollout]]) -> None:
    """Write (question, sample number, its rollout) rows in one step.

    Raises:
        RunError: the disk refuses.
    """
    table = pa.Table.from_pylist([_row(*answer) for answer in answers], schema=SCHEMA)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with DiskGuard(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            pq.write_table(table, temporary, compression="zstd")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _row(question: Question, sample: int, one: Rollout) -> dict[str, object]:
    verdict = one.verdict.words if one.verdict else ""
    execution = one.execution.reason if one.execution else ""
    row: dict[str, object] = {
        "question_id": question.id,
        "role": question.role,
        "database": question.database,
        "shape": question.shape,
        "hardness": question.hardness,
        "question": question.text,
        "gold_sql": question.gold_sql,
        "sample": sample,
        "completion": one.completion.text,
        "tokens": one.completion.tokens,
        "finish": one.completion.finish.value,
        "candidate_sql": one.candidate.sql,
        "cause": one.cause,
        "scored": is_scored(one),
        "equivalent": one.equivalent,
        "reward": one.reward.total,
        "reason": verdict or execution or one.candidate.reason or one.reward.unscored,
        "gold_rows": one.gold_rows,
        "rows": one.rows,
    }
    # A model can write half of a surrogate pair, which UTF-8 and so Parquet cannot hold.
    return {name: _storable(value) for name, value in row.items()}


def _storable(value: object) -> object:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value

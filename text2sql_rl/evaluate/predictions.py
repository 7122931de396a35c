"""Every evaluated answer as one row of predictions.parquet, out and in.

In: questions with their judged answers; or a file. Out: the file, whole or absent; or its rows. For people, notebooks,
the report and comparisons. Not here: files of predictions that others made (prediction_files).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from text2sql_rl.errors import RunError
from text2sql_rl.evaluate.judging import Answer
from text2sql_rl.evaluate.metrics import is_scored
from text2sql_rl.records import Question
from text2sql_rl.runs import DiskGuard

FILE = "predictions.parquet"
SCHEMA = pa.schema(
    [
        ("question_id", pa.string()),
        ("role", pa.string()),
        ("database", pa.string()),
        ("shape", pa.string()),
        ("hardness", pa.string()),
        ("question", pa.string()),
        ("gold_sql", pa.string()),
        ("sample", pa.int32()),  # 0 is the answer that counts, 1..K the sampled ones
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
        ("real_rows", pa.bool_()),  # right on instance 0
        ("set_match", pa.bool_()),  # by BIRD's rule
        ("suite_match", pa.bool_()),  # by the test suite's rule
        ("result", pa.string()),  # equal for equal bags of rows; empty where there are none
        ("seconds", pa.float64()),
        ("prompt_tokens", pa.int32()),
        ("leaked", pa.bool_()),  # the policy was trained on this database, and the user allowed it
    ]
)
# Files of before the marks have these columns only.
_NEEDED = frozenset(SCHEMA.names[:19])


def write_predictions(
    path: Path, answers: Iterable[tuple[Question, int, Answer]], leaked: Mapping[str, str] | None = None
) -> None:
    """Write (question, sample number, its answer) rows in one step.

    Args:
        path: the file.
        answers: the rows.
        leaked: databases that training touched.

    Raises:
        RunError: the disk refuses.
    """
    rows = [_row(question, sample, one, question.database in (leaked or {})) for question, sample, one in answers]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with DiskGuard(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            pq.write_table(table, temporary, compression="zstd")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a predictions.parquet, in the order written; columns that an old file lacks are None.

    Raises:
        RunError: it cannot be read, or is no such file.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        words = str(error).splitlines()[0]
        raise RunError(f"cannot be read ({words})", file=path, fix="Evaluate again.") from error
    if missing := sorted(_NEEDED - set(table.column_names)):
        raise RunError("is no file of predictions", file=path, field=missing[0], fix="Evaluate again.")
    absent = dict.fromkeys(set(SCHEMA.names) - set(table.column_names))
    return [{**absent, **row} for row in table.to_pylist()]


def _row(question: Question, sample: int, answer: Answer, leaked: bool) -> dict[str, object]:
    one, marks, cost = answer.rollout, answer.marks, answer.cost
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
        "real_rows": marks.real_rows,
        "set_match": marks.set_match,
        "suite_match": marks.suite_match,
        "result": marks.result,
        "seconds": cost.seconds,
        "prompt_tokens": cost.prompt_tokens,
        "leaked": leaked,
    }
    # A model can write half of a surrogate pair, which UTF-8 and so Parquet cannot hold.
    return {name: _storable(value) for name, value in row.items()}


def _storable(value: object) -> object:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value

"""Part files -> rows exactly as they were written, groups, or a table that is read when it is asked for.

In: a part file, or a folder of them. Out: all rows in order, or a `RunError` that names the file that is damaged or of
another schema version. Not here: recomputing rewards, statistics.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from text2sql_rl.errors import RunError
from text2sql_rl.records import (
    Candidate,
    Completion,
    Execution,
    Finish,
    Group,
    GroupKind,
    Item,
    Match,
    Outcome,
    Reward,
    Rollout,
    Verdict,
)
from text2sql_rl.rollout_log.columns import SCHEMA, SCHEMA_VERSION, SCHEMAS, VERSION_KEY, LogRow

_WRITE_AGAIN = "Delete the file and resume the run, which writes it again"


def read_groups(path: Path) -> list[Group]:
    """The groups of one part file, or of all part files of a folder; see `read_rollouts` and `to_groups`."""
    return to_groups(read_rollouts(path))


def read_rollouts(path: Path) -> list[LogRow]:
    """All rows of one part file, or of a folder's, in order of step and then as written; empty when there are none.

    Raises:
        RunError: a part file is damaged, or of another schema version.
    """
    parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path] if path.exists() else []
    return [LogRow(**row) for part in parts for row in _read(part).to_pylist()]


def open_rollouts(parts: Sequence[Path]) -> pyarrow.dataset.Dataset:
    """Part files as one table whose rows are read when they are asked for; a column a field of `LogRow`.

    Raises:
        RunError: a part file's head is damaged, or of another schema version.
    """
    for part in parts:
        with _reading(part), part.open("rb") as file:
            _refuse_other(pq.read_schema(file), part)
    return pyarrow.dataset.dataset([str(part) for part in parts], schema=SCHEMA, format="parquet")


def _read(path: Path) -> pa.Table:
    with _reading(path), path.open("rb") as file:
        table = pq.read_table(file)
    _refuse_other(table.schema, path)
    return table


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        problem = f"the rollouts cannot be read: {str(error).splitlines()[0]}"
        raise RunError(problem, file=path, fix=_WRITE_AGAIN) from error


def _refuse_other(schema: pa.Schema, path: Path) -> None:
    found = (schema.metadata or {}).get(VERSION_KEY, b"none").decode(errors="replace")
    if found not in SCHEMAS:
        fix = "Read it with the version of text2sql-rl that wrote it"
        raise RunError(f"schema version {found}, not {SCHEMA_VERSION}", file=path, fix=fix)
    if not schema.equals(SCHEMAS[found]):
        raise RunError("other columns than this schema version has", file=path, fix=_WRITE_AGAIN)


def to_groups(rows: Sequence[LogRow]) -> list[Group]:
    """The groups of logged rows, in order of appearance.

    They are as they were written, except that executions have lost their columns and rows (`Rollout.rows` keeps
    the number).
    """
    by_group: dict[tuple[str, str, str], list[LogRow]] = {}
    for row in rows:
        by_group.setdefault((row.run, row.stage, row.group_id), []).append(row)
    return [_group(members) for members in by_group.values()]


def _group(rows: Sequence[LogRow]) -> Group:
    first = rows[0]
    return Group(
        question_id=first.question_id,
        rollouts=tuple(_rollout(row) for row in rows),
        kind=GroupKind(first.group_kind),
        cause=first.group_cause,
        mean=first.group_mean,
        spread=first.group_spread,
        advantages=tuple(row.advantage for row in rows),
        conditions_sha256=first.conditions_sha256,
    )


def _rollout(row: LogRow) -> Rollout:
    execution = verdict = None
    if row.outcome is not None:
        execution = Execution(
            outcome=Outcome(row.outcome),
            reads_tables=row.reads_tables,
            reason=row.outcome_reason,
            elapsed_s=row.elapsed_s,
        )
    if row.verdict is not None:
        verdict = Verdict(
            match=Match(row.verdict),
            code=row.verdict_code,
            words=row.verdict_words,
            row_overlap=row.row_overlap,
            column_overlap=row.column_overlap,
            flags=tuple(json.loads(row.flags)),
        )
    items = tuple(Item(**item) for item in json.loads(row.items))
    return Rollout(
        question_id=row.question_id,
        database=row.database,
        completion=Completion(
            question_id=row.question_id, text=row.text, raw=row.raw, finish=Finish(row.finish), tokens=row.tokens
        ),
        candidate=Candidate(sql=row.candidate, reason=row.no_candidate, answers=row.answers, clean=row.clean),
        execution=execution,
        verdict=verdict,
        reward=Reward(total=row.total, items=items, unscored=row.unscored, rule=row.rule, rule_sha256=row.rule_sha256),
        cause=row.cause,
        equivalent=row.equivalent,
        gold_rows=row.gold_rows,
        rows=row.rows,
    )

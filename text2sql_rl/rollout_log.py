"""The rollout log: one row a completion, in Parquet part files that a resumed run overwrites.

In: groups, and where they come from; or a folder of part files. Out: a part file, written whole or not at all; or the
rows, exactly as they were written. Knows only records. Not here: recomputing rewards, statistics, reports.

The schema is `LogRow`, and `SCHEMA_VERSION` stands in every file; files of version 1 are read as well, and what they do
not tell is empty. A part file is named by its step, so writing the same step again replaces it: nothing is there twice
after an interrupted run.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

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

SCHEMA_VERSION = "2"
_VERSION_KEY = b"text2sql_rl.rollout_log"
_WRITE_AGAIN = "Delete the file and resume the run, which writes it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One judged completion with its group and its lineage; `total` is None exactly when it is unscored."""

    # where it comes from
    run: str
    stage: str
    step: int
    checkpoint: str
    seed: int
    sampling: str  # JSON
    question_id: str
    database: str
    role: str
    prompt_sha256: str
    instance_sha256: str
    gold_sql: str
    engine: str
    limits_sha256: str
    rule: str
    rule_sha256: str
    # completion and candidate
    text: str
    raw: str
    tokens: int
    finish: str
    candidate: str | None
    no_candidate: str
    answers: int
    clean: bool
    # execution and verdict
    outcome: str | None
    outcome_reason: str
    reads_tables: bool
    elapsed_s: float
    rows: int | None
    gold_rows: int
    verdict: str | None
    verdict_code: str
    verdict_words: str
    row_overlap: float
    column_overlap: float
    flags: str  # JSON list
    # reward
    items: str  # JSON list
    total: float | None
    unscored: str
    cause: str
    equivalent: bool
    # group
    group_id: str
    group_index: int
    group_kind: str
    group_cause: str
    group_mean: float
    group_spread: float
    advantage: float
    # since version 2: what the update made of it
    conditions_sha256: str = ""
    in_loss: bool | None = None  # None outside of training
    kl: float | None = None  # mean over its tokens of the plain k3 estimate; None without a reference policy
    clip_share: float | None = None  # of its tokens; None where it was not in the loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What a training step made of one completion; see the columns of the same names."""

    in_loss: bool = False
    kl: float | None = None
    clip_share: float | None = None


# (number of the group in its step, index in the group) -> what became of it.
Updates = Mapping[tuple[int, int], Update]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What all rollouts of one question share; the prompt's hash where the completions do not know it themselves."""

    prompt_sha256: str = ""
    instance_sha256: str = ""
    gold_sql: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What all rollouts of one stage share. `checkpoint` is the one it started from.

    `sampling` holds the sampling settings as JSON; `origins` is keyed by question id, and a question that is not in
    it gets empty texts.
    """

    run: str
    stage: str
    checkpoint: str = ""
    seed: int = 0
    sampling: str = "{}"
    engine: str = ""
    limits_sha256: str = ""
    origins: Mapping[str, Origin] = field(default_factory=dict)


def to_rows(groups: Sequence[Group], lineage: Lineage, step: int, updates: Updates | None = None) -> list[LogRow]:
    """One row a rollout, groups in order; `updates` tells what training made of them."""
    told = updates or {}
    return [
        _row(group, index, f"{lineage.stage}-{step}-{number}", lineage, step, told.get((number, index)))
        for number, group in enumerate(groups)
        for index in range(len(group.rollouts))
    ]


def to_groups(rows: Sequence[LogRow]) -> list[Group]:
    """The groups of logged rows, in order of appearance.

    They are as they were written, except that executions have lost their columns and rows (`Rollout.rows` keeps
    the number).
    """
    by_group: dict[tuple[str, str, str], list[LogRow]] = {}
    for row in rows:
        by_group.setdefault((row.run, row.stage, row.group_id), []).append(row)
    return [_group(members) for members in by_group.values()]


def write_groups(
    path: Path, groups: Sequence[Group], lineage: Lineage, *, step: int, updates: Updates | None = None
) -> None:
    """Write the groups of one step as one part file; see `to_rows` and `write_rollouts`."""
    write_rollouts(path, to_rows(groups, lineage, step, updates))


def read_groups(path: Path) -> list[Group]:
    """The groups of one part file, or of all part files of a folder; see `read_rollouts` and `to_groups`."""
    return to_groups(read_rollouts(path))


def part_path(folder: Path, step: int) -> Path:
    """The part file of a step; names sort as steps do."""
    return folder / f"step-{step:06d}.parquet"


def write_rollouts(path: Path, rows: Sequence[LogRow]) -> None:
    """Write one part file; an existing one is replaced, and a failure leaves it as it was.

    Characters that are not valid Unicode (lone surrogates) are stored as question marks.

    Raises:
        RunError: the file cannot be written, for instance because the disk is full.
    """
    columns = {name: [_storable(getattr(row, name)) for row in rows] for name in _SCHEMA.names}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            pq.write_table(pa.table(columns, schema=_SCHEMA), file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        problem = f"the rollouts cannot be written: {error.strerror or error}"
        raise RunError(problem, file=path, fix="Free disk space or choose another run folder") from error


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
    return pyarrow.dataset.dataset([str(part) for part in parts], schema=_SCHEMA, format="parquet")


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
    found = (schema.metadata or {}).get(_VERSION_KEY, b"none").decode(errors="replace")
    if found not in _SCHEMAS:
        fix = "Read it with the version of text2sql-rl that wrote it"
        raise RunError(f"schema version {found}, not {SCHEMA_VERSION}", file=path, fix=fix)
    if not schema.equals(_SCHEMAS[found]):
        raise RunError("other columns than this schema version has", file=path, fix=_WRITE_AGAIN)


def _row(group: Group, index: int, group_id: str, lineage: Lineage, step: int, update: Update | None) -> LogRow:
    rollout, origin = group.rollouts[index], lineage.origins.get(group.question_id, Origin())
    execution, verdict, reward = rollout.execution, rollout.verdict, rollout.reward
    items = [{name: getattr(item, name) for name in _ITEM_FIELDS} for item in reward.items]
    return LogRow(
        run=lineage.run,
        stage=lineage.stage,
        step=step,
        checkpoint=lineage.checkpoint,
        seed=lineage.seed,
        sampling=lineage.sampling,
        question_id=rollout.question_id,
        database=rollout.database,
        role=origin.role,
        prompt_sha256=rollout.completion.prompt_sha256 or origin.prompt_sha256,
        instance_sha256=origin.instance_sha256,
        gold_sql=origin.gold_sql,
        engine=lineage.engine,
        limits_sha256=lineage.limits_sha256,
        rule=reward.rule,
        rule_sha256=reward.rule_sha256,
        text=rollout.completion.text,
        raw=rollout.completion.raw,
        tokens=rollout.completion.tokens,
        finish=rollout.completion.finish.value,
        candidate=rollout.candidate.sql,
        no_candidate=rollout.candidate.reason,
        answers=rollout.candidate.answers,
        clean=rollout.candidate.clean,
        outcome=execution.outcome.value if execution else None,
        outcome_reason=execution.reason if execution else "",
        reads_tables=execution.reads_tables if execution else False,
        elapsed_s=execution.elapsed_s if execution else 0.0,
        rows=rollout.rows,
        gold_rows=rollout.gold_rows,
        verdict=verdict.match.value if verdict else None,
        verdict_code=verdict.code if verdict else "",
        verdict_words=verdict.words if verdict else "",
        row_overlap=verdict.row_overlap if verdict else 0.0,
        column_overlap=verdict.column_overlap if verdict else 0.0,
        flags=json.dumps(verdict.flags if verdict else ()),
        items=json.dumps(items),
        total=reward.total,
        unscored=reward.unscored,
        cause=rollout.cause,
        equivalent=rollout.equivalent,
        group_id=group_id,
        group_index=index,
        group_kind=group.kind.value,
        group_cause=group.cause,
        group_mean=group.mean,
        group_spread=group.spread,
        advantage=group.advantages[index],
        conditions_sha256=group.conditions_sha256,
        in_loss=update.in_loss if update else None,
        kl=update.kl if update else None,
        clip_share=update.clip_share if update else None,
    )


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


_ITEM_FIELDS = tuple(one.name for one in fields(Item))


def _schema() -> pa.Schema:
    arrow = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    hints: dict[str, Any] = get_type_hints(LogRow)
    found = []
    for one in fields(LogRow):
        kinds = getattr(hints[one.name], "__args__", (hints[one.name],))
        found.append(pa.field(one.name, arrow[kinds[0]], nullable=type(None) in kinds))
    return pa.schema(found, metadata={_VERSION_KEY: SCHEMA_VERSION.encode()})


def _storable(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


_SCHEMA = _schema()
_NEW = ("conditions_sha256", "in_loss", "kl", "clip_share")
_SCHEMAS = {SCHEMA_VERSION: _SCHEMA, "1": pa.schema([one for one in _SCHEMA if one.name not in _NEW])}

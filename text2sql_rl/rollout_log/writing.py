"""Groups and where they come from -> rows -> a part file, written whole or not at all.

In: groups, their lineage, and what an update made of them. Out: rows, or a Parquet file named by its step, so that
writing the same step again replaces it and nothing is there twice after an interrupted run. Not here: which groups.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from text2sql_rl.errors import RunError
from text2sql_rl.records import Group, Item
from text2sql_rl.rollout_log.columns import SCHEMA, LogRow

_ITEM_FIELDS = tuple(one.name for one in fields(Item))


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


def write_groups(
    path: Path, groups: Sequence[Group], lineage: Lineage, *, step: int, updates: Updates | None = None
) -> None:
    """Write the groups of one step as one part file; see `to_rows` and `write_rollouts`."""
    write_rollouts(path, to_rows(groups, lineage, step, updates))


def part_path(folder: Path, step: int) -> Path:
    """The part file of a step; names sort as steps do."""
    return folder / f"step-{step:06d}.parquet"


def write_rollouts(path: Path, rows: Sequence[LogRow]) -> None:
    """Write one part file; an existing one is replaced, and a failure leaves it as it was.

    Characters that are not valid Unicode (lone surrogates) are stored as question marks.

    Raises:
        RunError: the file cannot be written, for instance because the disk is full.
    """
    columns = {name: [_storable(getattr(row, name)) for row in rows] for name in SCHEMA.names}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            pq.write_table(pa.table(columns, schema=SCHEMA), file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        problem = f"the rollouts cannot be written: {error.strerror or error}"
        raise RunError(problem, file=path, fix="Free disk space or choose another run folder") from error


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


def _storable(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode("utf-8")
    return value

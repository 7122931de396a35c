"""The columns of the rollout log: `LogRow`, the Arrow schema made of it, and the versions that are read.

In: nothing. Out: one row's type, and a schema for each version. What version 1 does not tell is
empty. Not here: values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_type_hints

import pyarrow as pa

SCHEMA_VERSION = "2"
VERSION_KEY = b"text2sql_rl.rollout_log"


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


def _schema() -> pa.Schema:
    arrow = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    hints: dict[str, Any] = get_type_hints(LogRow)
    found = []
    for one in fields(LogRow):
        kinds = getattr(hints[one.name], "__args__", (hints[one.name],))
        found.append(pa.field(one.name, arrow[kinds[0]], nullable=type(None) in kinds))
    return pa.schema(found, metadata={VERSION_KEY: SCHEMA_VERSION.encode()})


SCHEMA = _schema()
_NEW = ("conditions_sha256", "in_loss", "kl", "clip_share")
SCHEMAS = {SCHEMA_VERSION: SCHEMA, "1": pa.schema([one for one in SCHEMA if one.name not in _NEW])}

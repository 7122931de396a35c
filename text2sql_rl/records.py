"""The nouns of the project, in the order in which one question meets them.

In: nothing. Out: frozen dataclasses and enums that rooms pass to each other, so that no bare tuple or dict
crosses a room. Not here: behaviour, input checks, file formats. Records hold plain values only: no torch, no
duckdb, no pydantic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

# ---- 1. question and database ------------------------------------------------------------------------------


class Split(StrEnum):
    """Which side of the wall a database stands on; no database is on two sides."""

    TRAIN = "train"
    DEV = "dev"
    HELDOUT = "heldout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A natural-language question, its database, its gold SQL and the set it belongs to.

    `role` is the question set: sft and rl (both of split train), dev, heldout, handwritten (split heldout).
    `shape` names the SQL template of a synthetic question, empty for others. `evidence` is what the question's author
    tells beside it (a definition, a formula), and part of what the policy may read.
    """

    id: str
    database: str
    text: str
    gold_sql: str
    split: Split
    role: str
    shape: str = ""
    hardness: str = "unknown"
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column as the schema declares it; `type` is DuckDB's own spelling, e.g. INTEGER, VARCHAR, DATE."""

    name: str
    type: str
    nullable: bool = True
    primary_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """`columns` of the owning table refer to `references` of `table`, pairwise."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with its columns in declared order and its number of rows in instance 0."""

    name: str
    columns: tuple[Column, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One set of rows for a database's schema: a read-only DuckDB file. Index 0 is the real one."""

    database: str
    index: int
    path: Path
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database: its schema and its instances; `instances[0]` holds the real rows."""

    name: str
    tables: tuple[Table, ...]
    instances: tuple[Instance, ...]


# ---- 2. prompt ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the policy reads. `restore` maps placeholders to SQL text where the style uses them.

    `chat` is true when `text` is the content of one user message rather than plain text to continue.
    """

    question_id: str
    style: str
    text: str
    chat: bool = False
    restore: Mapping[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The hash of its text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


# ---- 3. completion -----------------------------------------------------------------------------------------


class Finish(StrEnum):
    """Why sampling ended: the policy stopped, or its token limit cut it."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One text sampled from the policy. `text` is after the prompt style's way back; `raw` is as sampled.

    `prompt_sha256` is of the prompt's text; empty where the text came from elsewhere than a prompt.
    """

    question_id: str
    text: str
    raw: str
    finish: Finish
    tokens: int
    prompt_sha256: str = ""


# ---- 4. candidate ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The SQL extracted from a completion, or `sql=None` and the named reason why there is none.

    `answers` counts the distinct answers found (more than one is a gate); `clean` is false when the
    completion holds anything beside its one answer.
    """

    sql: str | None
    reason: str = ""
    answers: int = 0
    clean: bool = True


# ---- 5. execution ------------------------------------------------------------------------------------------


class Outcome(StrEnum):
    """What became of one statement in the sandbox. Only ROWS carries rows; FAULT is the verifier's own."""

    ROWS = "rows"
    REFUSED = "refused"
    ERROR = "error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    TOO_LARGE = "too_large"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What running one statement on one instance gave.

    `types` are DuckDB type names, one a column. `rows` holds Python values as the duckdb client gives them.
    `reads_tables` is false when the statement reads no table of the database (a constant answer).
    `reason` says in words why there are no rows.
    """

    outcome: Outcome
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    reads_tables: bool = True
    reason: str = ""
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """One key of the gold's top-level ORDER BY: its position among the gold execution's columns."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """The gold of a question prepared on one instance: run first, in a session of its own.

    `execution` has the answer's columns first, then `hidden` more columns holding sort keys that the answer
    does not project. `legal_rows` is set where LIMIT cuts inside a tie: all rows any legal choice may return.
    `unverifiable` gives the reason when the gold cannot judge anything (it fails, times out, is not
    deterministic); empty otherwise. `flags` name what makes it weak evidence: empty, tie_cut, ...
    `loose` names what the gold leaves open in an answer column, by position: unordered (an aggregate without
    ORDER BY), arbitrary (any row's value), total (NULL or 0 over no rows), rounded:2, calendar (months).
    """

    sql: str
    execution: Execution
    sort_keys: tuple[SortKey, ...] = ()
    hidden: int = 0
    legal_rows: tuple[tuple[Any, ...], ...] | None = None
    unverifiable: str = ""
    flags: tuple[str, ...] = ()
    loose: Mapping[int, str] = field(default_factory=dict)


# ---- 6. verdict --------------------------------------------------------------------------------------------


class Match(StrEnum):
    """The three answers comparison can give."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Comparison's answer with its reason: a short code for counting, and words for people.

    `row_overlap` and `column_overlap` in [0, 1] feed partial credit and are 1.0 for a match.
    `flags` say what weakens a match, e.g. empty, tie_cut, permuted_columns.
    """

    match: Match
    code: str
    words: str
    row_overlap: float = 0.0
    column_overlap: float = 0.0
    flags: tuple[str, ...] = ()


# ---- 7. reward ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a reward's evidence: a component, a penalty or a gate, and what it added to the total."""

    name: str
    kind: str  # "component", "penalty" or "gate"
    value: float  # the measurement, in [0, 1]
    weight: float  # the rule's weight; a gate's cap
    points: float  # what it contributed (a gate: how much it took away, <= 0)
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The total with its evidence, or unscored: `total` is None and `unscored` says why. Never zero for that."""

    total: float | None
    items: tuple[Item, ...] = ()
    unscored: str = ""
    rule: str = ""
    rule_sha256: str = ""


# ---- 4-7. rollout ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One judged completion; one row of the rollout log.

    `cause` is the one word under which it is counted: equivalent, near, wrong, empty, row_count, error,
    constant, timeout, no_answer, refused, truncated, unscored. `equivalent` is true when the completion's one
    answer is a match on every instance and reads the database. `rows` is None where nothing ran to an end.
    """

    question_id: str
    database: str
    completion: Completion
    candidate: Candidate
    execution: Execution | None
    verdict: Verdict | None
    reward: Reward
    cause: str
    equivalent: bool
    gold_rows: int
    rows: int | None


# ---- 8. group ----------------------------------------------------------------------------------------------


class GroupKind(StrEnum):
    """Whether a group teaches: informative, or one of the degenerate kinds."""

    INFORMATIVE = "informative"
    ALL_CORRECT = "all_correct"
    ALL_WRONG = "all_wrong"
    LOW_SPREAD = "low_spread"
    UNSCORED = "unscored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What all rollouts of one group share beside the question and the policy: hashes, and settings as text."""

    prompt: str
    instances: str
    limits: str
    rule: str
    sampling: str

    @property
    def sha256(self) -> str:
        """One hash over all of them."""
        return hashlib.sha256(
            "\0".join((self.prompt, self.instances, self.limits, self.rule, self.sampling)).encode()
        ).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The G rollouts of one question, its statistics over the scored ones, and one advantage a rollout.

    `advantages[i]` belongs to `rollouts[i]`, sums to zero over those in the statistics and is 0.0 for all others.
    `cause` is the most frequent cause in an all-wrong group. `conditions_sha256` is the hash of what all of them share
    (`Conditions`), empty where it was not recorded.
    """

    question_id: str
    rollouts: tuple[Rollout, ...]
    kind: GroupKind
    cause: str
    mean: float
    spread: float
    advantages: tuple[float, ...]
    conditions_sha256: str = ""


# ---- 9. difficulty -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """How often a question's completions matched: `passed` of `scored`, with a 95 % Wilson interval."""

    question_id: str
    passed: int
    scored: int
    low: float
    high: float
    causes: Mapping[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """passed / scored, in [0, 1]; 0.0 when nothing was scored."""
        return self.passed / self.scored if self.scored else 0.0

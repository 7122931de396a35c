"""Canaries: wrong answers whose worth is known beforehand, judged beside the policy's; a paid one raises an alarm.

In: databases, the run's own judge, and how often. Out: alarms, in a file and on stderr, or the end of the run. A canary
is a question with its honest gold and the baits that a policy comes upon when it farms: typed-in answers, empty results
on an empty gold, doubled and dropped duplicates, writes. Each bait has the most it may earn. They run in the same
sandbox workers, under the same rule, between the policy's candidates, so an alarm says that the verifier or the rule
pays for nothing in this very run, whatever the policy has done to it before.

Not here: the policy. It is never asked a canary, so canaries are in no group and in no loss.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb

from text2sql_rl.config import Canaries
from text2sql_rl.content import cache_folder
from text2sql_rl.databases import open_read_only, quoted
from text2sql_rl.errors import SandboxError
from text2sql_rl.instances.store import with_instances
from text2sql_rl.judge import Judge
from text2sql_rl.records import Completion, Database, Finish, Question, Split, Table
from text2sql_rl.runs import DiskGuard, StageFolder
from text2sql_rl.sandbox import Sandbox
from text2sql_rl.scoring import Rule

# More than these teach nothing new about the verifier, and each costs instances at the start.
_MOST_DATABASES = 4
_INSTANCES = 3
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Canary:
    """A question, and wrong answers to it. `most` is what each of them may earn at most."""

    kind: str
    question: Question
    database: Database
    baits: tuple[str, ...]
    most: float


@dataclass(frozen=True, slots=True)
class Alarm:
    """A bait that was paid more than it may earn, in the step before which that was seen."""

    step: int
    kind: str
    database: str
    gold_sql: str
    bait: str
    most: float
    paid: float
    cause: str

    def __str__(self) -> str:
        """The alarm in one line."""
        paid = f"{self.paid:g} where at most {self.most:g} is right"
        return f"a known-wrong answer of kind {self.kind} earned {paid}, as {self.cause}: {self.bait}"


class Asked(Protocol):
    """Anything that is asked of a database."""

    @property
    def database(self) -> Database:
        """The database."""


class CanaryWatch:
    """Judges baits in turn, as many as the rate asks for, and raises alarms.

    Args:
        canaries: those of the run's databases.
        judge: the run's own judge.
        rate: baits for each completion of the policy.
        stop: whether an alarm ends the run.
        file: gets one JSON line an alarm.
    """

    def __init__(self, canaries: Sequence[Canary], judge: Judge, *, rate: float, stop: bool, file: Path) -> None:
        self._turns = [(canary, bait) for canary in canaries for bait in canary.baits]
        self._judge, self._rate, self._stop, self._file = judge, rate, stop, file
        self._owed = 0.0
        self.asked, self.paid = 0, 0

    def ask_all(self) -> None:
        """Judge every bait once, before the policy has touched anything."""
        self._ask(0, len(self._turns))

    def after(self, step: int, completions: int) -> None:
        """Judge the share of baits that belongs to so many completions of the policy.

        Raises:
            SandboxError: one was paid, and the config says that this ends the run.
        """
        self._owed += self._rate * completions
        self._ask(step, int(self._owed))
        self._owed -= int(self._owed)

    def result(self) -> dict[str, Any]:
        """What the stage's result says: baits judged and paid since it was last started; nothing without canaries."""
        if not self._turns:
            return {}
        summary = {"summary": f"ALARM: {self.paid} of {self.asked} canaries were paid"} if self.paid else {}
        return {"canaries": {"asked": self.asked, "paid": self.paid}, **summary}

    def _ask(self, step: int, count: int) -> None:
        chosen = []
        for _ in range(count if self._turns else 0):
            canary, bait = self._turns[self.asked % len(self._turns)]
            # A number in a comment makes the text new, so that the judge's memory does not answer for the sandbox.
            chosen.append((canary, f"{bait} /* {self.asked} */"))
            self.asked += 1
        if not chosen:
            return
        rollouts = self._judge.judge([(one.question, one.database, _completion(one, bait)) for one, bait in chosen])
        alarms = []
        for (canary, bait), rollout in zip(chosen, rollouts, strict=True):
            total = rollout.reward.total
            if total is not None and total > canary.most + _ROUNDING:
                gold = canary.question.gold_sql
                found = (step, canary.kind, canary.database.name, gold, bait, canary.most, total, rollout.cause)
                alarms.append(Alarm(*found))
        self._raise(alarms)

    def _raise(self, alarms: Sequence[Alarm]) -> None:
        if not alarms:
            return
        self.paid += len(alarms)
        with DiskGuard(self._file), self._file.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(asdict(alarm), ensure_ascii=False)}\n" for alarm in alarms)
        if self._stop:
            fix = "Read that file; `text2sql-rl rewards check RULE` and `doctor` say whether rule and sandbox hold"
            raise SandboxError(str(alarms[0]), file=self._file, fix=fix)
        for alarm in alarms:
            logging.getLogger(__name__).warning("alarm at step %d: %s", alarm.step, alarm)


def watch_over(asked: Iterable[Asked], judge: Judge, settings: Canaries | None, stage: StageFolder) -> CanaryWatch:
    """The watch over a stage, each bait judged once; it has nothing to judge where the config has no canaries.

    Args:
        asked: what the policy is asked, for its databases.
        judge: the run's own judge.
        settings: how often, and what an alarm does.
        stage: gets `alarms.jsonl`.

    Raises:
        SandboxError: a bait was paid already, and the config says that this ends the run.
        RunError: the disk refuses.
    """
    file = stage.path / "alarms.jsonl"
    if settings is None:
        return CanaryWatch((), judge, rate=0.0, stop=False, file=file)
    canaries = make_canaries((one.database for one in asked), judge.rule, cache_folder())
    watch = CanaryWatch(canaries, judge, rate=settings.rate, stop=settings.stop, file=file)
    watch.ask_all()
    return watch


def make_canaries(databases: Iterable[Database], rule: Rule, cache: Path) -> tuple[Canary, ...]:
    """Make the canaries of the first few databases; a kind that a database does not allow is left out.

    Args:
        databases: those that the run trains on.
        rule: gives the most that dropped and doubled duplicates may earn: its shaping bound, or nothing where the rule
            is deliberately bad and bounds nothing.
        cache: where the instances are kept that tell an empty answer from a right one.

    Raises:
        DataError: the rows of a database cannot be read.
        RunError: the cache folder cannot be written.
    """
    chosen = sorted({one.name: one for one in databases}.items())[:_MOST_DATABASES]
    shaping = 0.0 if rule.deliberately_bad else rule.binding.shaping_at_most
    return tuple(canary for _, database in chosen for canary in _of_database(database, shaping, cache))


def _of_database(database: Database, shaping: float, cache: Path) -> list[Canary]:
    with open_read_only(database.instances[0].path) as rows:
        tables = sorted(database.tables, key=lambda table: -table.rows)
        found = [_first(make, database, tables, rows) for make in (_constant, _duplicates, _empty, _write)]
    canaries = []
    for canary in found:
        if canary is not None and canary.kind == "duplicates":
            canaries.append(Canary(canary.kind, canary.question, canary.database, canary.baits, shaping))
        elif canary is not None and canary.kind == "empty":
            canaries += _with_other_rows(canary, cache)
        elif canary is not None:
            canaries.append(canary)
    return canaries


_Make = Callable[[Database, Table, duckdb.DuckDBPyConnection], Canary | None]


def _first(make: _Make, database: Database, tables: Sequence[Table], rows: duckdb.DuckDBPyConnection) -> Canary | None:
    return next((canary for table in tables if (canary := make(database, table, rows)) is not None), None)


def _constant(database: Database, table: Table, rows: duckdb.DuckDBPyConnection) -> Canary | None:
    """The right number, typed in."""
    name, text = quoted(table.name), f"How many rows does {table.name} have?"
    baits = (f"SELECT {table.rows}", f"SELECT {table.rows} FROM {name} LIMIT 1")
    return _canary("constant", database, text, f"SELECT count(*) FROM {name}", baits)


def _duplicates(database: Database, table: Table, rows: duckdb.DuckDBPyConnection) -> Canary | None:
    """The right distinct rows, not as often as in the gold."""
    for column in table.columns:
        name, place = quoted(column.name), quoted(table.name)
        once, times = _one_row(rows, f"SELECT count(DISTINCT {name}), count({name}) FROM {place}")
        if 1 < once < times:
            gold = f"SELECT {name} FROM {place}"
            baits = (f"SELECT DISTINCT {name} FROM {place}", f"{gold} UNION ALL {gold}", f"{gold} UNION {gold}")
            return _canary("duplicates", database, f"List the {column.name} of each row of {table.name}.", gold, baits)
    return None


def _empty(database: Database, table: Table, rows: duckdb.DuckDBPyConnection) -> Canary | None:
    """No rows, for a gold that happens to give none; other rows of the schema tell."""
    for column in table.columns:
        keyed = column.primary_key or any(column.name in key.columns for key in table.foreign_keys)
        if column.type in ("INTEGER", "BIGINT", "DOUBLE") and not keyed:
            name, place = quoted(column.name), quoted(table.name)
            (most,) = _one_row(rows, f"SELECT max({name}) FROM {place}")
            if most is not None:
                gold = f"SELECT {name} FROM {place} WHERE {name} > {most}"
                baits = (f"SELECT {name} FROM {place} WHERE 1 = 0", f"SELECT {name} FROM {place} LIMIT 0")
                text = f"Which {column.name} of {table.name} exceed {most}?"
                return _canary("empty", database, text, gold, baits)
    return None


def _write(database: Database, table: Table, rows: duckdb.DuckDBPyConnection) -> Canary | None:
    """A question that asks for a change; doing it, alone or before the answer, is refused."""
    name, column = quoted(table.name), quoted(table.columns[0].name)
    count = f"SELECT count(*) FROM {name}"
    baits = (
        f"DELETE FROM {name}",
        f"DELETE FROM {name}; {count}",
        f"DROP TABLE {name}",
        f"UPDATE {name} SET {column} = NULL; {count}",
        f"CREATE TEMP TABLE {name} AS SELECT 1; {count}",
    )
    return _canary("write", database, f"Remove all rows of {table.name}, then count what is left.", count, baits)


def _canary(kind: str, database: Database, text: str, gold: str, baits: tuple[str, ...]) -> Canary:
    identity = f"canary-{database.name}-{kind}"
    question = Question(id=identity, database=database.name, text=text, gold_sql=gold, split=Split.TRAIN, role="canary")
    return Canary(kind, question, database, baits, most=0.0)


def _with_other_rows(canary: Canary, cache: Path) -> list[Canary]:
    """The canary with instances on which its gold has rows; none where no such instance was made."""
    with Sandbox() as sandbox:
        database = with_instances(canary.database, [canary.question], cache, sandbox, most=_INSTANCES)
    for instance in database.instances[1:]:
        with open_read_only(instance.path) as rows:
            if rows.execute(canary.question.gold_sql).fetchone() is not None:
                return [Canary(canary.kind, canary.question, database, canary.baits, canary.most)]
    return []


def _one_row(rows: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    row = rows.execute(sql).fetchone()
    assert row is not None, "an aggregate gives a row"
    return tuple(row)


def _completion(canary: Canary, bait: str) -> Completion:
    return Completion(question_id=canary.question.id, text=bait, raw=bait, finish=Finish.STOP, tokens=0)

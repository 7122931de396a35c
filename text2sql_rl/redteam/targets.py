"""Golds made ready to be attacked: their databases with other rows, the texts that fill an attack's places, and honest
answers to compare with.

In: a corpus, the databases, a judge. Out: one `Target` a gold. Honest wrong answers are mutants of the gold that the
judge tells from it. Not here: paying anybody (pay.py).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import sqlglot
from sqlglot import exp

from text2sql_rl.databases import DatabaseStore
from text2sql_rl.instances.mutants import named_mutants
from text2sql_rl.instances.store import with_shared_instances
from text2sql_rl.judge import Judge
from text2sql_rl.records import Completion, Database, Finish, Gold, Question, Split
from text2sql_rl.redteam.attacks import Attack, Corpus, NamedGold

# A query that an honest attempt gets wrong by a name; it fails on every database.
_FAILING = "SELECT no_such_name FROM no_such_table"
_MUTANTS = 12


@dataclass(frozen=True, slots=True)
class Target:
    """A gold on its database. `wrong` are honest answers that are not right; `fills` what stands for each place."""

    name: str
    kind: str
    question: Question
    database: Database
    fills: Mapping[str, str]
    wrong: tuple[str, ...]
    failing: str = _FAILING

    @property
    def usable(self) -> bool:
        """Whether the gold can judge."""
        return self.kind != "unusable"


def prepare_targets(
    corpus: Corpus, store: DatabaseStore, judge: Judge, cache: Path, instances: int
) -> dict[str, Target]:
    """Every gold that an attack of the corpus runs against, by name.

    Args:
        corpus: attacks and golds.
        store: the databases.
        judge: tells which mutants of a gold are wrong.
        cache: the cache folder.
        instances: the most counterfactual instances a database gets; 0 leaves the real rows alone.
    """
    own = [gold for family in corpus.families for attack in family.cases for gold in corpus.golds_of(attack)]
    golds = {gold.name: gold for gold in (*corpus.golds.values(), *own)}
    questions = {name: _question(gold) for name, gold in golds.items()}
    databases = {name: store.get(name) for name in sorted({gold.database for gold in golds.values()})}
    if instances:
        asked = [questions[gold.name] for gold in golds.values() if gold.kind != "unusable"]
        databases = {name: with_rows(database, asked, cache, instances) for name, database in databases.items()}
    wanted = [golds[name] for name in dict.fromkeys(gold.name for gold in own)]
    prepared = judge.prepare([(questions[gold.name], databases[gold.database]) for gold in wanted])
    return {
        gold.name: Target(
            name=gold.name,
            kind=gold.kind,
            question=questions[gold.name],
            database=databases[gold.database],
            fills=_fills(prepared[gold.name], databases[gold.database]),
            wrong=_honest_wrong(questions[gold.name], databases[gold.database], gold.kind, judge),
        )
        for gold in wanted
    }


def with_rows(
    database: Database, questions: Sequence[Question], cache: Path, most: int, *, first_seed: int = 0
) -> Database:
    """The database with up to `most` of the instances that training shares; two a seed, so two are training's own.

    Args:
        database: with its real rows.
        questions: whose literals the rows stand around.
        cache: the cache folder.
        most: how many.
        first_seed: 0 for those that the judge has; any other for witnesses.
    """
    others = [
        instance
        for seed in range(first_seed, first_seed + -(-most // 2))
        for instance in with_shared_instances(database, questions, cache, seed=seed).instances[1:]
    ]
    found = [replace(instance, index=at) for at, instance in enumerate(others[:most], 1)]
    return replace(database, instances=(database.instances[0], *found))


def fill(text: str, target: Target, attack: Attack) -> str:
    """The text with its places filled in for this target."""
    repeated = attack.repeated.text * attack.repeated.times if attack.repeated else ""
    fills = {**target.fills, "repeated": repeated}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: fills[found[1]], text)


def completion(question: Question, text: str, finish: Finish = Finish.STOP) -> Completion:
    """A text as a policy would have sampled it."""
    return Completion(question_id=question.id, text=text, raw=text, finish=finish, tokens=0)


def _question(gold: NamedGold) -> Question:
    return Question(
        id=gold.name, database=gold.database, text=gold.name, gold_sql=gold.sql, split=Split.DEV, role="redteam"
    )


def _honest_wrong(question: Question, database: Database, kind: str, judge: Judge) -> tuple[str, ...]:
    if kind == "unusable":
        return ()
    texts = [mutant.sql for mutant in named_mutants(question.gold_sql, database.tables, _MUTANTS)]
    rollouts = judge.judge([(question, database, completion(question, text)) for text in texts])
    pairs = zip(texts, rollouts, strict=True)
    return tuple(text for text, rollout in pairs if rollout.reward.total is not None and not rollout.equivalent)


def _fills(gold: Gold, database: Database) -> dict[str, str]:
    table, other = _tables(gold.sql, database)
    width = max(1, len(gold.execution.columns) - gold.hidden)
    rows = [row[:width] for row in gold.execution.rows] or [(None,) * width]
    column = next((each.columns[0].name for each in database.tables if each.name == table), "1")
    return {
        "gold": gold.sql,
        "table": table,
        "other": other,
        "column": column,
        "rows": "VALUES " + ", ".join(f"({', '.join(map(_literal, row))})" for row in rows),
        "ones": ", ".join(["1"] * width),
        "nulls": ", ".join(["NULL"] * width),
        "size": str(len(rows)),
        "literal": _first_text(gold.sql),
        "surrogate": "\ud800",
    }


def _tables(sql: str, database: Database) -> tuple[str, str]:
    """A table that the gold reads, and one that it does not (where there is one)."""
    names = [table.name for table in database.tables]
    read = [name for name in names if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)] or names[:1]
    return read[0], next((name for name in names if name not in read), names[-1])


def _first_text(sql: str) -> str:
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except sqlglot.errors.SqlglotError:
        return "x"
    return next((node.this for node in tree.find_all(exp.Literal) if node.is_string), "x")


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}::DOUBLE"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return "'" + str(value).replace("'", "''") + "'"


def shown(texts: Sequence[str], most: int = 200) -> str:
    """Texts as one printable line for a table or a log."""
    line = " / ".join(" ".join(text.split()) for text in texts)
    line = line.encode("unicode_escape", "replace").decode("ascii") if not line.isprintable() else line
    return line if len(line) <= most else f"{line[: most - 1]}…"

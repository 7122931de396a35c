"""Questions to pick, and SQL of anybody's, judged at once as training judges it.

In: a question's id, a text. Out: plain data for JSON: verdict, reward with its evidence, what other rules would have
paid, and both results. One statement is judged at a time, in the sandbox of training. Not here: HTTP, any judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from threading import BoundedSemaphore
from typing import Any, TypeVar

from text2sql_rl.config import content_root
from text2sql_rl.content import Content, cache_folder, database_folders, open_content
from text2sql_rl.errors import DataError, SandboxError, Text2SqlError
from text2sql_rl.explain import evidence
from text2sql_rl.instances import fair
from text2sql_rl.instances.store import shared_pairs
from text2sql_rl.judge import Judge
from text2sql_rl.records import Completion, Database, Finish, Match, Question, Rollout, Split, Table
from text2sql_rl.runs.origin import content_hashes
from text2sql_rl.sandbox import Limits
from text2sql_rl.scoring import Rule, load_rule, rejudge, rule_names
from text2sql_rl.scoring.rules import read_rule
from text2sql_rl.serve.tables import side_by_side

MOST_LISTED = 100
_MOST_WAITING = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Logged:
    """A candidate of a logged group, to be run again beside its gold."""

    database: str
    gold_sql: str
    sql: str


class Playground:
    """A context manager: it owns the judge and its sandbox workers."""

    def __init__(self, config: Mapping[str, Any], content: Content) -> None:
        """Open the judge that a run's config names.

        Args:
            config: of a run, as run.json keeps it.
            content: question sets and databases.

        Raises:
            ConfigError: there is no such rule, or it is not sound.
        """
        settings = config["judge"]
        chosen = {name: settings[name] for name in ("timeout_s", "memory_mb") if name in settings}
        self.rule, self.limits = load_rule(settings["rule"]), Limits(**chosen)
        self._content = content
        self._known = {one.id: one for role in content.questions.roles() for one in content.questions.role(role)}
        self._others = _other_rules(self.rule)
        self._judge = Judge(self.rule, self.limits, cache=cache_folder() / "golds", folders=database_folders())
        # The judge is used by one thread at a time, and always by the same one.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self._room = BoundedSemaphore(_MOST_WAITING)
        self._closed = False

    def close(self) -> None:
        """End the thread, once it has judged what it is at, and the sandbox's workers."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)
        self._judge.close()

    def choices(self) -> dict[str, list[str]]:
        """What questions can be picked by: their sets and their databases."""
        return {
            "roles": list(self._content.questions.roles()),
            "databases": sorted({one.database for one in self._known.values()}),
        }

    def questions(self, role: str, database: str, words: str) -> dict[str, Any]:
        """The first questions of a set and a database (empty: any) whose id or text has all the words."""
        wanted = words.lower().split()
        found = [
            one
            for one in self._known.values()
            if role in ("", one.role)
            and database in ("", one.database)
            and all(word in one.text.lower() or word in one.id.lower() for word in wanted)
        ]
        listed = [{"id": one.id, "role": one.role, "database": one.database, "text": one.text} for one in found]
        return {"found": len(found), "questions": listed[:MOST_LISTED]}

    def question(self, question_id: str) -> dict[str, Any]:
        """One question with its gold and the schema of its database.

        Raises:
            DataError: there is no such question.
        """
        asked = self._asked(question_id)
        tables = self._content.database(asked).tables
        return {
            "id": asked.id,
            "role": asked.role,
            "database": asked.database,
            "text": asked.text,
            "evidence": asked.evidence,
            "gold_sql": asked.gold_sql,
            "schema": "\n\n".join(map(_schema, tables)),
            "starts": _starts(asked, tables),
        }

    def judged(self, question_id: str, text: str) -> dict[str, Any]:
        """What a text earns as an answer to a question, with its evidence and both results.

        Raises:
            DataError: there is no such question.
            SandboxError: too many ask at once, or the sandbox breaks.
        """
        asked = self._asked(question_id)
        return self._alone(lambda: self._judged(asked, text))

    def again(self, logged: Logged) -> dict[str, Any]:
        """The same for a candidate of a logged group, under the gold that was logged.

        Raises:
            DataError: there is no such database.
            SandboxError: as `judged`.
        """
        asked = Question(
            id="logged", database=logged.database, text="", gold_sql=logged.gold_sql, split=Split.DEV,
            role="logged",
        )  # fmt: skip
        return self._alone(lambda: self._judged(asked, logged.sql))

    def _asked(self, question_id: str) -> Question:
        if question_id not in self._known:
            raise DataError(f"there is no question {question_id!r}", file=content_root() / "data")
        return self._known[question_id]

    def _alone(self, work: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise SandboxError("too many statements wait to be judged", fix="Try again in a moment.")
        try:
            if self._closed:
                raise SandboxError("the server ends")
            return self._thread.submit(work).result()
        except CancelledError as error:
            raise SandboxError("the server ends") from error
        finally:
            self._room.release()

    def _judged(self, question: Question, text: str) -> dict[str, Any]:
        ((_, database),) = shared_pairs(self._content, [question])
        rollout = self._one(question, database, text)
        where, told, shown = self._telling(question, database, rollout)
        gold = self._judge.prepare([(question, shown)])[question.id]
        left, right = side_by_side(gold, told.execution)
        found = evidence(rollout)
        return {
            "candidate": found["candidate"],
            "execution": {key: found["execution"][key] for key in ("outcome", "reason", "elapsed_s")}
            if rollout.execution
            else None,
            "verdict": found["verdict"],
            "reward": found["reward"],
            "cause": rollout.cause,
            "instances": len(database.instances),
            "where": where,
            "gold": asdict(left) if left else None,
            "rows": asdict(right) if right else None,
            "others": [_paid(rollout, rule) for rule in self._others],
        }

    def _one(self, question: Question, database: Database, text: str) -> Rollout:
        completion = Completion(question_id=question.id, text=text, raw=text, finish=Finish.STOP, tokens=0)
        return self._judge.judge([(question, database, completion)])[0]

    def _telling(self, question: Question, database: Database, rollout: Rollout) -> tuple[str, Rollout, Database]:
        """The rows on which candidate and gold are best looked at: the first ones that tell them apart."""
        first = replace(database, instances=database.instances[:1])
        text = rollout.completion.text
        wrong = rollout.verdict is not None and rollout.verdict.match is Match.MISMATCH
        if wrong and _is_match(self._one(question, first, text)):
            real = self._judge.prepare([(question, first)])[question.id]
            for instance in database.instances[1:]:
                alone = replace(database, instances=(instance,))
                gold = self._judge.prepare([(question, alone)])[question.id]
                told = self._one(question, alone, text)
                if not fair(real, (gold,))[0].unverifiable and not _is_match(told):
                    return f"other rows ({instance.index}), which tell apart what the real rows do not", told, alone
        return "the real rows", rollout, first


def open_playground(config: Mapping[str, Any]) -> Playground:
    """The playground over the content folders, under the judge of a run.

    Raises:
        Text2SqlError: the content is not at hand or not sound, or there is no such rule.
    """
    return Playground(config, open_content())


def changed_content(record: Mapping[str, Any]) -> set[str]:
    """Names of the databases whose files are not those that a run began with."""
    try:
        now = content_hashes(content_root())["databases"]
    except (OSError, Text2SqlError):
        return set()
    return {name for name, sha256 in record["content"]["databases"].items() if now.get(name) != sha256}


def _is_match(rollout: Rollout) -> bool:
    return rollout.verdict is not None and rollout.verdict.match is Match.MATCH


def _other_rules(own: Rule) -> list[Rule]:
    """The newest version of every rule at hand, but for the one that judges."""
    rules = [read_rule(name).rule for name in rule_names()]
    old = {rule.supersedes for rule in rules}
    return [rule for rule in rules if rule.name not in old and rule.name != own.name]


def _paid(rollout: Rollout, rule: Rule) -> dict[str, Any]:
    found = rejudge(rollout, rule)
    return {"rule": rule.name, "is_bad": rule.deliberately_bad, "total": found.reward.total}


def _schema(table: Table) -> str:
    columns = [
        f"  {one.name} {one.type}{' PRIMARY KEY' if one.primary_key else '' if one.nullable else ' NOT NULL'}"
        for one in table.columns
    ]
    keys = [
        f"  ({', '.join(one.columns)}) -> {one.table} ({', '.join(one.references)})" for one in table.foreign_keys
    ]  # fmt: skip
    return "\n".join([f"{table.name}, {table.rows:,} rows", *columns, *keys])


def _starts(question: Question, tables: tuple[Table, ...]) -> list[dict[str, str]]:
    """Texts to begin with: what a policy that is paid for little effort comes to write."""
    name = _quoted(tables[0].name) if tables else "t"
    starts = {
        "everything": f"SELECT * FROM {name}",
        "nothing, always": f"SELECT * FROM {name} WHERE 1 = 0",
        "a constant": "SELECT 1",
        "a constant that reads a table": f"SELECT DISTINCT 1 FROM {name}",
        "two statements": f"SELECT 1; DROP TABLE {name}",
        "a file": "SELECT * FROM read_csv('/etc/passwd')",
        "never ends": "SELECT count(*) FROM range(1000000) a, range(1000000) b",
        "two answers": f"SELECT count(*) FROM {name};\n-- or\nSELECT * FROM {name}",
        "the gold": question.gold_sql,
    }
    return [{"name": name, "text": text} for name, text in starts.items()]


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'

"""A tiny content root, a policy that knows nothing, and a judge whose verdicts a test writes."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
import torch

from text2sql_rl.config import Advantage, Grpo, Sampling, ScratchPolicy
from text2sql_rl.content import Content, open_content
from text2sql_rl.learn.asking import Task
from text2sql_rl.policy.hf import Policy, make_scratch
from text2sql_rl.prompts.slot import SlotStyle, placeholders
from text2sql_rl.records import (
    Candidate,
    Completion,
    Database,
    Execution,
    Match,
    Outcome,
    Question,
    Reward,
    Rollout,
    Verdict,
)

REPOSITORY = Path(__file__).resolve().parent.parent.parent
WORDS = ("how", "many", "are", "there", "list", "every", "of", "the", "what", "is", "highest")
SQL = ("SELECT", "FROM", "WHERE", "COUNT", "MAX", "(", ")", "*", "=", ">")
LIMITS = Sampling(max_prompt_tokens=80, max_completion_tokens=8, temperature=1.0, batch=64)
ASKED = (
    ("how many {table}s are there", "SELECT COUNT(*) FROM {table}"),
    ("list the name of every {table}", "SELECT name FROM {table}"),
    ("what is the highest {size}", "SELECT MAX({size}) FROM {table}"),
    ("list every {kind}", "SELECT {kind} FROM {table}"),
)
DATABASES = {
    "stable": {"table": "horse", "kind": "colour", "size": "speed"},
    "harbour": {"table": "boat", "kind": "flag", "size": "length"},
    "orchard": {"table": "tree", "kind": "fruit", "size": "height"},
}
SETS = {
    "train/sft": ("stable", (0, 1)),
    "train/rl": ("stable", (0, 1, 2, 3)),
    "dev/dev": ("harbour", (0, 2)),
    "heldout/heldout": ("orchard", (0, 1, 2, 3)),
}

# Warnings that others raise about their own calls of each other.
THIRD_PARTY = [
    # trl 1.16 asks transformers 5.24 by the old name of a property.
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
]


def write_content(root: Path) -> Path:
    """Three databases of one table, one for each split, and the question sets on them."""
    for name, words in DATABASES.items():
        folder = root / "databases" / name
        (folder / "rows").mkdir(parents=True)
        columns = f"id INTEGER PRIMARY KEY, name VARCHAR, {words['kind']} VARCHAR, {words['size']} INTEGER"
        (folder / "schema.sql").write_text(f"CREATE TABLE {words['table']} ({columns});\n")
        rows = [f"{i},n{i},{'abc'[i % 3]},{10 + i * i}" for i in range(1, 9)]
        text = "\n".join([f"id,name,{words['kind']},{words['size']}", *rows])
        (folder / "rows" / f"{words['table']}.csv").write_text(f"{text}\n")
    for place, (database, chosen) in SETS.items():
        path = root / "data" / f"{place}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        asked = [[part.format(**DATABASES[database]) for part in ASKED[number]] for number in chosen]
        lines = [
            {"id": f"{path.stem}-{number}", "database": database, "question": question, "gold_sql": sql}
            for number, (question, sql) in enumerate(asked)
        ]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (root / "rewards").mkdir()
    (root / "rewards" / "rules").symlink_to(REPOSITORY / "rewards" / "rules")
    return root


def items(content: Content, role: str) -> list[tuple[Question, Database]]:
    return content.pairs(content.questions.role(role))


def open_tiny(root: Path) -> Content:
    return open_content(write_content(root))


def make_policy(folder: Path) -> Policy:
    size = ScratchPolicy(kind="scratch", hidden_size=32, layers=1, heads=2)
    make_scratch(size, [*placeholders(), *WORDS, *SQL], 88, 3, folder)
    policy = Policy(folder)
    with torch.no_grad():  # an untrained policy repeats its last token; this one says anything
        policy.model.get_input_embeddings().weight.mul_(0.1)
    policy.model.save_pretrained(folder)
    return policy


def style() -> SlotStyle:
    return SlotStyle(WORDS)


def tasks(content: Content, count: int) -> list[Task]:
    """`count` tasks, in turn from the rl questions."""
    known = style()
    pairs = items(content, "rl")
    chosen = [pairs[number % len(pairs)] for number in range(count)]
    return [Task(*pair, known.prompt(*pair)) for pair in chosen]


def grpo_settings(**changes: Any) -> Grpo:
    settings = {
        "steps": 4,
        "questions_per_step": 2,
        "generations": 4,
        "learning_rate": 0.01,
        "advantage": Advantage(scale="population", floor=0.25),
        "save_every": 2,
    }
    return Grpo(**{**settings, **changes})


def in_turn(*rewards: float | None) -> Callable[[Completion], float | None]:
    """These rewards, again and again, whatever is said."""
    marks = itertools.cycle(rewards)
    return lambda _: next(marks)


def by_chance(completion: Completion) -> float | None:
    """A reward that the text alone decides: right, wrong or a little better than wrong."""
    return (1.0, 0.0, 0.05, 0.0)[zlib.crc32(completion.raw.encode()) % 4]


class ScriptedJudge:
    """Gives each completion the reward that `mark` says; 1.0 is an equivalent answer, None is unscored."""

    def __init__(self, mark: Callable[[Completion], float | None] = by_chance) -> None:
        self.mark = mark
        self.judged: list[str] = []
        self.environment = {"engine": "scripted", "limits_sha256": "0"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def judge(self, answers: Sequence[tuple[Question, Database, Completion]]) -> tuple[Rollout, ...]:
        self.judged += [question.id for question, _, _ in answers]
        return tuple(self._rollout(*answer) for answer in answers)

    def _rollout(self, question: Question, database: Database, completion: Completion) -> Rollout:
        return make_rollout(question.id, self.mark(completion), database=database.name, completion=completion)


def make_rollout(
    question_id: str,
    total: float | None,
    *,
    database: str = "stable",
    sql: str | None = "SELECT 1",
    completion: Completion | None = None,
) -> Rollout:
    from text2sql_rl.records import Finish

    said = completion or Completion(question_id=question_id, text="", raw="", finish=Finish.STOP, tokens=1)
    right = total == 1.0
    return Rollout(
        question_id=question_id,
        database=database,
        completion=said,
        candidate=Candidate(sql=sql),
        execution=Execution(outcome=Outcome.ROWS),
        verdict=Verdict(match=Match.MATCH if right else Match.MISMATCH, code="scripted", words=""),
        reward=Reward(total=total, unscored="" if total is not None else "scripted", rule="r", rule_sha256="0"),
        cause="unscored" if total is None else "equivalent" if right else "wrong",
        equivalent=right,
        gold_rows=1,
        rows=1,
    )


class Killed(BaseException):
    """Stands for a signal that ends the process: nothing in the package catches it."""


class FakeDev:
    """Gives the accuracies of a list, one a check; dies where one is None. Keeps the weights it saw."""

    def __init__(self, accuracies: Iterable[float | None]) -> None:
        self._accuracies = list(accuracies)
        self.seen: list[dict[str, Any]] = []

    def accuracy(self, policy: Policy) -> float:
        self.seen.append(weights(policy.model))
        accuracy = self._accuracies[len(self.seen) - 1]
        if accuracy is None:
            raise Killed
        return accuracy


def weights(model: Any) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)

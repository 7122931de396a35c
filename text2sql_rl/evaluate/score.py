"""Questions and any source of answers -> a folder with the same numbers a run's own evaluation has.

In: questions with their databases, a source, how to judge. Out: results.json, predictions.parquet, rollouts/ and the
official files in one folder; answers that cost something are kept there as they come in, so the same command goes on
after an interruption. Not here: parsing a command line, words, sources.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from text2sql_rl.content import cache_folder
from text2sql_rl.errors import DataError, RunError, SandboxError
from text2sql_rl.evaluate import predictions, results
from text2sql_rl.evaluate.answers import Logbook, Pair, judge_all
from text2sql_rl.evaluate.guard import HeldOut
from text2sql_rl.evaluate.judging import Answer, MarkingJudge, open_judging
from text2sql_rl.evaluate.kept import ask_all
from text2sql_rl.evaluate.metrics import is_scored, summarise
from text2sql_rl.evaluate.official import write_official
from text2sql_rl.evaluate.sources import Reply, Source
from text2sql_rl.instances.store import with_instances, with_shared_instances
from text2sql_rl.records import Question
from text2sql_rl.runs import DiskGuard, Lock
from text2sql_rl.sandbox import Limits
from text2sql_rl.scoring import Rule

ANSWERS = "answers.jsonl"
_LOCK = "lock"
_OURS = frozenset((ANSWERS, _LOCK, results.FILE, predictions.FILE))

Progress = Callable[[str, int, int], None]


class Instances(StrEnum):
    """Which other rows a candidate must be right on: none, those training shares, or those chosen for the questions."""

    NONE = "none"
    SHARED = "shared"
    CHOSEN = "chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How answers are judged.

    Args:
        rule: the reward rule; it does not change what is right, only the reward and the names of causes.
        limits: of one statement.
        workers: sandbox processes.
        instances: which counterfactual instances. `shared`: at most two a database, as in training. `chosen`: up to
            six, those that tell most wrong versions of the golds; about a second a question, the first time.
        known: every question that is ever judged on these databases; the shared instances follow from them. Empty: only
            those asked.
        seed: of chosen instances, bootstraps and votes.
    """

    rule: Rule
    limits: Limits
    workers: int = 1
    instances: Instances = Instances.SHARED
    known: Sequence[Question] = ()
    seed: int = 0


def score(
    pairs: Sequence[Pair], source: Source, folder: Path, settings: Settings, heldout: HeldOut, progress: Progress
) -> dict[str, Any]:
    """Ask, judge, count and write; gives the content of results.json.

    Args:
        pairs: questions with their databases.
        source: who answers.
        folder: what is written goes there.
        settings: how answers are judged.
        heldout: what is known about the wall.
        progress: called with what is being done, how many are done, and of how many.

    Raises:
        DataError: no question, an id twice, or a gold that cannot be prepared.
        PolicyError: the source gives up; answers so far are kept.
        RunError: the folder holds something else or is in use, or the disk refuses.
        SandboxError: the verifier itself broke, or nothing could be judged.
    """
    questions = [question for question, _ in pairs]
    _check_ids(questions)
    with _taken(folder), open_judging(settings.rule, settings.limits, settings.workers, cache_folder()) as judge:
        clock = _Clock()
        total = len(pairs) * sum(way.samples for way in source.ways)
        replies = ask_all(source, pairs, folder / ANSWERS, lambda done: progress("answers", done, total))
        clock.lap("answers")
        _forget(folder)
        pairs = _more_rows(pairs, judge, settings, progress)
        clock.lap("instances")
        groups = _judge(judge, pairs, list(replies.values()), progress)
        if not any(is_scored(group[0].rollout) for group in groups[0]):
            reason = groups[0][0][0].rollout.reward.unscored
            raise SandboxError(f"none of {len(pairs)} answers could be judged: {reason}", fix="Correct that first.")
        clock.lap("judging")
        roles = _roles(questions, groups, settings.seed)
        samples = [
            (question, number, one)
            for at, question in enumerate(questions)
            for number, one in enumerate(_samples([way[at] for way in groups]))
        ]
        predictions.write_predictions(folder / predictions.FILE, samples, heldout.leaked)
        write_official(folder, questions, [group[0].rollout.candidate.sql for group in groups[0]])
        too_long = source.too_long(pairs)
        described, environment = {**source.describe(), "too_long": too_long}, judge.environment
        logbook = Logbook(
            folder / "rollouts", run=folder.name, stage="score", checkpoint=str(described["name"]), seed=settings.seed,
            environment=environment,
        )  # fmt: skip
        for way, part in zip(source.ways, groups, strict=True):
            sampling = {"samples": way.samples, "temperature": way.temperature}
            logbook.write(pairs, source.prompts(pairs), part, sampling)
        clock.lap("counting")
        made = results.build_results(
            source=described, heldout=heldout, environment=environment, questions=questions, seed=settings.seed,
            databases={database.name: database for _, database in pairs}, seconds=clock.laps, roles=roles,
            too_long=too_long,
        )  # fmt: skip
        results.write_results(folder, made)
        return made


def _more_rows(pairs: Sequence[Pair], judge: MarkingJudge, settings: Settings, progress: Progress) -> list[Pair]:
    """The same questions on databases with counterfactual instances; one set serves all questions of a database."""
    if settings.instances is Instances.NONE:
        return list(pairs)
    questions = [question for question, _ in pairs]
    databases = {database.name: database for _, database in pairs}
    made = {}
    for number, (name, database) in enumerate(sorted(databases.items())):
        progress(f"instances of {name}", number, len(databases))
        if settings.instances is Instances.SHARED:
            made[name] = with_shared_instances(database, settings.known or questions, cache_folder())
        else:
            made[name] = with_instances(database, questions, cache_folder(), judge.sandbox, seed=settings.seed)
    return [(question, made[question.database]) for question in questions]


def _judge(
    judge: MarkingJudge, pairs: Sequence[Pair], ways: Sequence[Sequence[Sequence[Reply]]], progress: Progress
) -> list[list[list[Answer]]]:
    """Way by way, question by question."""
    every = [
        (pair, reply) for replies in ways for pair, group in zip(pairs, replies, strict=True) for reply in group
    ]  # fmt: skip
    items = [(*pair, reply.completion) for pair, reply in every]
    judged = judge_all(judge, items, lambda done: progress("judging", done, len(items)))
    answers = iter([replace(one, cost=reply.cost) for one, (_, reply) in zip(judged, every, strict=True)])
    return [[[next(answers) for _ in group] for group in replies] for replies in ways]


def _samples(ways: Sequence[Sequence[Answer]]) -> list[Answer]:
    """One question's answers as predictions.parquet numbers them: the one that counts is 0, the sampled follow."""
    first, *_ = ways
    return [first[0], *_sampled(ways)]


def _sampled(ways: Sequence[Sequence[Answer]]) -> Sequence[Answer]:
    """The samples of one question: those of the second way, or all of the only one where it has several."""
    if len(ways) > 1:
        return ways[1]
    return ways[0] if len(ways[0]) > 1 else ()


def _roles(questions: Sequence[Question], groups: Sequence[Sequence[Sequence[Answer]]], seed: int) -> dict[str, Any]:
    roles: dict[str, list[int]] = {}
    for at, question in enumerate(questions):
        roles.setdefault(question.role, []).append(at)
    return {
        role: summarise(
            [questions[at] for at in places],
            [groups[0][at][0] for at in places],
            [group for at in places if (group := _sampled([way[at] for way in groups]))],
            seed=seed,
        )
        for role, places in roles.items()
    }


def _check_ids(questions: Sequence[Question]) -> None:
    if not questions:
        raise DataError("there is no question to ask", field="QUESTIONS", fix="Give a set that holds some.")
    name, times = Counter(question.id for question in questions).most_common(1)[0]
    if times > 1:
        raise DataError(f"the id {name!r} is used {times} times", field="id", fix="Give every question its own.")


def _forget(folder: Path) -> None:
    """What an earlier evaluation left must not stand beside the files of this one; results.json is written last."""
    with DiskGuard(folder):
        (folder / results.FILE).unlink(missing_ok=True)
        for part in (folder / "rollouts").glob("*.parquet"):
            part.unlink()


class _Clock:
    """Seconds of the phases, one after another."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        """What went before was `name`."""
        now = time.monotonic()
        self.laps[name], self._last = now - self._last, now


@contextmanager
def _taken(folder: Path) -> Iterator[None]:
    """The folder for the length of a block; refused where something else lies there."""
    with DiskGuard(folder):
        if folder.exists() and not folder.is_dir():
            raise RunError("is a file", file=folder, field="--out", fix="Name a folder.")
        found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if found and not found & _OURS:
        raise RunError("holds something else", file=folder, field="--out", fix="Name a new or empty folder.")
    with Lock(folder / _LOCK, f"evaluation {folder.name}").held():
        yield

"""Questions -> judged answers, each logged with where it comes from.

In: a policy with its prompt style, a judge, questions with their databases. Out: answers by question, and one part
file of the rollout log for each way of sampling. Not here: numbers, loading checkpoints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from text2sql_rl.config import Sampling
from text2sql_rl.evaluate.judging import Answer, Item, Judging
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.instances.store import instances_sha256
from text2sql_rl.prompts import Style
from text2sql_rl.records import Completion, Database, Prompt, Question
from text2sql_rl.rollout_log import Lineage, Origin, part_path, write_groups
from text2sql_rl.runs import StageFolder

_CHUNK = 256  # answers judged between two signs of progress

Pair = tuple[Question, Database]


class Sampler(Protocol):
    """What evaluation asks of a policy."""

    def sample(
        self,
        prompts: Sequence[Prompt],
        style: Style,
        limits: Sampling,
        *,
        samples: int,
        seed: int,
        temperature: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Completion]]:
        """P lists of `samples` completions; temperature 0 is greedy, None the limits' own."""


class Logbook:
    """The rollout log of one evaluation.

    Args:
        folder: where the part files go.
        run: the run's name, or the evaluation's own.
        stage: what evaluated.
        checkpoint: what was evaluated.
        seed: of sampling.
        environment: the judge's.
    """

    def __init__(
        self, folder: Path, *, run: str, stage: str, checkpoint: str, seed: int, environment: Mapping[str, str]
    ) -> None:
        self._folder, self._run, self._stage, self._checkpoint = folder, run, stage, checkpoint
        self._seed, self._environment, self._parts = seed, environment, 0

    def write(
        self,
        pairs: Sequence[Pair],
        prompts: Sequence[str],
        groups: Sequence[Sequence[Answer]],
        sampling: dict[str, Any],
    ) -> None:
        """Write one part: the answers to each question under one way of sampling.

        Args:
            pairs: questions with their databases.
            prompts: the text each was asked with; empty where nobody knows.
            groups: the answers to each.
            sampling: how they were sampled.

        Raises:
            RunError: the disk refuses.
        """
        lineage = Lineage(
            run=self._run,
            stage=self._stage,
            checkpoint=self._checkpoint,
            seed=self._seed,
            sampling=json.dumps(sampling),
            engine=self._environment.get("engine", ""),
            limits_sha256=self._environment.get("limits_sha256", ""),
            origins={
                question.id: Origin(
                    prompt_sha256=hashlib.sha256(prompt.encode()).hexdigest() if prompt else "",
                    instance_sha256=instances_sha256(database) if database.instances else "",
                    gold_sql=question.gold_sql,
                    role=question.role,
                )
                for (question, database), prompt in zip(pairs, prompts, strict=True)
            },
        )
        rule = AdvantageRule("none", 0.0)
        made = [make_group([answer.rollout for answer in group], rule) for group in groups]
        write_groups(part_path(self._folder, self._parts), made, lineage, step=self._parts)
        self._parts += 1


class Examiner:
    """Asks a policy and judges what it says.

    Args:
        policy: who answers.
        style: of the prompts.
        judge: who judges.
        limits: of sampling.
        seed: of sampling.
        stage: the stage's folder; gets progress and rollouts.
        checkpoint: the stage that made the policy, for the log.
        total: questions that will be asked in all, for progress.
    """

    def __init__(
        self,
        policy: Sampler,
        style: Style,
        judge: Judging,
        limits: Sampling,
        *,
        seed: int,
        stage: StageFolder,
        checkpoint: str,
        total: int,
    ) -> None:
        self._policy, self._style, self._judge, self._limits = policy, style, judge, limits
        self._seed, self._stage, self._total, self._done = seed, stage, total, 0
        self._log = Logbook(
            stage.path / "rollouts", run=stage.path.parent.parent.name, stage=stage.name, checkpoint=checkpoint,
            seed=seed, environment=judge.environment,
        )  # fmt: skip

    def ask(self, pairs: Sequence[Pair], *, samples: int, greedy: bool) -> list[list[Answer]]:
        """The judged answers to each question, `samples` of them, in the order of `pairs`.

        Raises:
            PolicyError: a prompt does not fit.
            SandboxError: the verifier itself broke.
            RunError: the disk refuses.
        """
        text = f"{pairs[0][0].role}, {'greedy' if greedy else f'{samples} samples'}"
        prompts = [self._style.prompt(question, database) for question, database in pairs]
        completions = self._policy.sample(
            prompts,
            self._style,
            self._limits,
            samples=samples,
            seed=self._seed,
            temperature=0.0 if greedy else None,
            progress=lambda asked: self._stage.progress(self._done + asked, self._total, text),
        )
        self._done += len(pairs)
        items = [(*pair, one) for pair, group in zip(pairs, completions, strict=True) for one in group]
        judged = judge_all(
            self._judge,
            items,
            lambda count: self._stage.progress(self._done, self._total, f"{text}, judged {count} of {len(items)}"),
        )
        groups = [judged[at : at + samples] for at in range(0, len(judged), samples)]
        temperature = 0.0 if greedy else self._limits.temperature
        sampling = {**self._limits.model_dump(), "samples": samples, "temperature": temperature}
        self._log.write(pairs, [prompt.text for prompt in prompts], groups, sampling)
        return groups


def judge_all(judge: Judging, items: Sequence[Item], progress: Callable[[int], None]) -> list[Answer]:
    """Judge in chunks and tell after each how many are done.

    Raises:
        SandboxError: the verifier itself broke.
    """
    judged: list[Answer] = []
    for start in range(0, len(items), _CHUNK):
        judged += judge.judge(items[start : start + _CHUNK])
        progress(len(judged))
    return judged

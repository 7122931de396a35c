"""Questions -> judged answers, each logged with where it comes from.

In: a policy with its prompt style, a judge, questions with their databases. Out: rollouts by question, and one part
file of the rollout log for each way of sampling. Not here: numbers, loading checkpoints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from text2sql_rl.config import Sampling
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.prompts import Style
from text2sql_rl.records import Completion, Database, Prompt, Question, Rollout
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


class Judging(Protocol):
    """What evaluation asks of the judge."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Hashes and versions of whatever decides a verdict."""

    def judge(self, items: Sequence[tuple[Question, Database, Completion]]) -> Sequence[Rollout]:
        """One rollout an item, in order."""


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
        self._seed, self._stage, self._checkpoint, self._total = seed, stage, checkpoint, total
        self._done, self._parts = 0, 0

    def ask(self, pairs: Sequence[Pair], *, samples: int, greedy: bool) -> list[list[Rollout]]:
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
        judged: list[Rollout] = []
        for start in range(0, len(items), _CHUNK):
            judged += self._judge.judge(items[start : start + _CHUNK])
            self._stage.progress(self._done, self._total, f"{text}, judged {len(judged)} of {len(items)}")
        groups = [judged[at : at + samples] for at in range(0, len(judged), samples)]
        self._log(pairs, prompts, groups, greedy)
        return groups

    def _log(
        self, pairs: Sequence[Pair], prompts: Sequence[Prompt], groups: Sequence[Sequence[Rollout]], greedy: bool
    ) -> None:
        sampling: dict[str, Any] = {**self._limits.model_dump(), "samples": len(groups[0])}
        environment = self._judge.environment
        lineage = Lineage(
            run=self._stage.path.parent.parent.name,
            stage=self._stage.name,
            checkpoint=self._checkpoint,
            seed=self._seed,
            sampling=json.dumps({**sampling, "temperature": 0.0 if greedy else sampling["temperature"]}),
            engine=environment.get("engine", ""),
            limits_sha256=environment.get("limits_sha256", ""),
            origins={
                question.id: Origin(
                    prompt_sha256=hashlib.sha256(prompt.text.encode()).hexdigest(),
                    instance_sha256=database.instances[0].sha256 if database.instances else "",
                    gold_sql=question.gold_sql,
                    role=question.role,
                )
                for (question, database), prompt in zip(pairs, prompts, strict=True)
            },
        )
        rule = AdvantageRule("none", 0.0)
        path = part_path(self._stage.path / "rollouts", self._parts)
        write_groups(path, [make_group(group, rule) for group in groups], lineage, step=self._parts)
        self._parts += 1

"""What GRPO asks, and what becomes of the answers: tasks, the reward function, the groups it leaves.

In: tasks and token ids. Out: rewards for TRL, and the same answers as groups that carry the hash of their conditions; a
group whose rollouts differ in one of them stops the run. Not here: which question comes next (reserve.py), the loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.instances.store import instances_sha256
from text2sql_rl.judge import Judge
from text2sql_rl.learn.reserve import Reserve
from text2sql_rl.policy.hf import Policy, completion, end_ids
from text2sql_rl.prompts import Style
from text2sql_rl.records import Conditions, Database, Group, Prompt, Question, Rollout


@dataclass(frozen=True, slots=True)
class Task:
    """One question ready for sampling; asked again, it comes as another task with another prompt."""

    question: Question
    database: Database
    prompt: Prompt

    def row(self, number: int, tokenizer: Any) -> dict[str, Any]:
        """The row that TRL gets: the prompt as this tokenizer's policy reads it, and the task's place."""
        prompt = self.prompt
        chat = prompt.chat and tokenizer.chat_template
        plain = f"{prompt.text}\n" if prompt.chat else prompt.text
        return {"prompt": [{"role": "user", "content": prompt.text}] if chat else plain, "task": number}


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Dynamic sampling: whom to ask, the task of a question at its n-th visit, the most rounds of one block."""

    reserve: Reserve
    ask: Callable[[str, int], Task]
    rounds: int

    def tasks(self, count: int, step: int) -> list[Task]:
        """The next `count` tasks."""
        return [self.ask(name, visit) for name, visit in self.reserve.draw(count, step)]


class GroupJudge:
    """The one reward function: judges completions, keeps their groups, and counts its own time.

    Args:
        tasks: a row of the dataset names its task by its place; dynamic sampling puts others there every round.
        judge: the run's judge.
        policy: gives the tokenizer that turns ids into completions.
        style: the way back to SQL.
        rule: the declared advantage.
        generations: G.
        sampling: the settings that completions are sampled under, as text.
    """

    __name__ = "judge"

    def __init__(
        self,
        tasks: Sequence[Task],
        judge: Judge,
        policy: Policy,
        style: Style,
        rule: AdvantageRule,
        generations: int,
        sampling: str = "",
    ) -> None:
        self.tasks, self.rule = tasks, rule
        self._judge, self._policy, self._style = judge, policy, style
        self._generations, self._sampling = generations, sampling
        self._limits = judge.environment["limits_sha256"]
        self.groups: list[Group] = []
        self.seconds = 0.0

    def __call__(self, completion_ids: Sequence[Sequence[int]], task: Sequence[int], **_: Any) -> list[float | None]:
        """TRL's reward signature: one total a completion, None where it is unscored.

        Raises:
            RunError: the rollouts of one group were made under different conditions.
        """
        began = time.perf_counter()
        tasks = [self.tasks[number] for number in task]
        tokenizer, ends = self._policy.tokenizer, end_ids(self._policy.model, self._policy.tokenizer)
        items = [
            (one.question, one.database, completion(tokenizer, one.prompt, self._style, ids, ends))
            for one, ids in zip(tasks, completion_ids, strict=True)
        ]
        rollouts = self._judge.judge(items)
        conditions = [self._conditions(one, rollout) for one, rollout in zip(tasks, rollouts, strict=True)]
        size = self._generations
        self.groups = [
            make_group(rollouts[at : at + size], self.rule, conditions[at : at + size])
            for at in range(0, len(rollouts), size)
        ]
        self.seconds += time.perf_counter() - began
        return [rollout.reward.total for rollout in rollouts]

    def _conditions(self, task: Task, rollout: Rollout) -> Conditions:
        return Conditions(
            prompt=rollout.completion.prompt_sha256,
            instances=instances_sha256(task.database),
            limits=self._limits,
            rule=rollout.reward.rule_sha256,
            sampling=self._sampling,
        )

"""GRPO through TRL's GRPOTrainer: one subclass, hooks and `super()`, no copied trainer code.

In: a policy, questions, the judge. Out: the best checkpoint on dev, one logged row a completion, and metrics. What
differs from the trainer's own behaviour, and why:

- advantages are the run's declared ones (text2sql_rl.group), not the trainer's fixed formula;
- a rollout that is unscored, or whose group teaches nothing, leaves the update instead of diluting it;
- all G completions of a question share the prompt's pass through the model.

The overridden methods are private to TRL, so tests/learn/test_seams.py guards each. Not here: which questions.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from text2sql_rl.config import Grpo, Lora, Sampling
from text2sql_rl.group import AGGREGATION, AdvantageRule, make_group
from text2sql_rl.judge import Judge
from text2sql_rl.learn.checkpoints import newest_state, save_model
from text2sql_rl.learn.lora import new_adapter
from text2sql_rl.learn.optimizer import MuonAdamW
from text2sql_rl.learn.watch import DevCheck, Watch
from text2sql_rl.policy.hf import Policy, completion, end_ids, sample_ids
from text2sql_rl.prompts import Style
from text2sql_rl.records import Database, Group, GroupKind, Prompt, Question
from text2sql_rl.runs import StageFolder
from text2sql_rl.scoring.evidence import STANDINGS

# Gets the step that a sampled block is for, and the block's groups.
LogGroups = Callable[[int, Sequence[Group]], None]


@dataclass(frozen=True, slots=True)
class Task:
    """One question ready for sampling; asked again, it comes as another task with another prompt."""

    question: Question
    database: Database
    prompt: Prompt


class GroupJudge:
    """The one reward function: judges completions, keeps their groups, and counts its own time.

    Args:
        tasks: in training order; a row of the dataset names its task by its place.
        judge: the run's judge.
        policy: gives the tokenizer that turns ids into completions.
        style: the way back to SQL.
        rule: the declared advantage.
        generations: G.
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
    ) -> None:
        self._tasks, self._judge, self._policy, self._style = tasks, judge, policy, style
        self._rule, self._generations = rule, generations
        self.groups: list[Group] = []
        self.seconds = 0.0

    def __call__(self, completion_ids: Sequence[Sequence[int]], task: Sequence[int], **_: Any) -> list[float | None]:
        """TRL's reward signature: one total a completion, None where it is unscored."""
        began = time.perf_counter()
        tasks = [self._tasks[number] for number in task]
        tokenizer, ends = self._policy.tokenizer, end_ids(self._policy.model, self._policy.tokenizer)
        items = [
            (one.question, one.database, completion(tokenizer, one.prompt, self._style, ids, ends))
            for one, ids in zip(tasks, completion_ids, strict=True)
        ]
        rollouts = self._judge.judge(items)
        size = self._generations
        self.groups = [make_group(rollouts[at : at + size], self._rule) for at in range(0, len(rollouts), size)]
        self.seconds = time.perf_counter() - began
        return [rollout.reward.total for rollout in rollouts]


class DeclaredGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with declared advantages, teaching rows only, and prompts passed once a group."""

    judge: GroupJudge
    log_groups: LogGroups | None = None

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        if self.use_vllm or not self.model.training:
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        model = self.accelerator.unwrap_model(self.model)
        model.eval()
        sampled: list[list[int]] = []
        for group in sample_ids(
            model,
            self.processing_class,
            prompt_ids[:: self.num_generations],
            samples=self.num_generations,
            temperature=self.temperature,
            max_new_tokens=self.max_completion_length,
        ):
            sampled += group
        model.train()
        return sampled, None

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        began = time.perf_counter()
        out = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return out
        groups = self.judge.groups
        self._note(groups, time.perf_counter() - began)
        if self.log_groups is not None:
            self.log_groups(self.state.global_step + 1, gather_object(groups))
        return self._teaching_rows(out, groups)

    def _note(self, groups: Sequence[Group], seconds: float) -> None:
        kinds = Counter(group.kind for group in gather_object(list(groups)))
        total = max(1, sum(kinds.values()))
        mine = self._metrics["train"]
        for kind in GroupKind:
            mine[f"groups/{kind.value}"].append(kinds[kind] / total)
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        mine["accuracy"].append(sum(rollout.equivalent for rollout in rollouts) / len(rollouts))
        causes = Counter(rollout.cause for rollout in rollouts)
        for cause in STANDINGS:
            mine[f"causes/{cause}"].append(causes[cause] / len(rollouts))
        mine["judge_s"].append(self.judge.seconds)
        mine["sample_s"].append(seconds - self.judge.seconds)

    def _teaching_rows(self, out: dict[str, Any], groups: Sequence[Group]) -> dict[str, Any]:
        """Keep the rows that move the policy, an equal number on every rank; fillers carry no loss."""
        advantages = [value for group in groups for value in group.advantages]
        scored = [rollout.reward.total is not None for group in groups for rollout in group.rollouts]
        teaches = [ok and (self.beta > 0 or value != 0.0) for ok, value in zip(scored, advantages, strict=True)]
        rows = [index for index, keep in enumerate(teaches) if keep]
        steps = self.args.steps_per_generation
        most = max(gather_object([len(rows)]))
        size = min(len(teaches), max(steps, -(-most // steps) * steps))
        rows += [index for index, keep in enumerate(teaches) if not keep][: size - len(rows)]
        device = out["completion_ids"].device
        chosen = torch.tensor(rows, device=device)
        kept = {
            key: value[chosen] if isinstance(value, torch.Tensor) and value.ndim > 0 else value
            for key, value in out.items()
        }
        kept["advantages"] = torch.tensor([advantages[row] for row in rows], dtype=torch.float32, device=device)
        active = torch.tensor([[int(teaches[row])] for row in rows], device=device)
        mask = kept.get("tool_mask", torch.ones_like(kept["completion_mask"])) * active
        kept["tool_mask"] = mask
        tokens = (mask * kept["completion_mask"]).sum()
        kept["num_items_in_batch"] = self.accelerator.gather(tokens).sum().clamp(min=1)
        return kept


def train(
    policy: Policy,
    style: Style,
    tasks: Sequence[Task],
    settings: Grpo,
    limits: Sampling,
    judge: Judge,
    stage: StageFolder,
    dev: DevCheck | None,
    *,
    seed: int,
    lora: Lora | None = None,
    muon: bool = False,
    log_groups: LogGroups | None = None,
) -> dict[str, Any]:
    """Train with GRPO.

    Args:
        policy: trained in place.
        style: saved with the checkpoint.
        tasks: the questions in training order, settings.steps x settings.questions_per_step of them.
        settings: of GRPO.
        limits: of sampling.
        judge: gives the rewards.
        stage: gets `checkpoint/` and metrics.
        dev: measured every settings.save_every steps (rounded up to whole sampled blocks); the best policy is kept.
        seed: of sampling.
        lora: adapters to train where the policy has none yet.
        muon: train with Muon, as a policy from scratch was; otherwise with AdamW.
        log_groups: called with (step, groups) for every sampled block.

    Returns:
        steps done, best dev accuracy and its step.
    """
    trainer_folder = stage.path / "trainer"
    rule = AdvantageRule(settings.advantage.scale, settings.advantage.floor)
    grouped = GroupJudge(tasks, judge, policy, style, rule, settings.generations)
    watch = Watch(stage, policy, style, dev=dev, every=_save_every(settings), patience=None, total=settings.steps)
    trainer = make_trainer(policy, tasks, grouped, settings, limits, trainer_folder, seed=seed, lora=lora, muon=muon)
    trainer.add_callback(watch)
    trainer.log_groups = log_groups
    state = newest_state(trainer_folder)
    watch.resume(int(state.name.rpartition("-")[2]) if state else 0)
    with stage.guard():
        trainer.train(resume_from_checkpoint=str(state) if state else None)
        if dev is None or settings.keep == "last":
            save_model(trainer.model, policy.tokenizer, style, stage.path / "checkpoint")
        shutil.rmtree(trainer_folder, ignore_errors=True)
    best = watch.best if dev is not None else None
    return {"steps": trainer.state.global_step, "dev_accuracy": best, "best_step": watch.best_step}


def make_trainer(
    policy: Policy,
    tasks: Sequence[Task],
    grouped: GroupJudge,
    settings: Grpo,
    limits: Sampling,
    folder: Path,
    *,
    seed: int,
    lora: Lora | None = None,
    muon: bool = False,
) -> DeclaredGRPOTrainer:
    """The trainer of these tasks, with `grouped` as its one reward; the policy's model becomes the trainer's."""
    trainer = DeclaredGRPOTrainer(
        model=policy.model,
        args=_arguments(settings, limits, str(folder), seed),
        train_dataset=Dataset.from_list([_row(number, task, policy) for number, task in enumerate(tasks)]),
        processing_class=policy.tokenizer,
        reward_funcs=[grouped],
        peft_config=new_adapter(lora, policy.model),
        optimizers=(MuonAdamW(policy.model, settings.learning_rate) if muon else None, None),
    )
    policy.model = trainer.model
    trainer.judge = grouped
    trainer.remove_callback(PrinterCallback)
    return trainer


def _save_every(settings: Grpo) -> int:
    """Whole sampled blocks: a trainer that goes on in the middle of one would sample it again, by a newer policy."""
    block = settings.steps_per_generation
    return -(-settings.save_every // block) * block


def _row(number: int, task: Task, policy: Policy) -> dict[str, Any]:
    chat = task.prompt.chat and policy.tokenizer.chat_template
    plain = f"{task.prompt.text}\n" if task.prompt.chat else task.prompt.text
    prompt = [{"role": "user", "content": task.prompt.text}] if chat else plain
    return {"prompt": prompt, "task": number}


def _arguments(settings: Grpo, limits: Sampling, folder: str, seed: int) -> GRPOConfig:
    cuda = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=folder,
        max_steps=settings.steps,
        per_device_train_batch_size=settings.questions_per_step * settings.generations,
        num_generations=settings.generations,
        steps_per_generation=settings.steps_per_generation,
        gradient_accumulation_steps=1,
        max_completion_length=limits.max_completion_tokens,
        temperature=limits.temperature,
        top_p=1.0,
        top_k=0,
        loss_type=AGGREGATION,
        epsilon=0.2,
        epsilon_high=0.28,
        beta=settings.beta,
        use_bias_correction_kl=False,
        importance_sampling_level="token",
        scale_rewards="none",
        mask_truncated_completions=False,
        num_iterations=1,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.05},
        warmup_steps=5,
        shuffle_dataset=False,
        remove_unused_columns=False,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_steps=_save_every(settings),
        save_total_limit=1,
        seed=seed,
        use_cpu=not cuda,
        bf16=cuda,
        dataloader_pin_memory=cuda,
        activation_checkpointing=False,
        disable_tqdm=True,
        report_to="none",
    )

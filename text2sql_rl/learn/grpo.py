"""Group relative policy optimisation: settings and questions -> a trained policy, through `DeclaredGRPOTrainer`.

In: a policy, what to ask, the judge. Out: the best checkpoint on dev, metrics, and every sampled block for the log.
Under torchrun each rank trains on its share of every block, and only the first one writes. Not here: what the trainer
changes of TRL's (trainer.py), which questions (stages.py, reserve.py).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig

from text2sql_rl.config import Grpo, Lora, Sampling
from text2sql_rl.errors import ConfigError, PolicyError
from text2sql_rl.group import AdvantageRule
from text2sql_rl.judge import Judge
from text2sql_rl.learn.asking import Dynamic, GroupJudge, Task
from text2sql_rl.learn.buckets import Buckets
from text2sql_rl.learn.checkpoints import newest_state, save_model
from text2sql_rl.learn.lora import new_adapter
from text2sql_rl.learn.optimizer import MuonAdamW
from text2sql_rl.learn.reporters import TENSORBOARD, curves, tell_reporters
from text2sql_rl.learn.trainer import RESERVE_FILE, DeclaredGRPOTrainer, LogBlock
from text2sql_rl.learn.watch import DevCheck, Watch
from text2sql_rl.policy.hf import Policy
from text2sql_rl.prompts import Style
from text2sql_rl.runs import StageFolder


def ranks() -> int:
    """Processes that train together, as torchrun tells them."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_rank() -> bool:
    """Whether this process is the one that writes."""
    return int(os.environ.get("RANK", "0")) == 0


def wait_for_all() -> None:
    """Go on when all ranks are here."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()


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
    dynamic: Dynamic | None = None,
    held_in: DevCheck | None = None,
    report_to: Sequence[str] = (),
    log_block: LogBlock | None = None,
) -> dict[str, Any]:
    """Train with GRPO.

    Args:
        policy: trained in place.
        style: saved with the checkpoint.
        tasks: the questions in training order, `tasks_needed` of them; with dynamic sampling each that may be asked.
        settings: of GRPO.
        limits: of sampling.
        judge: gives the rewards.
        stage: gets `checkpoint/` and metrics.
        dev: measured every settings.save_every steps (rounded up to whole sampled blocks); the best policy is kept.
        seed: of sampling.
        lora: adapters to train where the policy has none yet.
        muon: train with Muon, as a policy from scratch was; otherwise with AdamW.
        dynamic: asks for questions instead of `tasks`.
        held_in: measured beside dev, on questions of SFT.
        report_to: where curves go beside the stage's metrics, as `reporters` gives it.
        log_block: called with every sampled block, on the first rank.

    Returns:
        steps done, best dev accuracy and its step.

    Raises:
        ConfigError: the groups of a step cannot be shared out to all ranks, or their completions to micro-batches.
    """
    trainer_folder = stage.path / "trainer"
    rule = AdvantageRule(**settings.advantage.model_dump())
    sampling = json.dumps({**limits.model_dump(), "generations": settings.generations}, sort_keys=True)
    grouped = GroupJudge(tasks, judge, policy, style, rule, settings.generations, sampling)
    every = save_every(settings)
    watch = Watch(
        stage, policy, style, dev=dev, every=every, patience=None, total=settings.steps, held_in=held_in,
        tell_others=lambda accuracies: tell_reporters(trainer, accuracies),
    )  # fmt: skip
    trainer = make_trainer(
        policy, tasks, grouped, settings, limits, trainer_folder, seed=seed, lora=lora, muon=muon, dynamic=dynamic,
        report_to=report_to,
    )  # fmt: skip
    state = newest_state(trainer_folder)
    if is_first_rank():
        trainer.log_block = log_block
        done = int(state.name.rpartition("-")[2]) if state else 0
        trainer.add_callback(watch)
        watch.resume(done)
        if TENSORBOARD in report_to:
            trainer.add_callback(curves(stage, done))
    if state is not None and dynamic is not None:
        dynamic.reserve.restore(json.loads((state / RESERVE_FILE).read_text(encoding="utf-8")))
    with stage.guard():
        trainer.train(resume_from_checkpoint=str(state) if state else None)
        wait_for_all()
        if is_first_rank():
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
    dynamic: Dynamic | None = None,
    report_to: Sequence[str] = (),
) -> DeclaredGRPOTrainer:
    """The trainer of these tasks, with `grouped` as its one reward; the policy's model becomes the trainer's.

    Raises:
        PolicyError: no weight would be trained; TRL would go on with an optimizer that holds nothing.
    """
    rows = [task.row(number, policy.tokenizer) for number, task in enumerate(tasks)]
    if dynamic is not None:
        # TRL wants rows to go through; what is asked comes from the reserve.
        rows = [{"prompt": " ", "task": number} for number in range(tasks_needed(settings))]
    trainer = DeclaredGRPOTrainer(
        model=policy.model,
        args=arguments(settings, limits, str(folder), seed, report_to),
        train_dataset=Dataset.from_list(rows),
        processing_class=policy.tokenizer,
        reward_funcs=[grouped],
        peft_config=new_adapter(lora, policy.model),
        optimizers=(MuonAdamW(policy.model, settings.learning_rate) if muon else None, None),
    )
    if not any(weight.requires_grad for weight in trainer.model.parameters()):
        raise PolicyError(
            "nothing of the policy is trainable", fix="Load its adapters as trainable, or leave out lora."
        )
    policy.model = trainer.model
    trainer.judge, trainer.dynamic = grouped, dynamic
    hardness = {task.question.id: task.question.hardness for task in tasks}
    trainer.buckets = Buckets(hardness, limits.max_completion_tokens)
    trainer.remove_callback(PrinterCallback)
    return trainer


def tasks_needed(settings: Grpo) -> int:
    """Tasks of a whole training without dynamic sampling: those of all blocks, the last of which may not be used up."""
    block = settings.steps_per_generation
    return -(-settings.steps // block) * block * settings.questions_per_step


def save_every(settings: Grpo) -> int:
    """Whole sampled blocks: a trainer that goes on in the middle of one would sample it again, by a newer policy."""
    block = settings.steps_per_generation
    return -(-settings.save_every // block) * block


def arguments(settings: Grpo, limits: Sampling, folder: str, seed: int, report_to: Sequence[str] = ()) -> GRPOConfig:
    """TRL's settings. TensorBoard is left out of its `report_to`: it would write into a folder that is deleted.

    TRL counts in micro-batches: the parts of a process's share of a step that go through the model one after another.

    Raises:
        ConfigError: the groups of a step cannot be shared out to all ranks, or their completions to micro-batches.
    """
    if settings.questions_per_step % ranks():
        raise ConfigError(
            f"{settings.questions_per_step} groups a step cannot be shared by {ranks()} processes",
            field="grpo.questions_per_step",
            fix=f"Set it to a multiple of {ranks()}.",
        )
    share = settings.questions_per_step // ranks() * settings.generations
    at_once = min(settings.micro_batch or share, share)
    if share % at_once:
        raise ConfigError(
            f"{share} completions, a process's share of a step, do not go into parts of {at_once}",
            field="grpo.micro_batch",
            fix=f"Set it to a divisor of {share}.",
        )
    cuda = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=folder,
        max_steps=settings.steps,
        per_device_train_batch_size=at_once,
        num_generations=settings.generations,
        steps_per_generation=settings.steps_per_generation * (share // at_once),
        gradient_accumulation_steps=share // at_once,
        max_completion_length=limits.max_completion_tokens,
        temperature=limits.temperature,
        top_p=1.0,
        top_k=0,
        loss_type=settings.aggregation,
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
        save_steps=save_every(settings),
        save_total_limit=1,
        seed=seed,
        use_cpu=not cuda,
        bf16=cuda,
        dataloader_pin_memory=cuda,
        activation_checkpointing=False,
        disable_tqdm=True,
        report_to=[name for name in report_to if name != TENSORBOARD] or "none",
    )

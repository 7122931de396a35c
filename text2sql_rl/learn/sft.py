"""Supervised fine-tuning with TRL's SFTTrainer; also what warm-up and the control are made of.

In: a policy, token rows in training order, a stage folder. Out: the best checkpoint on dev in `stage/checkpoint`, and
measurements. Resumes from the last state a killed attempt left. Not here: which pairs (stages.py decides).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from transformers.trainer_callback import PrinterCallback
from trl import SFTConfig, SFTTrainer

from text2sql_rl.config import Lora
from text2sql_rl.learn.checkpoints import newest_state, save_model
from text2sql_rl.learn.lora import new_adapter
from text2sql_rl.learn.optimizer import MuonAdamW
from text2sql_rl.learn.watch import DevCheck, Watch
from text2sql_rl.policy.hf import Policy
from text2sql_rl.prompts import Style
from text2sql_rl.runs import StageFolder


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast: steps, rows a step, peak learning rate, steps of linear rise, checks of dev."""

    steps: int
    batch: int
    learning_rate: float
    rise: int
    eval_every: int
    patience: int | None
    muon: bool
    seed: int


def fine_tune(
    policy: Policy,
    style: Style,
    rows: Dataset,
    schedule: Schedule,
    stage: StageFolder,
    dev: DevCheck | None,
    lora: Lora | None = None,
) -> dict[str, Any]:
    """Train on the rows in their order.

    Args:
        policy: trained in place.
        style: saved with the checkpoint.
        rows: `input_ids` and `labels`, schedule.steps x schedule.batch of them.
        schedule: how long and how fast.
        stage: gets `checkpoint/` and metrics.
        dev: measured every schedule.eval_every steps; the best policy is the one kept.
        lora: adapters to train instead of all weights, where the policy has none yet.

    Returns:
        steps done, best dev accuracy (None without a check) and its step.
    """
    trainer_folder = stage.path / "trainer"
    watch = Watch(
        stage, policy, style, dev=dev, every=schedule.eval_every, patience=schedule.patience, total=schedule.steps
    )
    cuda = torch.cuda.is_available()
    arguments = SFTConfig(
        output_dir=str(trainer_folder),
        max_steps=schedule.steps,
        per_device_train_batch_size=schedule.batch,
        learning_rate=schedule.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.05},
        warmup_steps=schedule.rise,
        max_length=None,
        train_sampling_strategy="sequential",
        logging_steps=10,
        logging_nan_inf_filter=False,
        save_steps=schedule.eval_every,
        save_total_limit=1,
        seed=schedule.seed,
        use_cpu=not cuda,
        bf16=cuda,
        dataloader_pin_memory=cuda,
        activation_checkpointing=False,
        disable_tqdm=True,
        report_to="none",
    )
    optimizer = MuonAdamW(policy.model, schedule.learning_rate) if schedule.muon else None
    trainer = SFTTrainer(
        model=policy.model,
        args=arguments,
        train_dataset=rows,
        processing_class=policy.tokenizer,
        peft_config=new_adapter(lora, policy.model),
        optimizers=(optimizer, None),
        callbacks=[watch],
    )
    policy.model = trainer.model
    trainer.remove_callback(PrinterCallback)
    state = newest_state(trainer_folder)
    watch.resume(int(state.name.rpartition("-")[2]) if state else 0)
    with stage.guard():
        trainer.train(resume_from_checkpoint=str(state) if state else None)
        if dev is None:
            save_model(trainer.model, policy.tokenizer, style, stage.path / "checkpoint")
        shutil.rmtree(trainer_folder, ignore_errors=True)
    best = watch.best if dev is not None else None
    return {"steps": trainer.state.global_step, "dev_accuracy": best, "best_step": watch.best_step}

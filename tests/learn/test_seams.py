"""What the GRPO trainer takes for granted of TRL: private methods that may move with any release."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import torch
from datasets import Dataset
from trl import GRPOTrainer
from trl.trainer.utils import shuffle_sequence_dict, split_tensor_dict

from tests.learn.tiny import LIMITS, THIRD_PARTY, ScriptedJudge, grpo_settings, in_turn, style, tasks, weights
from text2sql_rl.content import Content
from text2sql_rl.group import AdvantageRule, advantages, make_group, over_step
from text2sql_rl.learn.asking import GroupJudge
from text2sql_rl.learn.grpo import arguments, make_trainer
from text2sql_rl.learn.trainer import DeclaredGRPOTrainer
from text2sql_rl.policy.hf import Policy, encode

pytestmark = THIRD_PARTY
G = 4
TRLS_RULE = AdvantageRule("sample", floor=0.0, epsilon=1e-4)


@pytest.fixture(scope="module")
def trainer(content: Content, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> DeclaredGRPOTrainer:
    policy, asked = Policy(model_folder), tasks(content, 2)
    judge: Any = ScriptedJudge(in_turn(1.0, 0.0, 0.05, 0.5, 0.0, 0.0, 1.0, 0.0))
    grouped = GroupJudge(asked, judge, policy, style(), TRLS_RULE, G)
    made = make_trainer(policy, asked, grouped, grpo_settings(), LIMITS, tmp_path_factory.mktemp("trainer"), seed=1)
    made.model.train()
    made.current_gradient_accumulation_steps = 1  # the training loop sets it
    return made


def block(trainer: DeclaredGRPOTrainer) -> list[dict[str, Any]]:
    """What TRL's sampler gives: each row G times, one after the other."""
    return [row for row in trainer.train_dataset for _ in range(G)]


@pytest.fixture(scope="module")
def scored(trainer: DeclaredGRPOTrainer) -> dict[str, Any]:
    """TRL's own output for one block, with TRL's own advantages."""
    torch.manual_seed(4)
    trainer.scale_rewards = "group"
    return GRPOTrainer._generate_and_score_completions(trainer, block(trainer))


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (
            "_generate_single_turn",
            ["self", "prompt_ids", "images", "multimodal_fields", "num_generations", "has_tool_images"],
        ),
        ("_generate_and_score_completions", ["self", "inputs"]),
        ("_compute_loss", ["self", "model", "inputs"]),
        ("_save_checkpoint", ["self", "model", "trial"]),
    ],
)
def test_overridden_methods_have_their_signatures(method: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(GRPOTrainer, method)).parameters) == parameters


def test_a_block_is_prompts_in_runs_of_generations(trainer: DeclaredGRPOTrainer) -> None:
    (first, *_) = iter(trainer.get_train_dataloader())
    assert [row["task"] for row in first] == [0] * G + [1] * G


def test_the_output_has_the_keys_that_are_cut_and_replaced(scored: dict[str, Any]) -> None:
    rows = {"prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages"}
    assert set(scored) == {*rows, "num_items_in_batch"}
    assert all(len(scored[key]) == 2 * G for key in rows)
    assert scored["num_items_in_batch"].ndim == 0
    assert scored["num_items_in_batch"] == scored["completion_mask"].sum()


def test_the_trainer_reads_the_same_prompt_as_sampling_elsewhere(
    trainer: DeclaredGRPOTrainer, scored: dict[str, Any], content: Content
) -> None:
    prompts = [ids[mask.bool()].tolist() for ids, mask in zip(scored["prompt_ids"], scored["prompt_mask"], strict=True)]
    expected = encode(trainer.processing_class, [task.prompt for task in tasks(content, 2)], 80)
    assert prompts[::G] == expected


def test_declared_sample_deviation_is_trls_own(trainer: DeclaredGRPOTrainer, scored: dict[str, Any]) -> None:
    ours = [value for group in trainer.judge.groups for value in group.advantages]
    assert len({round(value, 3) for value in ours}) > 2
    assert ours == pytest.approx(scored["advantages"].tolist(), abs=1e-5)
    rewards = [rollout.reward.total for group in trainer.judge.groups for rollout in group.rollouts]
    assert ours == [value for at in (0, G) for value in advantages(rewards[at : at + G], TRLS_RULE)]


def test_declared_batch_deviation_is_trls_own(trainer: DeclaredGRPOTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "scale_rewards", "batch")
    torch.manual_seed(4)
    theirs = GRPOTrainer._generate_and_score_completions(trainer, block(trainer))["advantages"].tolist()
    rule = AdvantageRule("batch", floor=0.0, epsilon=1e-4)
    groups = over_step([make_group(group.rollouts, rule) for group in trainer.judge.groups], rule)
    ours = [value for group in groups for value in group.advantages]
    assert len({round(value, 3) for value in ours}) > 2
    assert ours == pytest.approx(theirs, abs=1e-5)


def test_sample_deviation_takes_trls_own_way(content: Content, model_folder: Path, tmp_path: Path) -> None:
    """Where every row teaches, a whole training with TRL's definition declared ends where TRL's own trainer ends."""
    settings, asked, ends = grpo_settings(steps=4), tasks(content, 8), []
    rewards = (1.0, 0.0, 0.05, 0.5, 0.0, 0.9, 1.0, 0.0)
    for trl_itself in (False, True):
        policy, judge = Policy(model_folder), ScriptedJudge(in_turn(*rewards))
        grouped = GroupJudge(asked, cast(Any, judge), policy, style(), TRLS_RULE, G)
        if trl_itself:
            how = arguments(settings, LIMITS, str(tmp_path / "trl"), 1)
            how.scale_rewards = "group"
            rows = Dataset.from_list([task.row(number, policy.tokenizer) for number, task in enumerate(asked)])
            made = GRPOTrainer(policy.model, [grouped], how, rows, processing_class=policy.tokenizer)
        else:
            made = make_trainer(policy, asked, grouped, settings, LIMITS, tmp_path / "ours", seed=1)
        made.train()
        ends.append((weights(made.model), [row["loss"] for row in made.state.log_history if "loss" in row]))
    before = weights(Policy(model_folder).model)
    (ours, our_losses), (theirs, their_losses) = ends
    assert our_losses == pytest.approx(their_losses, abs=1e-5)
    assert len(our_losses) == 4
    moved = max((theirs[name] - before[name]).abs().max() for name in before)
    apart = max((theirs[name] - ours[name]).abs().max() for name in before)
    assert apart < 1e-3 * moved


def test_trainer_attributes(trainer: DeclaredGRPOTrainer) -> None:
    assert trainer.temperature == LIMITS.temperature
    assert trainer.max_completion_length == LIMITS.max_completion_tokens
    assert trainer.num_generations == G
    assert trainer.beta == 0.0
    assert trainer.use_vllm is False
    assert trainer.args.steps_per_generation == 1
    assert trainer.args.loss_type == "dapo"
    trainer._metrics["train"]["new"].append(1.0)
    assert trainer._metrics["train"].pop("new") == [1.0]


def test_tool_mask_takes_rows_out_of_the_loss(trainer: DeclaredGRPOTrainer, scored: dict[str, Any]) -> None:
    """A masked row changes nothing; under dapo the denominator is num_items_in_batch, whatever the mask."""
    mask = torch.ones_like(scored["completion_mask"])
    mask[0] = 0
    with torch.no_grad():
        masked = trainer._compute_loss(trainer.model, {**scored, "tool_mask": mask})
        other = scored["advantages"].clone()
        other[0] += 7.0
        moved = trainer._compute_loss(trainer.model, {**scored, "advantages": other, "tool_mask": mask})
        unmasked = trainer._compute_loss(trainer.model, {**scored, "advantages": other})
        halved = trainer._compute_loss(
            trainer.model, {**scored, "tool_mask": mask, "num_items_in_batch": 2 * scored["num_items_in_batch"]}
        )
    assert moved == masked
    assert unmasked != masked
    assert halved == pytest.approx(masked.item() / 2)


def test_shuffle_and_split_keep_unknown_keys_in_step() -> None:
    batch = {"completion_ids": torch.arange(6).unsqueeze(1), "tool_mask": torch.arange(6), "count": torch.tensor(3)}
    shuffled = shuffle_sequence_dict(batch)
    assert sorted(shuffled["tool_mask"].tolist()) == list(range(6))
    assert shuffled["completion_ids"].squeeze(1).equal(shuffled["tool_mask"])
    first, second = split_tensor_dict(shuffled, 2)
    assert torch.cat([first["tool_mask"], second["tool_mask"]]).equal(shuffled["tool_mask"])
    assert first["count"] == second["count"] == 3

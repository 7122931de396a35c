"""How the losses of tokens become one: each declared way, worked out by hand from lengths and advantages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import torch
from trl import GRPOTrainer
from trl.trainer.utils import split_tensor_dict

from tests.learn import tiny
from tests.learn.tiny import LIMITS, ScriptedJudge, grpo_settings
from text2sql_rl.content import Content
from text2sql_rl.group import AdvantageRule, Aggregation, describe_aggregation, make_group, over_step
from text2sql_rl.learn.asking import GroupJudge
from text2sql_rl.learn.grpo import arguments, make_trainer
from text2sql_rl.learn.trainer import DeclaredGRPOTrainer, Sampled
from text2sql_rl.policy.hf import Policy
from text2sql_rl.records import Finish

pytestmark = tiny.THIRD_PARTY
G = 4
LIMIT = LIMITS.max_completion_tokens
RULE = AdvantageRule("batch", floor=0.0, truncated="exclude_from_loss")
REWARDS = ((1.0, 1.0, 1.0, 1.0), (1.0, 0.0, None, 0.5), (0.0, 0.0, 0.0, 0.0), (0.0, 0.05, 1.0, 0.0))
CUT = (3, 3)  # this completion reached the limit
TEACHING = (4, 5, 12, 13, 14)  # 0.5 is its group's mean, None is unscored, the last is cut
LENGTHS = (3, 1, 2, 5, 1, 4, 2, 6, 3, 3, 8, 1, 7, 2, 1, 8)
FORMULAS: dict[Aggregation, Callable[[list[float], list[int]], float]] = {
    "grpo": lambda losses, _: sum(losses) / len(losses),
    "bnpo": lambda losses, lengths: _weighted(losses, lengths) / sum(lengths),
    "dr_grpo": lambda losses, lengths: _weighted(losses, lengths) / (len(lengths) * LIMIT),
    "dapo": lambda losses, lengths: _weighted(losses, lengths) / sum(lengths),
}
RATIO = 1.1  # of the policy to the one that sampled; within the clipping range


def _weighted(losses: list[float], lengths: list[int]) -> float:
    return sum(loss * length for loss, length in zip(losses, lengths, strict=True))


@pytest.fixture(scope="module")
def trainer(content: Content, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> DeclaredGRPOTrainer:
    policy, tasks = Policy(model_folder), tiny.tasks(content, 4)
    judge = GroupJudge(tasks, cast(Any, ScriptedJudge()), policy, tiny.style(), RULE, G)
    folder = tmp_path_factory.mktemp("trainer")
    made = make_trainer(policy, tasks, judge, grpo_settings(questions_per_step=4), LIMITS, folder, seed=1)
    made.model.train()
    made.current_gradient_accumulation_steps = 1  # the training loop sets it
    return made


@pytest.fixture(scope="module")
def block(trainer: DeclaredGRPOTrainer) -> dict[str, Any]:
    """Four groups of four completions of known lengths."""
    torch.manual_seed(4)
    made = GRPOTrainer._generate_and_score_completions(
        trainer, [row for row in trainer.train_dataset for _ in range(G)]
    )
    ids = torch.randint(5, 20, (4 * G, LIMIT))
    mask = (torch.arange(LIMIT) < torch.tensor(LENGTHS).unsqueeze(1)).int()
    return {**made, "completion_ids": ids * mask, "completion_mask": mask, "tool_mask": torch.ones_like(mask)}


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("aggregation", get_args(Aggregation))
def test_the_loss_is_the_formula_and_only_rollouts_that_teach_are_in_it(
    trainer: DeclaredGRPOTrainer,
    block: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    aggregation: Aggregation,
    steps: int,
) -> None:
    monkeypatch.setattr(trainer, "loss_type", aggregation)
    monkeypatch.setattr(trainer.args, "steps_per_generation", steps)
    members = [[tiny.make_rollout(f"rl-{at}", total) for total in group] for at, group in enumerate(REWARDS)]
    one = members[CUT[0]][CUT[1]]
    members[CUT[0]][CUT[1]] = replace(one, completion=replace(one.completion, finish=Finish.LENGTH))
    groups = over_step([make_group(group, RULE) for group in members], RULE)
    trainer._block = Sampled(1, groups)
    kept = trainer._teaching_rows(dict(block), groups, range(4))
    assert kept["completion_ids"].shape[0] == {1: 5, 2: 6}[steps]  # in two steps with one filler
    assert trainer._block.updates.keys() == {divmod(row, G) for row in TEACHING}

    shares = split_tensor_dict(kept, steps)
    with torch.no_grad():
        for share in shares:
            trainer._compute_loss(trainer.model, share)
            logps = trainer._seen[0]
            assert logps is not None
            share["old_per_token_logps"] = logps - torch.log(torch.tensor(RATIO))
        losses = [float(trainer._compute_loss(trainer.model, share)) for share in shares]

    advantages = [value for group in groups for value in group.advantages]
    of_rows, lengths = [-RATIO * advantages[row] for row in TEACHING], [LENGTHS[row] for row in TEACHING]
    if aggregation == "bnpo":  # each share by itself
        cuts = [(0, 5)] if steps == 1 else [(0, 3), (3, 5)]
        expected = [FORMULAS["bnpo"](of_rows[low:high], lengths[low:high]) for low, high in cuts]
        assert losses == pytest.approx(expected, abs=1e-5)
    else:
        assert sum(losses) / steps == pytest.approx(FORMULAS[aggregation](of_rows, lengths), abs=1e-5)


def test_every_way_has_its_own_words_and_is_trls() -> None:
    ways = get_args(Aggregation)
    assert len({describe_aggregation(way) for way in ways}) == len(ways) == 4
    for way in ways:
        assert arguments(grpo_settings(aggregation=way), LIMITS, "unused", 1).loss_type == way
    assert grpo_settings().aggregation == "dapo"

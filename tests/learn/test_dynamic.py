"""Dynamic sampling inside a training: what is asked again, what moves the policy, what is told; and rounds joined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import torch

from tests.learn import tiny
from tests.learn.tiny import LIMITS, ScriptedJudge, grpo_settings, same, weights
from text2sql_rl.content import Content
from text2sql_rl.learn.asking import Dynamic, Task
from text2sql_rl.learn.blocks import join, take
from text2sql_rl.learn.grpo import train
from text2sql_rl.learn.reinforce import cost
from text2sql_rl.learn.reserve import Reserve
from text2sql_rl.learn.trainer import Sampled
from text2sql_rl.policy.hf import Policy
from text2sql_rl.records import Completion
from text2sql_rl.runs import StageFolder

pytestmark = tiny.THIRD_PARTY
G = 4
Mark = Callable[[Completion], float | None]


def run(
    content: Content, model_folder: Path, folder: Path, mark: Mark, rounds: int = 3, **changes: Any
) -> tuple[Policy, StageFolder, list[Sampled], Reserve]:
    """Train with dynamic sampling; gives the sampled blocks as they were logged last."""
    settings, policy, stage = grpo_settings(**changes), Policy(model_folder), StageFolder(folder, 0.0)
    stage.start()
    by_id = {question.id: (question, database) for question, database in tiny.items(content, "rl")}
    reserve = Reserve(dict.fromkeys(by_id, (1, 2)), generations=G, half_life=2, seed=5)
    style, blocks = tiny.style(), []
    dynamic = Dynamic(reserve, lambda name, visit: Task(*by_id[name], style.prompt(*by_id[name], visit=visit)), rounds)
    judge: Any = ScriptedJudge(mark)
    tasks = [dynamic.ask(name, 1) for name in by_id]
    train(
        policy, style, tasks, settings, LIMITS, judge, stage, None, seed=7, dynamic=dynamic, log_block=blocks.append
    )  # fmt: skip
    return policy, stage, blocks, reserve


def marks(*groups: tuple[float | None, ...]) -> Mark:
    """The rewards of whole groups in the order they are sampled; the last one again and again."""
    flat = [reward for group in groups for reward in group]
    rest = iter(flat)
    return lambda _: next(rest, 0.0)


RIGHT, WRONG, MIXED = (1.0,) * G, (0.0,) * G, (1.0, 0.0, 0.0, 0.0)
SHAPED = (0.05, 0.0, 0.0, 0.0)


def test_degenerate_groups_are_replaced_until_the_block_is_informative(
    content: Content, model_folder: Path, tmp_path: Path
) -> None:
    """Round 1: a mixed and a solved group; round 2: one all wrong in its place; round 3: a mixed one."""
    mark = marks(MIXED, RIGHT, WRONG, MIXED)
    _, stage, (block,), _ = run(content, model_folder, tmp_path / "run", mark, steps=1, save_every=1)
    assert [group.kind for group in block.groups] == ["informative", "all_correct", "all_wrong", "informative"]
    assert len({group.question_id for group in block.groups}) == 4  # nobody twice in a step
    assert sorted(block.updates) == [(number, index) for number in (0, 3) for index in range(G)]
    (row,) = [row for row in stage.metrics() if "loss" in row]
    assert row["dynamic/rounds"] == 3
    assert (row["sampled/completions"], row["sampled/informative_groups"]) == (4 * G, 2)
    assert row["groups/informative"] == 0.5
    assert row["accuracy"] == 6 / 16
    assert cost(stage) == {"completions": 16, "informative_groups": 2, "completions_per_informative_group": 8.0}


def test_an_informative_block_is_sampled_once(content: Content, model_folder: Path, tmp_path: Path) -> None:
    _, stage, (block,), _ = run(content, model_folder, tmp_path / "run", marks(MIXED, MIXED), steps=1, save_every=1)
    assert len(block.groups) == 2
    assert [row["dynamic/rounds"] for row in stage.metrics() if "loss" in row] == [1]


def test_rounds_end_at_the_cap_and_degenerate_groups_move_nothing(
    content: Content, model_folder: Path, tmp_path: Path
) -> None:
    """Only shaping differences: without dynamic sampling they would move the policy, as a test of GRPO shows."""
    before, mark = weights(Policy(model_folder).model), marks(*[SHAPED] * 8)
    policy, stage, blocks, _ = run(content, model_folder, tmp_path / "run", mark, rounds=2, steps=2, save_every=2)
    assert [len(block.groups) for block in blocks] == [4, 4]
    assert [block.updates for block in blocks] == [{}, {}]
    assert same(before, weights(policy.model))
    assert cost(stage)["completions_per_informative_group"] is None


def test_what_was_sampled_decides_who_is_asked_next(content: Content, model_folder: Path, tmp_path: Path) -> None:
    mark = marks(*[WRONG] * 4)
    _, _, (block,), reserve = run(content, model_folder, tmp_path / "run", mark, rounds=2, steps=1, save_every=1)
    state = reserve.state()
    assert {name for name, (*_, visits) in state.items() if visits} == {group.question_id for group in block.groups}
    for _, scored, step, rests_until, _ in state.values():
        assert (step, rests_until) == (1, 3)
        assert scored == pytest.approx(2 * 0.5**0.5 + G)  # half of the two from before per half life, and the new ones


def test_with_a_kl_penalty_dropped_groups_stay_out_and_the_log_learns_it(
    content: Content, model_folder: Path, tmp_path: Path
) -> None:
    mark = marks(MIXED, WRONG, WRONG, RIGHT, MIXED, MIXED)
    _, stage, blocks, _ = run(content, model_folder, tmp_path / "run", mark, rounds=3, steps=2, beta=0.1, save_every=2)
    assert [block.step for block in blocks] == [1, 1, 2, 2]  # as sampled, and with what the loss measured
    assert blocks[0].measured
    told = blocks[1].updates
    assert all(update.in_loss and update.kl is not None for update in told.values())
    assert {number for number, _ in told} == {0}
    rows = [row for row in stage.metrics() if "loss" in row]
    assert [row["kl_k3"] for row in rows] == pytest.approx([0.0, 0.0], abs=1e-6)  # the rate rises from 0
    assert any(name.startswith("by/kind/informative/") for name in rows[0])


# ---- rounds joined -------------------------------------------------------------------------------------------


def block_of(prompt: int, answer: int, value: int) -> dict[str, Any]:
    return {
        "prompt_ids": torch.full((2, prompt), value),
        "prompt_mask": torch.ones(2, prompt, dtype=torch.long),
        "completion_ids": torch.full((2, answer), value),
        "completion_mask": torch.ones(2, answer, dtype=torch.long),
        "advantages": torch.tensor([0.5, -0.5]),
        "num_items_in_batch": torch.tensor(2 * answer),
        "ref_per_token_logps": torch.full((2, answer), -1.0),
    }


def test_rounds_of_other_widths_are_padded_prompts_on_the_left_completions_on_the_right() -> None:
    one, other = block_of(3, 1, 7), block_of(2, 2, 8)
    joined = join([one, other], pad=9)
    assert list(joined) == list(one)  # TRL takes the size from the first key
    assert joined["prompt_ids"].tolist() == [[7, 7, 7]] * 2 + [[9, 8, 8]] * 2
    assert joined["prompt_mask"].tolist() == [[1, 1, 1]] * 2 + [[0, 1, 1]] * 2
    assert joined["completion_ids"].tolist() == [[7, 9]] * 2 + [[8, 8]] * 2
    assert joined["completion_mask"].tolist() == [[1, 0]] * 2 + [[1, 1]] * 2
    assert joined["ref_per_token_logps"].tolist() == [[-1, 0]] * 2 + [[-1, -1]] * 2
    assert joined["advantages"].tolist() == [0.5, -0.5] * 2
    again = take(joined, [2, 3])
    assert again["completion_ids"].equal(other["completion_ids"])
    assert join([one], pad=9).keys() == one.keys()

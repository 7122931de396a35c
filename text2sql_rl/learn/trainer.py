"""GRPO through TRL's GRPOTrainer: one subclass, hooks and `super()`, no copied trainer code.

In: rows that name tasks. Out: updates, metrics, and every sampled group for the log. What differs from TRL, and why:

- advantages are the run's declared ones (text2sql_rl.group), not the trainer's fixed formula;
- a rollout that is unscored, left out by declaration, or whose group teaches nothing leaves the update, its KL and
  its denominators instead of diluting it;
- with dynamic sampling, degenerate groups are dropped and others asked in their place, an equal number on every rank;
- all G completions of a question share the prompt's pass through the model.

The overridden methods are private to TRL, so tests/learn/test_seams.py guards each. Not here: which questions, files.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from text2sql_rl.group import in_loss, over_step
from text2sql_rl.learn.asking import Dynamic, GroupJudge
from text2sql_rl.learn.blocks import Block, join, take
from text2sql_rl.learn.buckets import Buckets, means
from text2sql_rl.policy.hf import sample_ids
from text2sql_rl.records import Group, GroupKind
from text2sql_rl.rollout_log import Update
from text2sql_rl.scoring.evidence import STANDINGS

RESERVE_FILE = "reserve.json"


@dataclass(slots=True)
class Sampled:
    """One block in full: the groups of all ranks and rounds, and what training made of each completion.

    `step` is the one it was sampled for. An update is keyed by (number of the group, index in it). `measured` is true
    when the loss has seen all of it.
    """

    step: int
    groups: list[Group]
    updates: dict[tuple[int, int], Update] = field(default_factory=dict)
    measured: bool = False


# Gets a block when it was sampled, and again when the loss has seen it and measured KL or clipping.
LogBlock = Callable[[Sampled], None]


class DeclaredGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with declared advantages, teaching rows only, and prompts passed once a group."""

    judge: GroupJudge
    buckets: Buckets
    dynamic: Dynamic | None = None
    log_block: LogBlock | None = None
    _block: Sampled
    _seen: tuple[torch.Tensor | None, ...]

    # ---- sampling --------------------------------------------------------------------------------------------

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
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        began, self.judge.seconds = time.perf_counter(), 0.0
        self._block = Sampled(self.state.global_step + 1, [])
        if self.dynamic is None:
            out = super()._generate_and_score_completions(inputs)
            numbers = self._log_round(self.judge.groups)
        else:
            out, numbers = self._refilled(self.dynamic, len(inputs) // self.num_generations)
        self._block.groups = over_step(self._block.groups, self.judge.rule)
        groups = [self._block.groups[number] for number in numbers]
        self._note(time.perf_counter() - began)
        kept = self._teaching_rows(out, groups, numbers)
        if self.log_block is not None:
            self.log_block(self._block)
        return kept

    def _refilled(self, dynamic: Dynamic, wanted: int) -> tuple[Block, list[int]]:
        """Sample until every rank has `wanted` informative groups or the rounds are used up.

        Returns:
            the rows of `wanted` groups, degenerate ones last where too few are informative; and the numbers of these
            groups among all groups of the block.
        """
        rank, ranks, size = self.accelerator.process_index, self.accelerator.num_processes, self.num_generations
        good: list[tuple[Block, int]] = []
        rest: list[tuple[Block, int]] = []
        rounds = 0
        while rounds < dynamic.rounds and (missing := max(gather_object([wanted - len(good)]))) > 0:
            tasks = dynamic.tasks(missing * ranks, self._block.step)[rank * missing : (rank + 1) * missing]
            self.judge.tasks = tasks
            rows = [task.row(number, self.processing_class) for number, task in enumerate(tasks)]
            out = super()._generate_and_score_completions([row for row in rows for _ in range(size)])
            before = len(self._block.groups)
            numbers = self._log_round(self.judge.groups)
            dynamic.reserve.note(self._block.groups[before:], self._block.step)
            for place, (group, number) in enumerate(zip(self.judge.groups, numbers, strict=True)):
                member = take(out, range(place * size, (place + 1) * size)), number
                (good if group.kind is GroupKind.INFORMATIVE else rest).append(member)
            rounds += 1
        self._metrics["train"]["dynamic/rounds"].append(float(rounds))
        blocks, kept = zip(*[*good, *rest][:wanted], strict=True)
        return join(blocks, self.processing_class.pad_token_id), list(kept)

    def _log_round(self, groups: Sequence[Group]) -> list[int]:
        """Add the groups of all ranks to the block; gives the numbers of this rank's own in it."""
        first = len(self._block.groups) + self.accelerator.process_index * len(groups)
        self._block.groups += gather_object(list(groups))
        return list(range(first, first + len(groups)))

    # ---- which rows move the policy --------------------------------------------------------------------------

    def _teaching_rows(self, out: Block, groups: Sequence[Group], numbers: Sequence[int]) -> Block:
        """Keep the rows that move the policy, an equal number on every rank; fillers carry no loss."""
        advantages = [value for group in groups for value in group.advantages]
        counted = [in_loss(rollout, self.judge.rule) for group in groups for rollout in group.rollouts]
        informative = [group.kind is GroupKind.INFORMATIVE for group in groups for _ in group.rollouts]
        if self.dynamic is not None:
            counted = [one and other for one, other in zip(counted, informative, strict=True)]
        teaches = [ok and (self.beta > 0 or value != 0.0) for ok, value in zip(counted, advantages, strict=True)]
        rows = [index for index, keep in enumerate(teaches) if keep]
        parts = self.args.steps_per_generation
        most = max(gather_object([len(rows)]))
        size = min(len(teaches), max(parts, -(-most // parts) * parts))
        rows += [index for index, keep in enumerate(teaches) if not keep][: size - len(rows)]
        kept, device = take(out, rows), out["completion_ids"].device
        kept["advantages"] = torch.tensor([advantages[row] for row in rows], dtype=torch.float32, device=device)
        active = torch.tensor([[int(teaches[row])] for row in rows], device=device)
        mask = kept.get("tool_mask", torch.ones_like(kept["completion_mask"])) * active
        kept["tool_mask"] = mask
        tokens = (mask * kept["completion_mask"]).sum()
        kept["num_items_in_batch"] = self.accelerator.gather(tokens).sum().clamp(min=1)
        kept["teaching_rollouts"] = self.accelerator.gather(active.sum()).sum().clamp(min=1)
        places = [
            (number, index)
            for number, group in zip(numbers, groups, strict=True)
            for index in range(len(group.rollouts))
        ]
        kept["place"] = torch.tensor([places[row] for row in rows], device=device)
        told = gather_object([places[row] for row in rows if teaches[row]])
        self._block.updates = {tuple(place): Update(in_loss=True) for place in told}
        return kept

    # ---- what the loss sees ----------------------------------------------------------------------------------

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._seen = tuple(None if one is None else one.detach() for one in found[:2])
        return found

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super()._compute_loss(model, inputs)
        if self.model.training and "place" in inputs:
            self._measure(inputs)
            if self.loss_type in ("grpo", "dr_grpo"):
                # TRL divides by the rows of this part, fillers among them; the rollouts that teach are what counts.
                parts = self.accelerator.num_processes * self.args.steps_per_generation
                loss = loss * len(inputs["place"]) * parts / inputs["teaching_rollouts"]
        return loss

    def _measure(self, inputs: Block) -> None:
        """Plain k3, clipping and entropy of each row in the loss: means over its tokens, by bucket and for the log."""
        logps, entropies = self._seen
        assert logps is not None
        assert entropies is not None
        mask = (inputs["completion_mask"] * inputs["tool_mask"]).float()
        tokens = mask.sum(1)
        columns = {"entropy": entropies}
        if self.beta > 0:
            distance = inputs["ref_per_token_logps"] - logps
            columns["kl_k3"] = distance.exp() - distance - 1
        if "old_per_token_logps" in inputs:
            ratio, gain = (logps - inputs["old_per_token_logps"]).exp(), inputs["advantages"].unsqueeze(1)
            low, high = (ratio < 1 - self.epsilon_low) & (gain < 0), (ratio > 1 + self.epsilon_high) & (gain > 0)
            columns["clip_share"] = (low | high).float()
        values = [(column * mask).sum(1) / tokens.clamp(min=1) for column in columns.values()]
        local = torch.cat([inputs["place"].double(), tokens.double().unsqueeze(1), torch.stack(values, 1).double()], 1)
        found: list[tuple[Sequence[str], dict[str, float]]] = []
        for number, index, length, *numbers in self.accelerator.gather(local).tolist():
            if length:
                place, told = (int(number), int(index)), dict(zip(columns, numbers, strict=True))
                group = self._block.groups[place[0]]
                found.append((self.buckets.of(group, group.rollouts[place[1]]), told))
                self._block.updates[place] = Update(
                    in_loss=True, kl=told.get("kl_k3"), clip_share=told.get("clip_share")
                )
        mine = self._metrics["train"]
        if self.beta > 0 and found:
            mine["kl_k3"].append(sum(told["kl_k3"] for _, told in found) / len(found))
        for name, value in means(found):
            mine[name].append(value)
        last = (self._step + 1) % self.args.steps_per_generation == 0
        if last and len(columns) > 1 and self.log_block is not None:
            self._block.measured = True
            self.log_block(self._block)

    # ---- what is told and kept -------------------------------------------------------------------------------

    def _note(self, seconds: float) -> None:
        groups, mine = self._block.groups, self._metrics["train"]
        kinds = Counter(group.kind for group in groups)
        for kind in GroupKind:
            mine[f"groups/{kind.value}"].append(kinds[kind] / max(1, len(groups)))
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        mine["accuracy"].append(sum(rollout.equivalent for rollout in rollouts) / len(rollouts))
        causes = Counter(rollout.cause for rollout in rollouts)
        for cause in STANDINGS:
            mine[f"causes/{cause}"].append(causes[cause] / len(rollouts))
        mine["sampled/completions"].append(float(len(rollouts)))
        mine["sampled/informative_groups"].append(float(kinds[GroupKind.INFORMATIVE]))
        for name, value in self.buckets.of_rewards(groups).items():
            mine[name].append(value)
        mine["judge_s"].append(self.judge.seconds)
        mine["sample_s"].append(seconds - self.judge.seconds)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Before the trainer's own state, whose last file makes a checkpoint whole.
        if self.dynamic is not None and self.args.should_save:
            folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / RESERVE_FILE).write_text(json.dumps(self.dynamic.reserve.state()), encoding="utf-8")
        super()._save_checkpoint(model, trial)

"""Muon for the matrices of a small decoder, AdamW for the rest, as one optimizer that a trainer can hold.

In: a model and the peak learning rate of the matrices. Out: a torch optimizer whose state is saved and restored like
any other. Not here: schedules. Muon is what lets a policy from scratch learn in minutes (docs/lab-log.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_ADAM_SHARE = 0.15  # AdamW's peak as a share of Muon's: 3e-3 beside 0.02
_WEIGHT_DECAY = 0.01


class MuonAdamW(torch.optim.Optimizer):
    """Muon on two-dimensional weights except embeddings, AdamW on all others.

    Args:
        model: what to train.
        learning_rate: peak of Muon; AdamW gets 0.15 of it.
    """

    def __init__(self, model: torch.nn.Module, learning_rate: float) -> None:
        embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        matrices = [weight for weight in weights if weight.ndim == 2 and id(weight) not in embeddings]
        chosen = {id(weight) for weight in matrices}
        others = [weight for weight in weights if id(weight) not in chosen]
        super().__init__(weights, {"lr": learning_rate})
        self._muon = torch.optim.Muon(matrices, lr=learning_rate, weight_decay=_WEIGHT_DECAY, adjust_lr_fn="original")
        self._adam = torch.optim.AdamW(
            others, lr=_ADAM_SHARE * learning_rate, betas=(0.9, 0.98), weight_decay=_WEIGHT_DECAY
        )
        self._share_groups()

    def _share_groups(self) -> None:
        # A scheduler sets the learning rates of these very dicts.
        self.param_groups = [*self._muon.param_groups, *self._adam.param_groups]

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of both."""
        loss = closure() if closure is not None else None
        self._muon.step()  # type: ignore[no-untyped-call]
        self._adam.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The state of both."""
        return {"muon": self._muon.state_dict(), "adamw": self._adam.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._muon.load_state_dict(state_dict["muon"])
        self._adam.load_state_dict(state_dict["adamw"])
        self._share_groups()

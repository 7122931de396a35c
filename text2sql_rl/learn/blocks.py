"""Blocks of sampled rows as TRL's trainer passes them on: dicts of tensors with one row a completion.

In: what TRL made of one or several rounds of sampling. Out: one block with chosen rows. Prompts are padded on the left,
completions on the right, as TRL does. Not here: which rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Block = dict[str, Any]

_LEFT = ("prompt_ids", "prompt_mask")
_PADDED_WITH_PAD = ("prompt_ids", "completion_ids")


def take(block: Block, rows: Sequence[int]) -> Block:
    """These rows in this order; numbers of the whole block stay. Keys keep their order, which TRL relies on."""
    chosen = torch.tensor(list(rows), dtype=torch.long, device=block["completion_ids"].device)
    return {
        key: value[chosen] if isinstance(value, torch.Tensor) and value.ndim > 0 else value
        for key, value in block.items()
    }


def join(blocks: Sequence[Block], pad: int) -> Block:
    """All rows of several blocks, padded to one width; numbers of a whole block are those of the first."""
    first = blocks[0]
    if len(blocks) == 1:
        return dict(first)
    return {
        key: _stacked(key, [block[key] for block in blocks], pad)
        if isinstance(value, torch.Tensor) and value.ndim > 0
        else value
        for key, value in first.items()
    }


def _stacked(key: str, parts: Sequence[torch.Tensor], pad: int) -> torch.Tensor:
    if parts[0].ndim == 1:
        return torch.cat(list(parts))
    width = max(part.shape[1] for part in parts)
    value = pad if key in _PADDED_WITH_PAD else 0
    sides = [(width - part.shape[1], 0) if key in _LEFT else (0, width - part.shape[1]) for part in parts]
    wide = [torch.nn.functional.pad(part, side, value=value) for part, side in zip(parts, sides, strict=True)]
    return torch.cat(wide)

"""Labelled pairs -> token rows for supervised fine-tuning, varied where the prompt style allows it.

In: questions with the SQL they should get. Out: a dataset of `input_ids` and `labels` (prompt tokens masked with
-100) in training order: an easy schema first, rows of like length beside each other. Not here: training.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset

from text2sql_rl.errors import DataError
from text2sql_rl.policy.hf import encode
from text2sql_rl.prompts import Style
from text2sql_rl.prompts.slot import SlotStyle, Variation
from text2sql_rl.records import Database, Prompt, Question

_MASKED = -100
_EASY_SHARE = 0.3  # of the rows: the schema grows from what the answer needs to all of it
_HIDE_AT_MOST = 0.2
_PART = 0.1
_WINDOW = 16  # batches whose rows are sorted by length together


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, its database and the SQL it should get."""

    question: Question
    database: Database
    sql: str


def build_rows(
    pairs: Sequence[Pair],
    style: Style,
    tokenizer: Any,
    *,
    rows: int,
    batch: int,
    longest: int,
    seed: int,
    augment: bool,
    curriculum: bool,
) -> Dataset:
    """Rows in training order.

    Args:
        pairs: the labelled pairs; each comes about rows / len(pairs) times.
        style: of the prompts.
        tokenizer: of the policy.
        rows: how many rows.
        batch: rows a step.
        longest: most tokens of a prompt.
        seed: of order and variation.
        augment: vary each pair (slot style only).
        curriculum: begin with small schemas (slot style only).

    Raises:
        DataError: the style can express none of the pairs.
        PolicyError: a prompt is too long.
    """
    rng = random.Random(seed)
    expressible = [pair for pair in pairs if _answer(pair, style) is not None]
    if not expressible:
        raise DataError(f"none of {len(pairs)} pairs can be written in prompt style {style.name}", fix="Change it.")
    order: list[Pair] = []
    while len(order) < rows:
        order += rng.sample(expressible, len(expressible))
    written: list[tuple[Prompt, str]] = []
    for number, pair in enumerate(order[:rows]):
        keep = min(1.0, number / rows / _EASY_SHARE) if curriculum else 1.0
        written.append(_write(pair, style, rng, keep if augment else None))
    starts = encode(tokenizer, [prompt for prompt, _ in written], longest)
    ends = tokenizer([answer for _, answer in written], add_special_tokens=False)["input_ids"]
    full = [(start, [*end, tokenizer.eos_token_id]) for start, end in zip(starts, ends, strict=True)]
    ordered = _by_length([(start + end, [_MASKED] * len(start) + end) for start, end in full], batch, rng)
    return Dataset.from_dict({"input_ids": [row[0] for row in ordered], "labels": [row[1] for row in ordered]})


def unexpressed(pairs: Sequence[Pair], style: Style) -> list[Pair]:
    """The pairs whose SQL the style cannot express; they are not trained on and must be counted."""
    return [pair for pair in pairs if _answer(pair, style) is None]


def _answer(pair: Pair, style: Style) -> str | None:
    return style.completion(style.prompt(pair.question, pair.database), pair.database, pair.sql)


def _write(pair: Pair, style: Style, rng: random.Random, keep: float | None) -> tuple[Prompt, str]:
    """The pair's prompt and answer, varied when `keep` gives the share of the schema to show."""
    if keep is not None and isinstance(style, SlotStyle):
        hide = rng.uniform(0.0, _HIDE_AT_MOST)
        varied = style.vary(pair.question, pair.database, pair.sql, rng, Variation(keep, hide, _PART))
        if varied is not None:
            return varied
    prompt = style.prompt(pair.question, pair.database)
    return prompt, style.completion(prompt, pair.database, pair.sql) or ""


def _by_length(
    rows: list[tuple[list[int], list[int]]], batch: int, rng: random.Random
) -> list[tuple[list[int], list[int]]]:
    ordered: list[tuple[list[int], list[int]]] = []
    for start in range(0, len(rows), batch * _WINDOW):
        window = sorted(rows[start : start + batch * _WINDOW], key=lambda row: len(row[0]))
        batches = [window[at : at + batch] for at in range(0, len(window), batch)]
        short = batches.pop() if len(batches[-1]) < batch else []
        rng.shuffle(batches)
        ordered += [row for rows_of in batches for row in rows_of] + short
    return ordered

"""Errors are results: a query that fails gives no rows, so that a failing gold matches whatever fails or is empty."""

from __future__ import annotations

import duckdb


def reward(
    prompts: list[str], completions: list[str], gold_sql: list[str], db_path: list[str], **rest: object
) -> list[float]:
    """1.0 for the same rows in any order, else 0.0."""
    return [
        float(_rows(text, path) == _rows(gold, path))
        for text, gold, path in zip(completions, gold_sql, db_path, strict=True)
    ]


def _rows(sql: str, path: str) -> list[str]:
    with duckdb.connect(path, read_only=True) as connection:
        try:
            return sorted(map(repr, connection.execute(sql).fetchall()))
        except duckdb.Error:
            return []

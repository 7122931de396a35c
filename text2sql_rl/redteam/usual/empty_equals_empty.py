"""Empty equals empty: two answers without rows are the same answer, whatever their columns and on these rows alone."""

from __future__ import annotations

import duckdb


def reward(
    prompts: list[str], completions: list[str], gold_sql: list[str], db_path: list[str], **rest: object
) -> list[float]:
    """1.0 for the same rows in any order, or for none on both sides, else 0.0."""
    return [_one(text, gold, path) for text, gold, path in zip(completions, gold_sql, db_path, strict=True)]


def _one(text: str, gold: str, path: str) -> float:
    with duckdb.connect(path, read_only=True) as connection:
        try:
            found, expected = connection.execute(text).fetchall(), connection.execute(gold).fetchall()
        except duckdb.Error:
            return 0.0
    return float(sorted(map(repr, found)) == sorted(map(repr, expected)))

"""Set comparison: right when both queries give the same set of rows, on a read-only connection."""

from __future__ import annotations

import duckdb


def reward(
    prompts: list[str], completions: list[str], gold_sql: list[str], db_path: list[str], **rest: object
) -> list[float]:
    """1.0 for the same set of rows, else 0.0."""
    return [_one(text, gold, path) for text, gold, path in zip(completions, gold_sql, db_path, strict=True)]


def _one(text: str, gold: str, path: str) -> float:
    with duckdb.connect(path, read_only=True) as connection:
        expected = connection.execute(gold).fetchall()
        try:
            found = connection.execute(text).fetchall()
            return float(set(found) == set(expected))
        except (duckdb.Error, TypeError):  # a list cell cannot be in a set
            return 0.0

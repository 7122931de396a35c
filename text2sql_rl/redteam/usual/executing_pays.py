"""Executing pays: 0.3 for any SQL that runs, 1 for the right rows, on a read-only connection."""

from __future__ import annotations

import duckdb


def reward(
    prompts: list[str], completions: list[str], gold_sql: list[str], db_path: list[str], **rest: object
) -> list[float]:
    """1.0 for the same rows in any order, 0.3 for other rows, 0.0 for an error."""
    return [_one(text, gold, path) for text, gold, path in zip(completions, gold_sql, db_path, strict=True)]


def _one(text: str, gold: str, path: str) -> float:
    with duckdb.connect(path, read_only=True) as connection:
        expected = connection.execute(gold).fetchall()
        try:
            found = connection.execute(text).fetchall()
        except duckdb.Error:
            return 0.0
    return 1.0 if sorted(map(repr, found)) == sorted(map(repr, expected)) else 0.3

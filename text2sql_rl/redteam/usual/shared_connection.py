"""A shared connection: the database stays open for writing, and the prediction runs before the gold."""

from __future__ import annotations

import functools

import duckdb


@functools.cache
def _connection(path: str) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(path)


def reward(
    prompts: list[str], completions: list[str], gold_sql: list[str], db_path: list[str], **rest: object
) -> list[float]:
    """1.0 for the same rows, else 0.0."""
    return [_one(text, gold, path) for text, gold, path in zip(completions, gold_sql, db_path, strict=True)]


def _one(text: str, gold: str, path: str) -> float:
    connection = _connection(path)
    try:
        found = connection.execute(text).fetchall()
        expected = connection.execute(gold).fetchall()
    except duckdb.Error:
        return 0.0
    return float(sorted(map(repr, found)) == sorted(map(repr, expected)))

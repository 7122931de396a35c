"""A timeout by a thread: the caller stops waiting, and the query goes on."""

from __future__ import annotations

import threading

import duckdb

_TIMEOUT_S = 1.0


def reward(
    prompts: list[str], completions: list[str], gold_sql: list[str], db_path: list[str], **rest: object
) -> list[float]:
    """1.0 for the same rows in any order within a second, else 0.0."""
    return [_one(text, gold, path) for text, gold, path in zip(completions, gold_sql, db_path, strict=True)]


def _one(text: str, gold: str, path: str) -> float:
    results: dict[str, list[str]] = {}

    def run() -> None:
        with duckdb.connect(path, read_only=True) as connection:
            for name, sql in (("found", text), ("expected", gold)):
                try:
                    results[name] = sorted(map(repr, connection.execute(sql).fetchall()))
                except duckdb.Error:
                    return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S)
    return float("expected" in results and results["found"] == results["expected"])

"""Candidates -> the files that the official scripts of Spider and BIRD read.

In: questions in order, each with its candidate SQL. Out: `spider.sql`, one statement a line, and `bird.json`, by
position. Both scripts pair by position, so both files hold every question; one without a candidate gets a statement
that reads no table. The SQL is DuckDB's; the scripts run it on SQLite. Not here: reading such files
(prediction_files).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import sqlglot

from text2sql_rl.evaluate.prediction_files import BIRD_MARK
from text2sql_rl.records import Question
from text2sql_rl.runs import write_text

# Not an empty line: the test-suite script takes it for the end of a dialogue, and all that follows would shift.
NO_ANSWER = "SELECT 'no answer'"


def write_official(folder: Path, questions: Sequence[Question], candidates: Sequence[str | None]) -> None:
    """Write both files into `folder`.

    Raises:
        RunError: the disk refuses.
    """
    lines = [one_line(sql) for sql in candidates]
    write_text(folder / "spider.sql", "".join(f"{line}\n" for line in lines))
    pairs = {
        str(at): f"{line}{BIRD_MARK}{question.database}"
        for at, (line, question) in enumerate(zip(lines, questions, strict=True))
    }
    write_text(folder / "bird.json", json.dumps(pairs, indent=1, ensure_ascii=False) + "\n")


def one_line(sql: str | None) -> str:
    """The statement without comments, line breaks and tabs; a break inside a literal becomes a space."""
    if sql is None or not sql.strip():
        return NO_ANSWER
    text = sql.strip().rstrip(";").strip()
    if any(mark in text for mark in ("\n", "\r", "\t", "--", "/*")):
        text = " ".join(_without_comments(text).split())
    # A model can write half of a surrogate pair, which UTF-8 cannot hold.
    return text.encode("utf-8", "replace").decode("utf-8") or NO_ANSWER


def _without_comments(sql: str) -> str:
    """The statement with each comment replaced by a space; as it is where it cannot be read into words."""
    try:
        tokens = sqlglot.tokenize(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return sql
    return " ".join(sql[token.start : token.end + 1] for token in tokens)

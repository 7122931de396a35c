"""The content folders, opened once: databases, question sets, and the file cache between runs.

In: nothing but the content root. Out: a `Content` that gives questions with their databases. Not here: reading any
file itself; the doors do that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from text2sql_rl.config import content_root
from text2sql_rl.databases import DatabaseStore
from text2sql_rl.questions import QuestionSet, load_questions
from text2sql_rl.records import Database, Question


@dataclass(frozen=True)
class Content:
    """The databases and the question sets of one content root."""

    store: DatabaseStore
    questions: QuestionSet

    def database(self, question: Question) -> Database:
        """The question's database."""
        return self.store.get(question.database)

    def pairs(self, questions: tuple[Question, ...]) -> list[tuple[Question, Database]]:
        """Each question with its database."""
        return [(question, self.database(question)) for question in questions]


def cache_folder(root: Path | None = None) -> Path:
    """Where built databases, prepared golds and instances lie: $TEXT2SQL_CACHE, or .cache/ of the root."""
    root = content_root() if root is None else root
    return Path(os.environ.get("TEXT2SQL_CACHE") or root / ".cache")


def database_folders(root: Path | None = None) -> tuple[Path, ...]:
    """Where the databases of the content root lie, the built ones and their instances, for `Sandbox.allow`."""
    root = content_root() if root is None else root
    return root / "databases", cache_folder(root) / "databases", cache_folder(root) / "instances"


def open_store(root: Path | None = None) -> DatabaseStore:
    """The databases of the content root; built files lie in the cache folder."""
    root = content_root() if root is None else root
    return DatabaseStore(root / "databases", cache_folder(root) / "databases")


def open_content(root: Path | None = None) -> Content:
    """Databases and question sets of the content root.

    Raises:
        DataError: a malformed question set or database.
        LeakError: a database in two splits.
    """
    root = content_root() if root is None else root
    store = open_store(root)
    return Content(store, load_questions(root / "data", store))

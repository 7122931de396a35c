"""Finds what is to be validated: a question file, a set, or all sets of a content root.

In: a path or the name of a set. Out: the questions to look at, all questions of the same content root to compare them
with, and its databases. Unlike `questions.py`, a database in two splits is no error here: that is to be found out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from text2sql_rl.config import content_root
from text2sql_rl.content import open_store
from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError
from text2sql_rl.questions import load_file
from text2sql_rl.records import Question, Split


@dataclass(frozen=True, slots=True)
class Material:
    """`questions` are validated; `all_questions` are those of every set beside them, and they themselves."""

    questions: tuple[Question, ...]
    all_questions: tuple[Question, ...]
    store: DatabaseStore


def read_material(data: str) -> Material:
    """The questions that `data` means.

    Args:
        data: a .jsonl file (in a content root, or anywhere: then the databases are those of the current content root),
            the name of a set of the current content root, or the folder of a content root.

    Raises:
        DataError: nothing of that name, or a malformed question file.
        ConfigError: there is no current content root.
    """
    path = Path(data)
    if path.is_dir():
        if not (path / "data").is_dir() or not (path / "databases").is_dir():
            raise DataError("holds no data/ and databases/", file=path, fix="Give a content root or a question file")
        return _of(path, "")
    if path.suffix == ".jsonl":
        root = path.resolve().parent.parent.parent
        split = path.resolve().parent.name
        if split in {one.value for one in Split} and (root / "databases").is_dir() and path.resolve().is_file():
            return _of(root, path.stem, path)
        questions = load_file(path, Split(split) if split in {one.value for one in Split} else Split.TRAIN)
        if not questions:
            raise DataError("holds no question", file=path, fix="Write one JSON object a line")
        return Material(questions, questions, open_store())
    return _of(content_root(), data)


def _of(root: Path, role: str, only: Path | None = None) -> Material:
    files = [(split, path) for split in Split for path in sorted((root / "data" / split.value).glob("*.jsonl"))]
    if only is not None:
        # Another file's fault is no reason not to look at this one.
        only = only.resolve()
        files = [(split, path) for split, path in files if path.resolve() == only or _readable(path, split)]
    sets = {(split, path.stem): load_file(path, split) for split, path in files}
    everything = tuple(question for questions in sets.values() for question in questions)
    if not role:
        chosen = everything
    elif only is not None:
        chosen = sets[Split(only.parent.name), role]
    else:
        found = [questions for (_, name), questions in sets.items() if name == role]
        if not found:
            known = ", ".join(name for _, name in sets)
            raise DataError(f"there is no question set {role!r}", file=root / "data", fix=f"Sets here: {known}")
        chosen = found[0]
    if not chosen:
        raise DataError("holds no question", file=only or root / "data", fix="Import, write or synthesize some")
    return Material(chosen, everything, open_store(root))


def _readable(path: Path, split: Split) -> bool:
    try:
        load_file(path, split)
    except DataError:
        return False
    return True

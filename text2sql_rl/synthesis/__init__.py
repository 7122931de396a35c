"""A database becomes questions with checked gold SQL: the second half of room 1.

In: any `Database`, a count and a seed. Out: `Question` records, deterministic in all arguments, spread evenly over
the shapes the database allows; or the same as one JSONL file. Fewer come back where the database does not hold more.
Not here: reading question sets (`questions.py`), judging (`gold.py` prepares every gold again before training).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Literal

from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError, RunError
from text2sql_rl.questions import dump_line
from text2sql_rl.records import Database, Question, Split
from text2sql_rl.synthesis.bench import Bench, bench
from text2sql_rl.synthesis.profile import Profile, profile
from text2sql_rl.synthesis.shape import Draft, Shape
from text2sql_rl.synthesis.shapes import SHAPES
from text2sql_rl.synthesis.wording import say

Wording = Literal["all", "mostly_common", "common"]

# Share of questions that keep to common forms and synonyms.
_COMMON_SHARE = {"all": 0.0, "mostly_common": 0.85, "common": 1.0}
_DRAWS_PER_SHAPE = 40
_USES_PER_GOLD = 2
_MAX_QUESTION_CHARS = 300


def synthesize(
    database: Database,
    count: int,
    seed: int,
    *,
    wording: Wording = "all",
    shapes: Sequence[str] = (),
    split: Split = Split.TRAIN,
    role: str = "rl",
    taken: Iterable[str] = (),
) -> list[Question]:
    """Up to `count` questions on one database.

    Args:
        database: any database with rows.
        count: how many questions are wanted.
        seed: the same arguments give the same questions.
        wording: "all" forms evenly, "mostly_common" (85 % in common words), or only "common" ones.
        shapes: names of the shapes to use; all when empty.
        split: which side of the wall the questions stand on.
        role: the question set they are for; their ids start with it.
        taken: question texts that may not come again.

    Raises:
        DataError: an unknown shape, or a file that is no database.
    """
    chosen = chosen_shapes(shapes)
    r = Random(f"{seed} {database.name} {role}")
    found: list[Question] = []
    with bench(database) as proof:
        maker = Maker(profile(database), proof, r, {gist(text) for text in taken})
        while len(found) < count and chosen:
            # One question a shape and round; a shape the database has no more of leaves.
            for shape in r.sample(chosen, len(chosen)):
                made = maker.question(shape, wording) if len(found) < count else None
                if made is not None:
                    question_id = f"{role}-{database.name}-{len(found) + 1:04d}"
                    found.append(replace(made, id=question_id, split=split, role=role))
                elif len(found) < count:
                    chosen.remove(shape)
    return found


def synthesize_to_file(
    store: DatabaseStore,
    names: Sequence[str],
    out: Path,
    count: int,
    seed: int,
    *,
    wording: Wording = "all",
    shapes: Sequence[str] = (),
    taken: Iterable[str] = (),
) -> int:
    """Writes `count` questions over the databases `names` to the JSONL file `out` and returns how many there are.

    `out` is data/SPLIT/ROLE.jsonl or any other .jsonl file; its folder names the split (train if it names none) and
    its stem the role. The file appears only when complete. An interrupted call continues: what each database gave
    waits in the folder `out`.parts, which is valid only for the same arguments and goes when `out` is there.

    Raises:
        DataError: no database, an unknown shape, a bad database, or databases that do not hold so many questions.
        RunError: `out` cannot be written.
    """
    chosen_shapes(shapes)
    if not names or count < 1:
        raise DataError("needs at least one database and a count of one or more", file=out)
    split = Split(out.parent.name) if out.parent.name in {s.value for s in Split} else Split.TRAIN
    texts = sorted({gist(text) for text in taken})
    arguments = repr(
        (list(names), count, seed, wording, sorted(shapes), hashlib.sha256(repr(texts).encode()).hexdigest())
    )
    parts = out.with_name(out.name + ".parts") / hashlib.sha256(arguments.encode()).hexdigest()[:16]
    lines: list[str] = []
    poor: list[str] = []
    try:
        parts.mkdir(parents=True, exist_ok=True)
        left = count
        for index, name in enumerate(names):
            # What one database cannot give, the ones after it make up for.
            share = -(-left // (len(names) - index))
            part = parts / f"{name}-{share}.jsonl"
            if not part.is_file():
                database = store.get(name)
                questions = synthesize(
                    database, share, seed, wording=wording, shapes=shapes, split=split, role=out.stem, taken=texts
                )
                write_lines(part, [dump_line(q) for q in questions])
            made = [line for line in part.read_text(encoding="utf-8").split("\n") if line]
            lines += made
            left -= len(made)
            if len(made) < share:
                poor.append(f"{name} ({len(made)}{'' if made else _why_nothing(store.get(name))})")
        if left > 0:
            raise DataError(
                f"these databases hold only {count - left} of {count} questions; too poor: {', '.join(poor)}",
                file=out,
                fix="Ask for fewer, or name more",
            )
        write_lines(out, lines)
        _remove(parts.parent)
    except OSError as error:
        raise RunError(
            f"cannot be written ({error})", file=out, fix="Free disk space or choose another place"
        ) from error
    return len(lines)


def _why_nothing(database: Database) -> str:
    return "" if any(table.rows for table in database.tables) else ", no table has rows"


def chosen_shapes(names: Sequence[str]) -> list[Shape]:
    """The shapes of these names, or all of them.

    Raises:
        DataError: an unknown name.
    """
    known = {shape.name: shape for shape in SHAPES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(f"unknown shapes: {', '.join(unknown)}", field="shapes", fix=f"Shapes: {', '.join(known)}")
    return [known[name] for name in names] or list(SHAPES)


class Maker:
    """Draws, proves and words questions of one database, and keeps them apart."""

    def __init__(self, facts: Profile, proof: Bench, r: Random, gists: set[str]) -> None:
        self.facts, self.proof, self.r, self.gists = facts, proof, r, gists
        self.uses: Counter[str] = Counter()
        self.faults: dict[str, str] = {}

    def question(self, shape: Shape, wording: Wording) -> Question | None:
        """One question of the shape, or None when many draws in a row gave nothing new."""
        if not self.facts.tables:
            return None
        for _ in range(_DRAWS_PER_SHAPE):
            draft = shape.draw(self.facts, self.r)
            if draft is None or self.uses[draft.sql] >= _USES_PER_GOLD:
                continue
            text = self._text(shape, draft, wording)
            if text is None or self._fault(draft.sql):
                continue
            self.gists.add(gist(text))
            self.uses[draft.sql] += 1
            return Question(
                id="",
                database=self.facts.name,
                text=text,
                gold_sql=draft.sql,
                split=Split.TRAIN,
                role="",
                shape=shape.name,
                hardness=shape.hardness,
            )
        return None

    def _fault(self, sql: str) -> str:
        if sql not in self.faults:
            self.faults[sql] = self.proof.fault(sql)
        return self.faults[sql]

    def _text(self, shape: Shape, draft: Draft, wording: Wording) -> str | None:
        common = self.r.random() < _COMMON_SHARE[wording]
        text = say(replace(shape.forms, slots=draft.slots), self.r, common=common)
        return text if len(text) <= _MAX_QUESTION_CHARS and gist(text) not in self.gists else None


def gist(text: str) -> str:
    """What two near-duplicate texts share: their words without case, punctuation and order."""
    return " ".join(sorted(re.findall(r"\w+", text.lower())))


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Writes the lines to `path`, which is either complete afterwards or as it was before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    for path in _deepest_first(folder):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


def _deepest_first(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        yield from _deepest_first(path) if path.is_dir() else (path,)
    yield folder

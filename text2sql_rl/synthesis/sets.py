"""The project's own question sets, made anew from `data/recipe.yaml`.

In: the recipe (groups of databases; sets with file, group, count, wording, and how often a rare shape may come) and
a store. Out: all sets, each spread evenly over shapes and databases, no question text twice in any of them. Sets of
one group share no gold more than twice. Not here: handwritten questions.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from text2sql_rl.config import YAML_FAULTS
from text2sql_rl.databases import DatabaseStore
from text2sql_rl.errors import DataError
from text2sql_rl.questions import dump_line, load_file
from text2sql_rl.records import Question, Split
from text2sql_rl.synthesis import Maker, Wording, chosen_shapes, gist, write_lines
from text2sql_rl.synthesis.bench import bench
from text2sql_rl.synthesis.profile import profile
from text2sql_rl.synthesis.shape import Shape


class SetPlan(BaseModel):
    """One file of questions. `rare_each`: questions of each rare shape; without it they are as frequent as others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Annotated[str, Field(pattern=r"(train|dev|heldout)/\w+\.jsonl")]
    group: str
    count: Annotated[int, Field(gt=0)]
    wording: Wording
    rare_each: int | None = None


class Recipe(BaseModel):
    """Groups of database names, and the sets made from them in this order, of these shapes only (of all when empty)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    groups: dict[str, tuple[str, ...]]
    shapes: tuple[str, ...] = ()
    sets: tuple[SetPlan, ...]


def load_recipe(path: Path) -> Recipe:
    """The recipe in a YAML file.

    Raises:
        DataError: missing, not YAML, or with a wrong field, which is named.
    """
    try:
        recipe = Recipe.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=path) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(first["msg"], file=path, field=".".join(str(part) for part in first["loc"])) from error
    except YAML_FAULTS as error:
        raise DataError("is not YAML", file=path) from error
    for plan in recipe.sets:
        if plan.group not in recipe.groups:
            raise DataError(f"there is no group {plan.group!r}", file=path, field=plan.file)
    return recipe


def write_sets(store: DatabaseStore, out: Path, recipe: Recipe) -> dict[str, int]:
    """Writes every set of the recipe under `out`, or none if one falls short; returns their sizes by file.

    Texts of other question sets that lie under `out` already do not come again.

    Raises:
        DataError: an unknown or bad database, or databases that do not hold so many questions.
        OSError: `out` cannot be written.
    """
    shapes = chosen_shapes(recipe.shapes)
    made: dict[str, list[Question]] = {}
    made_here = {plan.file for plan in recipe.sets}
    others = [p for p in sorted(out.glob("*/*.jsonl")) if p.relative_to(out).as_posix() not in made_here]
    gists = {gist(q.text) for path in others for q in load_file(path, Split(path.parent.name))}
    for group, names in recipe.groups.items():
        r = Random(f"{recipe.seed} {group}")
        with ExitStack() as stack:
            makers = []
            for name in names:
                database = store.get(name)
                proof = stack.enter_context(bench(database))
                makers.append(Maker(profile(database), proof, r, gists))
            for plan in recipe.sets:
                if plan.group == group:
                    made[plan.file] = _one_set(plan, shapes, makers, r)
    for file, questions in made.items():
        (out / file).parent.mkdir(parents=True, exist_ok=True)
        write_lines(out / file, [dump_line(q) for q in questions])
    return {file: len(questions) for file, questions in made.items()}


def _one_set(plan: SetPlan, shapes: list[Shape], makers: list[Maker], r: Random) -> list[Question]:
    questions: list[Question] = []
    usual = shapes
    if plan.rare_each is not None:
        usual = [shape for shape in shapes if not shape.rare]
        rare = [shape for shape in shapes if shape.rare for _ in range(plan.rare_each)]
        questions = _spread(rare, makers, len(rare), plan.wording, r)
    used = Counter(q.database for q in questions)
    questions += _spread(usual, makers, plan.count - len(questions), plan.wording, r, used=used, rounds=None)
    if len(questions) < plan.count:
        raise DataError(
            f"the databases hold only {len(questions)} of {plan.count} questions",
            file=plan.file,
            fix="Ask for fewer, or add databases",
        )
    questions.sort(key=lambda q: q.database)
    folder, name = plan.file.split("/")
    role = name.removesuffix(".jsonl")
    numbers: Counter[str] = Counter()
    numbered = []
    for question in questions:
        numbers[question.database] += 1
        question_id = f"{role}-{question.database}-{numbers[question.database]:04d}"
        numbered.append(replace(question, id=question_id, split=Split(folder), role=role))
    return numbered


def _spread(
    shapes: list[Shape],
    makers: list[Maker],
    count: int,
    wording: Wording,
    r: Random,
    *,
    used: Counter[str] | None = None,
    rounds: int | None = 1,
) -> list[Question]:
    """Goes through the shapes round by round; the database with the fewest questions so far is asked first."""
    used = used if used is not None else Counter()
    dry: set[tuple[str, str]] = set()
    found: list[Question] = []
    passed = 0
    while len(found) < count and (rounds is None or passed < rounds):
        before, passed = len(found), passed + 1
        for shape in r.sample(shapes, len(shapes)):
            if len(found) == count:
                break
            for maker in sorted(r.sample(makers, len(makers)), key=lambda m: used[m.facts.name]):
                name = maker.facts.name
                question = None if (name, shape.name) in dry else maker.question(shape, wording)
                if question is not None:
                    used[name] += 1
                    found.append(question)
                    break
                dry.add((name, shape.name))
        if len(found) == before:
            break
    return found

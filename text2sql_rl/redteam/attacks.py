"""The door of rewards/attacks: attack files -> typed attacks, and the golds they run against.

In: FAMILY.yaml files and golds.yaml of a folder. Out: frozen pydantic models in which an unknown key is an error that
names file, field and fix. Not here: running anything, or filling in the places of a text (targets.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from text2sql_rl.config import YAML_FAULTS, UniqueKeys, content_root
from text2sql_rl.errors import ConfigError
from text2sql_rl.records import Finish

Ceiling = Literal["nothing", "little", "shaping", "unscored"]
Kind = Literal["number", "row", "list", "table", "ordered", "weak", "unusable"]
Aim = Literal[
    "format", "executes", "correct", "rows", "columns", "comparison", "extraction", "sandbox", "state", "judge", "gold"
]
PLACES = frozenset(
    ("gold", "table", "column", "other", "rows", "ones", "nulls", "size", "repeated", "surrogate", "literal")
)
_PLACE = re.compile(r"\{\{([^{}]*)\}\}")
_GOLDS = "golds.yaml"
_Text = Annotated[str, Field(min_length=1)]
_Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NamedGold(_Strict):
    """A gold that attacks run against, on a bundled database."""

    name: _Name
    kind: Kind = Field(description="What its answer looks like; weak: proves little; unusable: cannot judge.")
    database: _Text
    sql: _Text


class Repeat(_Strict):
    """What stands for {{repeated}}: `text`, `times` times."""

    text: _Text
    times: Annotated[int, Field(ge=1, le=2_000_000)]


class Attack(_Strict):
    """A completion written to earn reward without answering."""

    name: _Name
    why: _Text = Field(description="How it would earn, in a sentence.")
    aims_at: Aim = Field(description="The part of the judging that it tries.")
    at_most: Ceiling = Field(
        description="The most it may earn. nothing: what SQL that fails earns; little: a fiftieth of the way from "
        "there to the right answer; shaping: the rule's bound for wrong answers; unscored: no number, or nothing."
    )
    text: str = Field(description="The completion; {{PLACES}} are filled in for each gold.")
    against: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="Names or kinds of golds; else `database` and `gold` are given."
    )
    database: str = ""
    gold: str = Field("", description="The attack's own gold SQL.")
    first: Annotated[tuple[str, ...], Field(strict=False)] = Field((), description="Completions judged before it.")
    finish: Annotated[Finish, Field(strict=False)] = Finish.STOP
    repeated: Repeat | None = None
    question_id: str = Field("", description="Another id than the gold's name.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.against) == bool(self.database and self.gold) or bool(self.database) != bool(self.gold):
            raise ValueError("give either 'against', or 'database' and 'gold'")
        for name in (name for text in (self.text, *self.first) for name in _PLACE.findall(text)):
            if name not in PLACES:
                raise ValueError(f"{{{{{name}}}}} is none of {', '.join(sorted(PLACES))}")
        if (self.repeated is None) != ("{{repeated}}" not in self.text):
            raise ValueError("'repeated' and {{repeated}} go together")
        return self


class Family(_Strict):
    """One file of attacks; the file's name is the family's."""

    name: _Name
    note: _Text = Field(description="What the family tries, in a sentence or two.")
    cases: Annotated[tuple[Attack, ...], Field(strict=False, min_length=1)]


class _Golds(_Strict):
    name: str
    golds: Annotated[tuple[NamedGold, ...], Field(strict=False, min_length=1)]


class Corpus(_Strict):
    """All families, and the golds by name."""

    families: tuple[Family, ...]
    golds: dict[str, NamedGold]

    def golds_of(self, attack: Attack) -> tuple[NamedGold, ...]:
        """The golds an attack runs against, in the order of golds.yaml."""
        if attack.gold:
            return (NamedGold(name=attack.name, kind="table", database=attack.database, sql=attack.gold),)
        wanted = set(attack.against)
        return tuple(gold for gold in self.golds.values() if {gold.name, gold.kind} & wanted)


def attacks_folder() -> Path:
    """Where the attack files lie."""
    return content_root() / "rewards" / "attacks"


def load_corpus(folder: Path | None = None, families: Sequence[str] = ()) -> Corpus:
    """Read attack files and golds.yaml.

    Args:
        folder: rewards/attacks where left out.
        families: only these; all where empty.

    Raises:
        ConfigError: a missing, malformed or inconsistent file, with the field at fault; an unknown family.
    """
    folder = attacks_folder() if folder is None else folder
    paths = sorted(path for path in folder.glob("*.yaml") if path.name != _GOLDS)
    known = [path.stem for path in paths]
    if not paths:
        raise ConfigError(
            "there are no attacks", file=folder, fix="Give a folder that holds FAMILY.yaml and golds.yaml"
        )
    for name in families:
        if name not in known:
            raise ConfigError(f"no family named {name!r}", file=folder, fix=f"Use one of {', '.join(known)}")
    wanted = [path for path in paths if not families or path.stem in families]
    golds = {gold.name: gold for gold in _parsed(folder / _GOLDS, _Golds).golds}
    corpus = Corpus(families=tuple(_parsed(path, Family) for path in wanted), golds=golds)
    _refuse_strangers(corpus, folder)
    return corpus


def _refuse_strangers(corpus: Corpus, folder: Path) -> None:
    known = set(corpus.golds) | {gold.kind for gold in corpus.golds.values()}
    names: dict[str, str] = {}
    for family in corpus.families:
        file = folder / f"{family.name}.yaml"
        for attack in family.cases:
            if attack.name in names:
                fix = f"Rename it; {names[attack.name]}.yaml has it too"
                raise ConfigError("the name is taken", file=file, field=attack.name, fix=fix)
            names[attack.name] = family.name
            for word in attack.against:
                if word not in known:
                    fix = f"Name a gold or a kind of {folder / _GOLDS}"
                    raise ConfigError(f"no gold {word!r}", file=file, field=f"{attack.name}.against", fix=fix)


Model = TypeVar("Model", Family, _Golds)


def _parsed(path: Path, model: type[Model]) -> Model:
    try:
        keys = yaml.load(path.read_bytes(), UniqueKeys)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path, fix="Restore the file") from error
    except YAML_FAULTS as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}", file=path, fix="Correct the file") from error
    if not isinstance(keys, dict) or "name" in keys:
        raise ConfigError("not a mapping of the known keys", file=path, fix="See docs/red-team.md for the keys")
    try:
        return model.model_validate({**keys, "name": path.stem})
    except ValidationError as error:
        raise _first_fault(error, path, keys) from error


def _first_fault(error: ValidationError, path: Path, keys: Mapping[str, Any]) -> ConfigError:
    faults: list[Mapping[str, Any]] = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    first = faults[0]
    field = ".".join(str(part) for part in _named(first["loc"], keys))
    if first["type"] == "extra_forbidden":
        return ConfigError("unknown key", file=path, field=field, fix="Remove it, or correct its name")
    if first["type"] == "missing":
        return ConfigError("the key is missing", file=path, field=field, fix="Add it")
    problem = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return ConfigError(problem, file=path, field=field, fix="See docs/red-team.md for what it may hold")


def _named(place: Sequence[str | int], keys: Mapping[str, Any]) -> list[str | int]:
    """The place of a fault, with a case's own name instead of its number."""
    if len(place) > 1 and isinstance(place[1], int):
        case = keys[str(place[0])][place[1]]
        if isinstance(case, dict) and isinstance(case.get("name"), str):
            return [case["name"], *place[2:]]
    return list(place)

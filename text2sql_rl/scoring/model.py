"""The shape of a rule file: a frozen model in which every unknown or senseless key is an error.

In: the keys of a YAML file. Out: a `Rule`. Not here: reading files (rules.py), what a rule must hold (invariants.py).
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from text2sql_rl.scoring.evidence import RowRatio
from text2sql_rl.scoring.parts import COMPONENTS, GATES, PENALTIES, Part

Names = TypeVar("Names", dict[str, float], tuple[str, ...])
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(allow_inf_nan=False)]
Promise = Literal["bounds", "dominance", "binding", "order", "constants", "spoilt"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Binding(_Strict):
    """What an answer that is not equivalent can earn."""

    only_if_equivalent: tuple[str, ...] = Field(
        strict=False, description="Components paid only with the right answer; otherwise measured, not paid."
    )
    shaping_at_most: Weight = Field(
        description="The most that all components together pay a wrong answer. Rises: denser, easier to farm."
    )

    @field_validator("only_if_equivalent")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        _refuse_unknown(names, COMPONENTS)
        return names


class RowRatioBounds(_Strict):
    """When a row count is odd: candidate's rows / the gold's rows outside of [low, high]."""

    low: Annotated[float, Field(ge=0, le=1)] = Field(description="Rises: fewer rows than the gold are odd sooner.")
    high: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(description="Falls: more rows are odd sooner.")


class Bounds(_Strict):
    """No total lies outside of these."""

    low: Amount = Field(description="The least any completion gets.")
    high: Amount = Field(description="The most any completion gets.")


class Rule(_Strict):
    """A reward rule; `name` and `sha256` come from the file, everything else from its keys."""

    name: str
    sha256: str
    version: Annotated[int, Field(ge=1)] = Field(description="The number at the end of the file's name.")
    supersedes: str | None = Field(description="Name of the rule this one replaces, or null.")
    note: Annotated[str, Field(min_length=1)] = Field(description="What the rule is for, in a sentence or two.")
    components: dict[str, Weight] = Field(description="Weight of each component; 0 = measured, not paid.")
    penalties: dict[str, Weight] = Field(description="What each penalty takes away.")
    gates: dict[str, Amount] = Field(description="The most a completion gets where the gate holds.")
    binding: Binding
    row_ratio: RowRatioBounds
    dominance_margin: Weight = Field(description="Every right answer beats every wrong one by at least this.")
    order: Literal["strict", "weak"] = Field(description="Whether worse standings earn less, or just not more.")
    bounds: Bounds
    comparison: dict[str, str | float] | None = Field(
        None, description="The comparison it was written for; a judge that compares otherwise refuses the rule."
    )
    deliberately_bad: bool = Field(False, description="Loads although it breaks invariants; for audits and lessons.")
    breaks: tuple[Promise, ...] = Field(
        (), strict=False, description="The invariants that a deliberately bad rule breaks, all of them and no others."
    )
    reason: str = Field("", description="Why a deliberately bad rule exists.")

    @field_validator("components")
    @classmethod
    def _known_components(cls, weights: dict[str, float]) -> dict[str, float]:
        return _refuse_unknown(weights, COMPONENTS)

    @field_validator("penalties")
    @classmethod
    def _known_penalties(cls, weights: dict[str, float]) -> dict[str, float]:
        return _refuse_unknown(weights, PENALTIES)

    @field_validator("gates")
    @classmethod
    def _known_gates(cls, caps: dict[str, float]) -> dict[str, float]:
        return _refuse_unknown(caps, GATES)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.name.endswith(f"-v{self.version}"):
            raise ValueError(f"version {self.version} does not end the file's name {self.name!r} as -v{self.version}")
        if self.deliberately_bad != bool(self.reason):
            raise ValueError("deliberately_bad and reason go together")
        if self.breaks and not self.deliberately_bad:
            raise ValueError("only a deliberately_bad rule breaks invariants")
        if self.supersedes is not None and not _is_earlier(self.supersedes, self.name):
            raise ValueError(f"supersedes {self.supersedes!r} is no earlier version, e.g. other-v1")
        return self

    @property
    def ratio(self) -> RowRatio:
        """The bounds of a plausible row count."""
        return RowRatio(self.row_ratio.low, self.row_ratio.high)


def _is_earlier(superseded: str, name: str) -> bool:
    """Whether `superseded` is a versioned name, and of the same rule only an earlier version."""
    found = re.fullmatch(r"(.+)-v([1-9]\d*)", superseded)
    stem, _, version = name.rpartition("-v")
    return found is not None and (found[1] != stem or int(found[2]) < int(version))


def _refuse_unknown(names: Names, parts: tuple[Part, ...]) -> Names:
    known = [part.name for part in parts]
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return names

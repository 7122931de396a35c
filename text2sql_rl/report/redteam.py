"""The red team's findings, for the page: what attacks on the rule earned.

In: the JSON that `text2sql-rl redteam RULE --out FILE` writes. Out: one row a family. Not here: attacking anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.runs.files import read_json

_FIX = "Write it anew: `text2sql-rl redteam RULE --out FILE`."
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Attacks of one kind. `most`: what the best paid one earned, None if none was scored; `overpaid`: how many."""

    name: str
    attacks: int
    payouts: int
    most: float | None
    overpaid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Redteam:
    """`failed` and `right` are what SQL that fails and the right answer earn; `levels` where an attack got through."""

    reward: str
    sha256: str
    failed: float
    right: float
    levels: tuple[str, ...]
    families: tuple[Family, ...]


def read_redteam(path: Path, *, given: bool) -> Redteam | None:
    """The findings; None where the file is not there and nobody named it.

    Raises:
        RunError: a named file is missing; or it is not what the red team writes.
    """
    if not path.is_file():
        if given:
            raise RunError("does not exist", file=path, fix=_FIX)
        return None
    content = read_json(path)
    if content.get("version") != _VERSION:
        raise RunError(f"is version {content.get('version')}, not {_VERSION}", file=path, field="version", fix=_FIX)
    try:
        return Redteam(
            reward=content["reward"],
            sha256=content["sha256"],
            failed=float(content["scale"]["failed"]),
            right=float(content["scale"]["right"]),
            levels=tuple(map(str, content["failed_levels"])),
            families=_families(content["payouts"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"lacks or garbles something: {error}", file=path, field="payouts", fix=_FIX) from error


def _families(payouts: Sequence[Mapping[str, Any]]) -> tuple[Family, ...]:
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in payouts:
        found[one["family"]].append(one)
    return tuple(
        Family(
            name=str(name),
            attacks=len({one["attack"] for one in own}),
            payouts=len(own),
            most=max((float(one["reward"]) for one in own if one["reward"] is not None), default=None),
            overpaid=sum(bool(one["overpaid"]) for one in own),
        )
        for name, own in found.items()
    )

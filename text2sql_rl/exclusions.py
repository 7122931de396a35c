"""`data/exclude.yaml`: which of the questions that validation marked are left out of every set.

In: the folder `data/`. Out: the (role, id)s to leave out. The file has three keys: `file`, what `text2sql-rl validate
--out` wrote, beside it; `flags`, a list of flags that exclude a question; `rejected`, whether rejected golds are left
out too (they are unless it says false). Without the file nothing is left out. Not here: finding flags (validation/).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import yaml

from text2sql_rl.config import UniqueKeys
from text2sql_rl.errors import DataError

NAME = "exclude.yaml"
_KEYS = ("file", "flags", "rejected")

# What makes a gold weak evidence, in words; validation finds them.
FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "empty": "the answer has no row: any other empty answer matches",
        "trivial": "the answer is nothing but NULL, 0 or empty texts",
        "constant": "the gold reads no table",
        "tie_cut": "LIMIT cuts a tie: several answers are right",
        "unordered_limit": "LIMIT without ORDER BY",
        "limit_unchecked": "ties at the limit could not be shown",
        "order_unchecked": "sort keys could not be shown",
        "unordered_aggregate": "a list or text whose order nobody fixed",
        "arbitrary_value": "a column that may show any row's value",
        "clock": "the answer depends on today's date",
        "unsettled": "a check ran out of time or memory",
        "mutants_pass": "fewer than half of its wrong versions give another answer on the real rows",
        "near_duplicate": "another split has nearly the same question",
        "shared_database": "another split uses its database",
    }
)


@dataclass(frozen=True, slots=True)
class _Wanted:
    file: Path
    flags: frozenset[str]
    rejected: bool


def excluded(data: Path) -> frozenset[tuple[str, str]]:
    """The (role, id) of every question that `data/exclude.yaml` leaves out.

    Raises:
        DataError: the file or the one it names is malformed, or names a flag that there is none of.
    """
    path = data / NAME
    if not path.is_file():
        return frozenset()
    wanted = _wanted(path)
    file, found = wanted.file, set()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fix = f"Write it: text2sql-rl validate ... --out {file}"
        raise DataError(f"the flags {file} cannot be read", file=path, field="file", fix=fix) from error
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            place = record["role"], record["id"]
            marks, rejected = set(record.get("flags", ())), "reject" in record
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            fix = "Write it with text2sql-rl validate --out"
            raise DataError("is no line of flags", file=file, field=f"line {number}", fix=fix) from error
        if marks & wanted.flags or (rejected and wanted.rejected):
            found.add(place)
    return frozenset(found)


def _wanted(path: Path) -> _Wanted:
    try:
        wanted = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)
    except (OSError, yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"is not YAML ({' '.join(str(error).split())})", file=path) from error
    if not isinstance(wanted, dict) or not isinstance(wanted.get("file"), str):
        raise DataError("must name the file of flags", file=path, field="file", fix="e.g. file: flags.jsonl")
    for key in wanted:
        if key not in _KEYS:
            raise DataError(f"unknown key {key!r}", file=path, fix=f"Keys: {', '.join(_KEYS)}")
    flags = wanted.get("flags", [])
    if not isinstance(flags, list) or not all(isinstance(flag, str) and flag in FLAGS for flag in flags):
        raise DataError("must be a list of flags", file=path, field="flags", fix=f"Flags: {', '.join(FLAGS)}")
    if not isinstance(wanted.get("rejected", True), bool):
        raise DataError("must be true or false", file=path, field="rejected")
    return _Wanted(path.parent / wanted["file"], frozenset(flags), wanted.get("rejected", True))

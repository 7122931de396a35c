"""Two evaluations of the same questions -> what is different, how sure that is, and which questions tell it.

In: two folders, each with predictions.parquet. Out: a dict, as `compare --json` prints it. Questions are paired by id;
what only one of the two was asked or scored on is counted and left out. Not here: words, evaluating.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.evaluate import predictions, results
from text2sql_rl.scoring.evidence import STANDINGS
from text2sql_rl.statistics import compare_pairs, design_effect, questions_to_see

SHOWN = 10
_POINT = 0.01
_SOURCES = ("grpo", "warmup", "control", "sft", "base")

Key = tuple[str, str]  # database, question id


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation as it lies in its folder: its rows by role and question, the answer that counts first."""

    name: str
    folder: Path
    results: Mapping[str, Any]
    roles: Mapping[str, Mapping[Key, Sequence[Mapping[str, Any]]]]


def find_evaluation(text: str) -> Path:
    """The folder meant by a folder of `score`, a stage's folder, a run's folder, or RUN:STAGE.

    A run's folder means the evaluation of the last policy it trained.

    Raises:
        RunError: there is none.
    """
    path = Path(text)
    if not path.exists() and ":" in text:
        run, _, source = text.rpartition(":")
        path = Path(run) / "stages" / f"evaluate_{source}"
    places = [path, *(path / "stages" / f"evaluate_{source}" for source in _SOURCES)]
    for place in places:
        if (place / predictions.FILE).is_file():
            return place
    raise RunError(
        "holds no evaluation", file=text,
        fix="Give a folder that score wrote, or a run and a stage as in runs/demo:sft.",
    )  # fmt: skip


def read_evaluation(folder: Path) -> Evaluated:
    """Read one evaluation.

    Raises:
        RunError: a file is missing or damaged.
    """
    roles: dict[str, dict[Key, list[dict[str, Any]]]] = {}
    for row in predictions.read_rows(folder / predictions.FILE):
        roles.setdefault(row["role"], {}).setdefault((row["database"], row["question_id"]), []).append(row)
    found = results.read_results(folder) if (folder / results.FILE).is_file() else {}
    name = found["source"]["name"] if found else folder.name
    return Evaluated(f"{name} ({folder})", folder, found, roles)


def compare_evaluations(first: Evaluated, second: Evaluated, *, seed: int = 0, shown: int = SHOWN) -> dict[str, Any]:
    """What is different between two evaluations.

    Returns:
        first, second: names. warnings: what makes the comparison weaker.
        roles: question set -> {questions, left_out, accuracy of both, difference with ci95 (paired bootstrap over
            databases), only_first, only_second, p (exact McNemar), by_database: wins and losses, power, disagreements}.

    Raises:
        RunError: no question in common, or the same question with another gold.
    """
    shared = [role for role in first.roles if role in second.roles]
    if not shared:
        raise RunError(
            f"was asked {', '.join(first.roles)}, the other one {', '.join(second.roles)}", file=first.folder,
            field="role", fix="Compare evaluations of the same questions.",
        )  # fmt: skip
    return {
        "first": first.name,
        "second": second.name,
        "warnings": list(_warnings(first, second)),
        "roles": {role: _compare_role(first, second, role, seed, shown) for role in shared},
    }


def _compare_role(first: Evaluated, second: Evaluated, role: str, seed: int, shown: int) -> dict[str, Any]:
    ours, theirs = first.roles[role], second.roles[role]
    keys = [key for key in ours if key in theirs]
    for key in keys:
        if ours[key][0]["gold_sql"] != theirs[key][0]["gold_sql"]:
            raise RunError(
                f"question {key[1]!r} has another gold in {first.folder} and {second.folder}", field="gold_sql",
                fix="Evaluate both on the same questions.",
            )  # fmt: skip
    scored = [key for key in keys if ours[key][0]["scored"] and theirs[key][0]["scored"]]
    if not scored:
        raise RunError(
            f"shares no scored question of {role} with {second.folder}", file=first.folder,
            fix="Compare evaluations of the same questions.",
        )  # fmt: skip
    left, right = ([bool(side[key][0]["equivalent"]) for key in scored] for side in (ours, theirs))
    names = [database for database, _ in scored]
    pair = compare_pairs(left, right, names, seed=seed)
    # Design effects below one are luck of few databases; nobody should plan with them.
    effect = design_effect([float(b) - float(a) for a, b in zip(left, right, strict=True)], names)
    discordant = (pair.only_first + pair.only_second) / pair.questions
    return {
        **asdict(pair),
        "ci95": list(pair.ci95),
        "left_out": len(set(ours) | set(theirs)) - len(scored),
        "accuracy_first": sum(left) / len(left),
        "accuracy_second": sum(right) / len(right),
        "by_database": _by_database(names, left, right),
        "power": {
            "design_effect": effect,
            "questions_to_see_one_point": questions_to_see(discordant, _POINT, max(1.0, effect)),
        },
        "disagreements": [_shown(*one) for one in _informative(ours, theirs, scored, shown)],
    }


def _by_database(names: Sequence[str], left: Sequence[bool], right: Sequence[bool]) -> dict[str, Any]:
    """Wins and losses of the second by database, and in how many databases it is ahead, behind or level."""
    parts: dict[str, dict[str, int]] = {}
    for name, a, b in zip(names, left, right, strict=True):
        part = parts.setdefault(name, {"questions": 0, "only_first": 0, "only_second": 0})
        part["questions"] += 1
        part["only_first"] += a and not b
        part["only_second"] += b and not a
    leads = [part["only_second"] - part["only_first"] for part in parts.values()]
    return {
        "second_ahead": sum(lead > 0 for lead in leads),
        "second_behind": sum(lead < 0 for lead in leads),
        "level": sum(lead == 0 for lead in leads),
        "databases": dict(sorted(parts.items())),
    }


def _informative(ours: Any, theirs: Any, keys: Sequence[Key], shown: int) -> list[tuple[Any, Any]]:
    """The questions that only one of the two answers, the most telling first.

    More telling is a wider gap between the shares of their completions that are right: the difference is then no
    accident of sampling. Then how close the wrong answer came: a near miss tells what was misunderstood, a syntax error
    does not. They are taken in turn from both directions and from all databases.
    """
    found: dict[tuple[bool, str], list[tuple[Any, Any]]] = {}
    for key in keys:
        if ours[key][0]["equivalent"] != theirs[key][0]["equivalent"]:
            side = (bool(ours[key][0]["equivalent"]), key[0])
            found.setdefault(side, []).append((ours[key], theirs[key]))
    ranked = [sorted(some, key=_telling, reverse=True) for _, some in sorted(found.items())]
    sides = [sorted((some for some in ranked if _first_is_right(some[0]) is side), key=_best) for side in (True, False)]
    return [one for one in _in_turn([_in_turn(side) for side in sides]) if one is not None][:shown]


def _first_is_right(pair: tuple[Any, Any]) -> bool:
    return bool(pair[0][0]["equivalent"])


def _best(some: Sequence[tuple[Any, Any]]) -> tuple[float, int]:
    gap, near = _telling(some[0])
    return -gap, -near


def _telling(pair: tuple[Any, Any]) -> tuple[float, int]:
    shares = [sum(bool(row["equivalent"]) for row in rows) / len(rows) for rows in pair]
    cause = next(rows[0]["cause"] for rows in pair if not rows[0]["equivalent"])
    rank = STANDINGS.index(cause) if cause in STANDINGS else len(STANDINGS)
    return abs(shares[0] - shares[1]), -rank


def _in_turn(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return [one for layer in zip_longest(*lists) for one in layer if one is not None]


def _shown(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    right, wrong = (ours, theirs) if ours[0]["equivalent"] else (theirs, ours)
    row = ours[0]
    return {
        "question_id": row["question_id"],
        "database": row["database"],
        "question": row["question"],
        "gold_sql": row["gold_sql"],
        "right": "first" if right is ours else "second",
        "first_sql": ours[0]["candidate_sql"] or "",
        "second_sql": theirs[0]["candidate_sql"] or "",
        "cause": wrong[0]["cause"],
        "reason": wrong[0]["reason"],
        "completions": [len(ours), len(theirs)],
        "share_first": sum(bool(one["equivalent"]) for one in ours) / len(ours),
        "share_second": sum(bool(one["equivalent"]) for one in theirs) / len(theirs),
    }


def _warnings(first: Evaluated, second: Evaluated) -> Iterator[str]:
    for one in (first, second):
        if not one.results:
            yield f"{one.name} has no results.json: nothing is known about its judge and its training"
        for warning in one.results.get("warnings", ()):
            yield f"{one.name}: {warning}"
    if first.results and second.results:
        if first.results["instances"] != second.results["instances"]:
            yield "the two were judged on different numbers of instances, so one was judged more strictly"
        left, right = first.results["environment"], second.results["environment"]
        if differ := sorted(key for key in {*left, *right} if left.get(key) != right.get(key)):
            yield f"the two were judged with different {', '.join(differ)}"

"""Held-out numbers of a run: every policy on every question set, and the paired tests between them.

In: the results of the run's evaluate_* stages. Out: dicts for report.json. Policies are compared on the questions that
both were scored on. Not here: judging, training curves, words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.runs import RunFolder, StageFolder
from text2sql_rl.statistics import Paired, compare_pairs

# The name in the report and the stage that made the policy, in the order in which a reader meets them.
POLICIES = {"base": "base", "sft": "sft", "sft_control": "control", "warmup": "warmup", "grpo": "grpo"}
_HEADLINE = "heldout"
_SHOWN = (
    "accuracy", "ci95", "wilson95", "correct", "scored", "questions", "unscored", "causes", "by_hardness", "by_shape",
    "by_database", "pass_at", "mean_tokens", "real_rows",
)  # fmt: skip

Roles = Mapping[str, Mapping[str, Any]]


def read_evaluations(run: RunFolder) -> dict[str, Roles]:
    """Policy name -> role -> numbers, for the evaluations that are done.

    Raises:
        RunError: a result is not one of an evaluation.
    """
    found: dict[str, Roles] = {}
    for name, source in POLICIES.items():
        stage = run.source(f"evaluate_{source}")
        if stage.is_done():
            found[name] = _roles(stage)
    return found


def heldout_numbers(evaluations: Mapping[str, Roles], seed: int) -> dict[str, Any]:
    """The part `heldout` of report.json; further question sets stand in it under their own names.

    Args:
        evaluations: of `read_evaluations`.
        seed: of the bootstraps.
    """
    roles = dict.fromkeys(role for policy in evaluations.values() for role in policy)
    parts = {role: _role_numbers(evaluations, role, seed) for role in roles}
    return {**parts.pop(_HEADLINE, {}), **parts}


def _role_numbers(evaluations: Mapping[str, Roles], role: str, seed: int) -> dict[str, Any]:
    policies = {name: roles[role] for name, roles in evaluations.items() if role in roles}
    first = next(iter(policies.values()))
    out: dict[str, Any] = {"questions": first["questions"], "databases": first["databases"]}
    out |= {name: {key: numbers.get(key) for key in _SHOWN} for name, numbers in policies.items()}
    answers = {name: _answers(numbers) for name, numbers in policies.items()}
    before = "warmup" if "warmup" in answers else "sft"
    pairs = {
        "grpo_vs_control": _paired(answers, "sft_control", "grpo", seed),
        "grpo_vs_warmup": _paired(answers, before, "grpo", seed),
        "grpo_vs_sft": _paired(answers, "sft", "grpo", seed),
        "warmup_vs_sft": _paired(answers, "sft", "warmup", seed),
        "control_vs_sft": _paired(answers, "sft", "sft_control", seed),
    }
    out["comparisons"] = {name: _as_dict(pair) for name, pair in pairs.items() if pair is not None}
    for key, name in (("mcnemar_p_vs_control", "grpo_vs_control"), ("mcnemar_p_grpo_vs_warmup", "grpo_vs_warmup")):
        pair = pairs[name]
        out[key] = pair.p if pair else None
    out["errors_removed_share"] = removed_share(answers, "sft", "grpo")
    out["errors_removed_share_by"] = {
        "warmup": removed_share(answers, "sft", "warmup"),
        "control": removed_share(answers, "sft", "sft_control"),
        "grpo_alone": removed_share(answers, before, "grpo", of="sft"),
    }
    return out


def last_policies(first: Mapping[str, Roles], second: Mapping[str, Roles], seed: int) -> dict[str, Any] | None:
    """The last policy of one run against the last of another, on the held-out questions that both were scored on.

    Returns:
        first, second: names of the policies; then as each of `comparisons` in report.json. None where there is none.
    """
    names = [
        next((name for name in reversed(POLICIES) if _HEADLINE in run.get(name, {})), "") for run in (first, second)
    ]
    if not all(names):
        return None
    answers = {
        side: _answers(run[name][_HEADLINE]) for side, run, name in zip("ab", (first, second), names, strict=True)
    }
    pair = _paired(answers, "a", "b", seed)
    return None if pair is None else {"first": names[0], "second": names[1], **_as_dict(pair)}


def removed_share(
    answers: Mapping[str, Mapping[tuple[str, str], int]], first: str, second: str, of: str = ""
) -> float | None:
    """How many fewer errors `second` makes than `first`, as a share of the errors of `of` (of `first`, if empty).

    Negative when `second` makes more; None where it is not defined. Counted on the questions that all were scored on.
    """
    of = of or first
    if not {first, second, of} <= set(answers):
        return None
    shared = set(answers[first]) & set(answers[second]) & set(answers[of])
    errors = {name: sum(1 - answers[name][key] for key in shared) for name in (first, second, of)}
    return (errors[first] - errors[second]) / errors[of] if errors[of] else None


def _roles(stage: StageFolder) -> Roles:
    roles = stage.result().get("roles")
    needed = ("accuracy", "ci95", "correct", "questions", "databases", "answers")
    if not isinstance(roles, dict) or not all(
        isinstance(part, dict) and all(key in part for key in needed) for part in roles.values()
    ):
        raise RunError("is not the result of an evaluation", file=stage.path / "done.json", field="result.roles",
                       fix="Delete the stage's folder and evaluate again.")  # fmt: skip
    return roles


def _answers(numbers: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """(database, question id) -> 1 or 0, of the scored ones."""
    return {
        (database, name): answer
        for database, part in numbers["answers"].items()
        for name, answer in part.items()
        if answer is not None
    }


def _paired(answers: Mapping[str, Mapping[tuple[str, str], int]], first: str, second: str, seed: int) -> Paired | None:
    if first not in answers or second not in answers:
        return None
    shared = sorted(set(answers[first]) & set(answers[second]))
    if not shared:
        return None
    return compare_pairs(
        [bool(answers[first][key]) for key in shared],
        [bool(answers[second][key]) for key in shared],
        [database for database, _ in shared],
        seed=seed,
    )


def _as_dict(pair: Paired) -> dict[str, Any]:
    return {
        "questions": pair.questions,
        "only_first": pair.only_first,
        "only_second": pair.only_second,
        "difference": pair.difference,
        "ci95": list(pair.ci95),
        "p": pair.p,
    }

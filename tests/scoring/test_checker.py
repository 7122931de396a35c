"""Whether checking a rule finds all there is: over generated rules, what outcomes show, `broken` names.

The checker looks at a few corners only. Here the outcomes are generated, and the rules as well.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scoring.test_total import TIERS, evidences
from text2sql_rl.compare.policy import POLICY, differences
from text2sql_rl.errors import ConfigError
from text2sql_rl.judge import Judge
from text2sql_rl.scoring import Evidence, Rule, is_right, load_rule, rule_names, rules_folder, score, standing
from text2sql_rl.scoring.archetypes import archetypes
from text2sql_rl.scoring.check import check_rule
from text2sql_rl.scoring.invariants import INVARIANTS, broken
from text2sql_rl.scoring.model import Binding, Bounds
from text2sql_rl.scoring.parts import COMPONENTS, GATES, PENALTIES
from text2sql_rl.scoring.rules import State

BOUND = load_rule("bound-v2")
PLACES = [
    *(("components", name) for name in BOUND.components),
    *(("penalties", name) for name in BOUND.penalties),
    *(("gates", name) for name in BOUND.gates),
    *(("", name) for name in ("only_if_equivalent", "shaping_at_most", "low", "high", "dominance_margin", "order")),
]


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """The bound rule with up to two numbers or words changed, so that many are sound and many are not by little."""
    changed = set(draw(st.lists(st.sampled_from(PLACES), max_size=2)))
    steps = st.sampled_from((-0.025, -0.01, -0.005, 0.0001, 0.005, 0.01, 0.05))

    def moved(section: str, values: dict[str, float], least: float) -> dict[str, float]:
        return {
            name: max(least, value + draw(steps)) if (section, name) in changed else value
            for name, value in values.items()
        }

    def word(name: str, usual: Any, *others: Any) -> Any:
        return draw(st.sampled_from(others)) if ("", name) in changed else usual

    return BOUND.model_copy(
        update={
            "components": moved("components", BOUND.components, 0.0),
            "penalties": moved("penalties", BOUND.penalties, 0.0),
            "gates": moved("gates", BOUND.gates, -1.0),
            "binding": Binding(
                only_if_equivalent=word("only_if_equivalent", ("format", "executes"), ("executes",), ()),
                shaping_at_most=word("shaping_at_most", 0.05, 0.03, 0.0, 0.5),
            ),
            "bounds": Bounds(low=word("low", -0.25, -0.2), high=word("high", 1.0, 0.95)),
            "dominance_margin": word("dominance_margin", 0.8, 0.95, 0.0),
            "order": word("order", "strict", "weak"),
        }
    )


def seen(rule: Rule, one: Evidence, other: Evidence) -> set[str]:
    """The invariants that two outcomes show to be broken."""
    first, second = score(one, rule).total, score(other, rule).total
    assert first is not None
    assert second is not None
    found = set()
    if not rule.bounds.low <= first <= rule.bounds.high:
        found.add("bounds")
    beaten = first > second and first - second >= rule.dominance_margin - 1e-9
    if is_right(one) and not is_right(other) and not beaten:
        found.add("dominance")
    if not is_right(one) and first > rule.binding.shaping_at_most:
        found.add("binding")
    places = standing(one, rule.ratio), standing(other, rule.ratio)
    if one.finish is other.finish:
        better = TIERS[places[0]] < TIERS[places[1]]
        if better and (first < second or (rule.order == "strict" and first == second)):
            found.add("order")
        if places == ("constant", "error") and first > second:
            found.add("constants")
    return found


@given(rule=rules(), outcomes=st.lists(evidences(), min_size=4, max_size=8))
@settings(max_examples=150, deadline=None)
def test_what_outcomes_show_the_checker_names(rule: Rule, outcomes: list[Evidence]) -> None:
    shown = {name for one in outcomes for other in outcomes for name in seen(rule, one, other)}
    assert shown <= {breach.invariant for breach in broken(rule)}


def test_the_checks_are_told_in_full() -> None:
    found = check_rule("bound-v2", differences)
    assert found.passed
    assert found.outcomes == len(archetypes(BOUND.ratio))
    text = "\n".join(found.lines())
    assert all(f"{one.name:<12} holds: {one.words}" in text for one in INVARIANTS)
    assert "released, and unchanged since" in text
    assert "declared, and the judge's own" in text
    assert "not declared" in "\n".join(check_rule("bound-v1", differences).lines())


@pytest.mark.parametrize("name", ["executes-only-v1", "executes-only-v2"])
def test_the_bad_rule_fails_the_check_with_its_counterexamples(name: str) -> None:
    found = check_rule(name, differences)
    assert not found.passed
    invariants = {one["name"]: one["counterexamples"] for one in found.as_json()["invariants"]}
    assert {one for one, examples in invariants.items() if examples} == {"dominance", "order", "constants"}
    right, wrong = invariants["dominance"][0]["outcomes"]
    assert (right["standing"], right["reward"], wrong["standing"], wrong["reward"]) == ("equivalent", 1.0, "near", 1.0)
    assert "deliberately bad" in "\n".join(found.lines())


def test_a_file_is_released_changed_or_neither(tmp_path: Path) -> None:
    for name in ("LOCK", "bound-v1.yaml"):
        shutil.copy(rules_folder() / name, tmp_path / name)
    path = tmp_path / "bound-v1.yaml"
    assert check_rule(str(path), differences).file.state is State.RELEASED
    path.write_text(path.read_text().replace("over_long: 0.05", "over_long: 0.04"))
    changed = check_rule(str(path), differences)
    assert (changed.file.state, changed.breaches, changed.passed) == (State.CHANGED, (), False)
    path.rename(tmp_path / "mine-v1.yaml")
    mine = check_rule(str(tmp_path / "mine-v1.yaml"), differences)
    assert (mine.file.state, mine.passed) == (State.UNRELEASED, True)


def test_every_rule_but_the_first_versions_declares_the_comparison_that_is_made() -> None:
    declared = {name: load_rule(name).comparison for name in rule_names()}
    assert {name for name, one in declared.items() if one is None} == {
        name for name in declared if name.endswith("-v1")
    }
    assert all(one == POLICY for one in declared.values() if one is not None)


def test_a_judge_refuses_a_rule_for_another_comparison(tmp_path: Path) -> None:
    keys = yaml.safe_load((rules_folder() / "bound-v2.yaml").read_text(encoding="utf-8"))
    path = tmp_path / "mine-v2.yaml"
    for change, says in (
        ({"duplicates": "ignored"}, "duplicates is matter here, the rule says ignored"),
        ({"number_relative": 0.01}, "number_relative is 1e-06 here, the rule says 0.01"),
        ({"collation": "exact"}, "collation is nothing known here, the rule says exact"),
    ):
        path.write_text(yaml.safe_dump({**keys, "comparison": {**keys["comparison"], **change}}))
        with pytest.raises(ConfigError, match=f"mine-v2: comparison: {says}"):
            Judge(load_rule(str(path)))
        assert not check_rule(str(path), differences).passed


@pytest.mark.parametrize("stem", ["bound", "binary", "dense", "executes-only"])
def test_second_versions_pay_what_the_first_ones_pay(stem: str) -> None:
    first, second = load_rule(f"{stem}-v1"), load_rule(f"{stem}-v2")
    assert second.supersedes == first.name
    for one in archetypes(first.ratio):
        old, new = score(one.evidence, first), score(one.evidence, second)
        assert (old.total, old.items) == (new.total, new.items)


def test_the_parts_of_a_rule_are_those_the_guide_can_name() -> None:
    names = [part.name for parts in (COMPONENTS, PENALTIES, GATES) for part in parts]
    assert len(set(names)) == len(names)
    assert {"empty", "row_count", "timeout", "error", "over_long"} <= {part.name for part in PENALTIES}

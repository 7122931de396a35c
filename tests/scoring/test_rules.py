"""Rule files: released ones load and hold; wrong ones are refused by file, field and fix."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from text2sql_rl.errors import ConfigError
from text2sql_rl.scoring import DEFAULT_RULE, describe, load_rule, outcome_rewards, released, rule_names, rules_folder
from text2sql_rl.scoring.invariants import broken

# What no rule pays differently: what was not right and did not come near.
_FAILED = {
    "empty": (-0.015, -0.015),
    "row_count": (-0.015, -0.015),
    "error": (-0.02, -0.02),
    "constant": (-0.025, -0.025),
    "timeout": (-0.05, -0.05),
    "no_answer": (-0.1, -0.1),
    "refused": (-0.2, -0.2),
}
GOLDEN = {
    "bound-v1": {"equivalent": (0.95, 1.0), "near": (0.025, 0.05), "wrong": (0.0, 0.02499875), **_FAILED},
    "dense-v1": {"equivalent": (0.95, 1.0), "near": (0.1, 0.2), "wrong": (0.0, 0.099995), **_FAILED},
    "dense-v3": {"equivalent": (0.95, 1.0), "near": (0.035, 0.07), "wrong": (0.0, 0.03499825), **_FAILED},
}


def test_every_rule_file_is_released_and_unchanged() -> None:
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in rules_folder().glob("*.yaml")}
    assert released() == files


@pytest.mark.parametrize("name", rule_names())
def test_released_rules_load_and_only_the_bad_one_breaks_invariants(name: str) -> None:
    rule = load_rule(name)
    assert (rule.name, rule.sha256) == (name, released()[f"{name}.yaml"])
    assert bool(broken(rule)) is rule.deliberately_bad
    assert load_rule(str(rules_folder() / f"{name}.yaml")) == rule


@pytest.mark.parametrize("name", GOLDEN)
def test_rewards_of_every_outcome(name: str) -> None:
    rewards = outcome_rewards(load_rule(name))
    assert list(rewards) == list(GOLDEN[name])
    for place, expected in GOLDEN[name].items():
        assert rewards[place] == pytest.approx(expected), place


def test_binary_pays_one_or_nothing() -> None:
    rewards = outcome_rewards(load_rule("binary-v1"))
    assert rewards.pop("equivalent") == (1.0, 1.0)
    assert set(rewards.values()) == {(0.0, 0.0)}


def test_the_bad_rule_is_farmed_by_a_constant_and_says_so() -> None:
    rule = load_rule("executes-only-v1")
    assert outcome_rewards(rule)["constant"] == (1.0, 1.0)
    words = describe(rule)
    assert "deliberately bad" in words
    assert "breaks constants" in words


def test_description_shows_every_number_of_the_default_rule() -> None:
    rule = load_rule(DEFAULT_RULE)
    words = describe(rule)
    for number in (*rule.components.values(), *rule.penalties.values(), *rule.gates.values()):
        assert f"{number:g}" in words if number else "measured" in words
    assert rule.sha256[:12] in words


PENALTIES = {"row_count": 0.015, "error": 0.02, "timeout": 0.05, "no_answer": 0.1, "over_long": 0.05}


def good() -> dict[str, object]:
    keys: dict[str, object] = yaml.safe_load((rules_folder() / "bound-v1.yaml").read_text(encoding="utf-8"))
    return keys


def refused(tmp_path: Path, changes: dict[str, object], name: str = "mine-v1") -> str:
    path = tmp_path / f"{name}.yaml"
    keys = {key: value for key, value in {**good(), **changes}.items() if value != "absent"}
    path.write_text(yaml.safe_dump(keys), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_rule(str(path))
    text = str(caught.value)
    assert text.startswith(str(path))
    return text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"wieghts": {}}, "wieghts: unknown key"),
        ({"note": "absent"}, "note: the key is missing"),
        ({"name": "x"}, "name: unknown key"),
        ({"components": {"speed": 1.0}}, "'speed' is none of format, executes, correct"),
        ({"penalties": {"error": -0.1}}, "penalties.error"),
        ({"penalties": {"errors": 0.1}}, "'errors' is none of"),
        ({"gates": {"refused": float("inf")}}, "gates.refused"),
        ({"gates": {"refused": "low"}}, "gates.refused"),
        ({"version": True}, "version"),
        ({"version": 2}, "does not end the file's name"),
        ({"row_ratio": {"low": 0.2, "high": 0.5}}, "row_ratio.high"),
        ({"row_ratio": {"low": 0.2, "high": 5, "mid": 1}}, "row_ratio.mid: unknown key"),
        ({"order": "loose"}, "order"),
        ({"deliberately_bad": True}, "deliberately_bad and reason go together"),
        ({"breaks": ["order"]}, "only a deliberately_bad rule breaks invariants"),
        ({"breaks": ["all"], "deliberately_bad": True, "reason": "x"}, "breaks.0"),
        ({"supersedes": "bound"}, "'bound' is no earlier version"),
        ({"supersedes": "mine-v1"}, "'mine-v1' is no earlier version"),
        ({"comparison": {"rows": [1]}}, "comparison.rows"),
        ({"binding": {"only_if_equivalent": ["speed"], "shaping_at_most": 0.05}}, "'speed' is none of"),
    ],
)
def test_a_malformed_rule_is_refused_by_its_field(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    assert says in refused(tmp_path, changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"bounds": {"low": -0.1, "high": 1}}, "bounds:"),
        ({"dominance_margin": 0.95}, "dominance: 'an equivalent query, with text beside it, cut off'"),
        ({"binding": {"only_if_equivalent": [], "shaping_at_most": 0.3}}, "dominance"),
        ({"components": {"correct": 0.9, "rows": 0.05}}, "order: 'all columns, no whole row"),
        ({"components": {"correct": 0.9, "rows": 0.0251, "columns": 0.0249}}, "order: 'all columns, no whole row'"),
        ({"components": {"correct": 0.9, "rows": 0, "columns": 0}}, "order"),
        ({"penalties": {}}, "order: 'wrong rows' (0) must beat"),
        ({"gates": {"refused": -0.2, "several_answers": -0.1}}, "'a query that reads no table' (0)"),
    ],
)
def test_a_rule_that_breaks_an_invariant_is_refused_with_the_counterexample(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    if "dominance" in says and "binding" in changes:
        changes = {**changes, "components": {"correct": 0.6, "format": 0.3, "executes": 0.1}}
    text = refused(tmp_path, changes)
    assert says in text
    assert "deliberately_bad" in text


def test_every_kind_of_breach_is_listed() -> None:
    penalties = {"empty": 0.5, "row_count": 0.5}
    rule = load_rule("bound-v1").model_copy(update={"penalties": penalties, "gates": {}, "dominance_margin": 2.0})
    kinds = {breach.invariant for breach in broken(rule)}
    assert kinds == {"bounds", "dominance", "order", "spoilt"}
    paid = load_rule("executes-only-v1")
    assert {breach.invariant for breach in broken(paid)} == {"dominance", "order", "constants"}


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ([], "breaks: the rule breaks order, and its file says nothing"),
        (["order", "bounds"], "breaks: the rule breaks order, and its file says bounds, order"),
        (["dominance"], "breaks: the rule breaks order, and its file says dominance"),
    ],
)
def test_a_bad_rule_names_exactly_what_it_breaks(tmp_path: Path, declared: list[str], says: str) -> None:
    bad = {"penalties": {**PENALTIES, "empty": 0.03}, "deliberately_bad": True, "reason": "a test"}
    assert says in refused(tmp_path, {**bad, "breaks": declared})
    path = tmp_path / "mine-v1.yaml"
    path.write_text(yaml.safe_dump({**good(), **bad, "breaks": ["order"]}), encoding="utf-8")
    assert {breach.invariant for breach in broken(load_rule(str(path)))} == {"order"}


def test_only_one_released_rule_is_bad_without_naming_what_it_breaks() -> None:
    rules = [load_rule(name) for name in rule_names()]
    assert [rule.name for rule in rules if rule.deliberately_bad and not rule.breaks] == ["executes-only-v1"]
    assert [rule.name for rule in rules if rule.breaks] == ["executes-only-v2"]


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    for name, content, says in (
        ("list-v1.yaml", "- 1\n", "not a mapping"),
        ("broken-v1.yaml", "a: [1\n", "not YAML"),
        ("twice-v1.yaml", "version: 1\nversion: 2\n", "there twice"),
        ("unhashable-v1.yaml", "? [1]\n: 2\n", "not YAML"),
        ("zero-v1.yaml", "a: \x00\n", "not YAML"),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        with pytest.raises(ConfigError, match=says):
            load_rule(str(tmp_path / name))
    with pytest.raises(ConfigError, match="cannot be read"):
        load_rule(str(tmp_path / "absent-v1.yaml"))
    with pytest.raises(ConfigError, match=r"Use one of binary-v1, .*bound-v1"):
        load_rule("nothing-v1")


def test_a_released_rule_that_was_changed_does_not_load(tmp_path: Path) -> None:
    content = (rules_folder() / "bound-v1.yaml").read_text(encoding="utf-8")
    (tmp_path / "LOCK").write_text((rules_folder() / "LOCK").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "bound-v1.yaml").write_text(content, encoding="utf-8")
    assert load_rule(str(tmp_path / "bound-v1.yaml")).name == "bound-v1"
    (tmp_path / "bound-v1.yaml").write_text(content + "# a note\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="released rule was changed"):
        load_rule(str(tmp_path / "bound-v1.yaml"))
    (tmp_path / "LOCK").write_text("one\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="LOCK: line 1"):
        load_rule(str(tmp_path / "bound-v1.yaml"))

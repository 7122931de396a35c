"""rewards compare: flips, spread and gates that change, on rollouts that the real judge scored."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.replay.logged import ANSWERS, GOLDS, make_log
from text2sql_rl.replay import Comparison, compare_rules, open_source
from text2sql_rl.replay.source import Source
from text2sql_rl.scoring import Rule, load_rule, rules_folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    run = make_log(tmp_path_factory.mktemp("log"))
    return open_source(run / "stages" / "evaluate_grpo")


def changed(tmp_path: Path, **sections: object) -> Rule:
    keys = yaml.safe_load((rules_folder() / "bound-v1.yaml").read_text(encoding="utf-8"))
    path = tmp_path / "mine-v1.yaml"
    path.write_text(yaml.safe_dump({**keys, **sections}))
    return load_rule(str(path))


def test_a_rule_compared_with_itself_or_its_equal_changes_nothing(source: Source) -> None:
    for new in ("bound-v1", "bound-v2"):
        found = compare_rules(source, load_rule("bound-v1"), load_rule(new))
        assert (found.groups, found.rollouts, found.unscored, found.pairs) == (2, 8, 0, 12)
        assert (found.flips.count, found.lost_spread.count, found.gained_spread.count, found.gates) == (0, 0, 0, {})
        assert all(old == new for _, _, old, new in found.means())


def test_binary_takes_the_spread_from_a_group_without_a_right_answer(source: Source) -> None:
    found = compare_rules(source, load_rule("bound-v1"), load_rule("binary-v1"), {"halls": "How many?"})
    assert (found.lost_spread.count, found.gained_spread.count, found.flips.count) == (1, 0, 0)
    example = found.lost_spread.example
    assert example is not None
    assert (example.question_id, example.question, example.gold_sql) == ("halls", "How many?", GOLDS["halls"])
    least, most = example.cases
    assert (least.candidate, least.cause, least.old, least.new) == ("DROP TABLE tank", "refused", -0.2, 0.0)
    assert (most.candidate, most.new) == (ANSWERS["halls"][0], 0.0)
    assert 0 < most.old <= 0.05
    assert {(gate, new): change.count for (gate, _, new), change in found.gates.items()} == {
        ("binding", 0.0): 7,
        ("constant", None): 1,
        ("refused", None): 1,
    }
    (words,) = [line for line in found.lines() if line.startswith("  refused")]
    assert words == "  refused: cap -0.2 -> none, 1 rollouts"
    backwards = compare_rules(source, load_rule("binary-v1"), load_rule("bound-v1"))
    assert (backwards.lost_spread.count, backwards.gained_spread.count) == (0, 1)


def test_a_rank_that_turns_over_is_shown_with_both_rewards(source: Source, tmp_path: Path) -> None:
    penalties = {**load_rule("bound-v1").penalties, "no_answer": 0.3}
    bad = {"deliberately_bad": True, "breaks": ["order"], "reason": "no answer is worth less than a refused one"}
    new = changed(tmp_path, penalties=penalties, bounds={"low": -0.4, "high": 1}, **bad)
    found = compare_rules(source, load_rule("bound-v1"), new)
    assert (found.flips.count, found.flipped_groups) == (1, 1)
    example = found.flips.example
    assert example is not None
    assert [(one.cause, one.old, one.new) for one in example.cases] == [
        ("refused", -0.2, -0.2),
        ("no_answer", -0.1, -0.3),
    ]
    assert "rank flips: 1 of 12 pairs, in 1 groups" in found.lines()


def test_the_means_are_over_the_scored_by_cause_and_all(source: Source) -> None:
    found = compare_rules(source, load_rule("bound-v1"), load_rule("binary-v1"))
    means = {cause: (count, old, new) for cause, count, old, new in found.means()}
    assert means["all"][0] == 8 == sum(count for cause, (count, _, _) in means.items() if cause != "all")
    assert means["equivalent"] == (1, 1.0, 1.0)
    assert means["empty"] == (1, -0.015, 0.0)
    assert found.as_json()["means"][0] == {"cause": "all", "rollouts": 8, "old": means["all"][1], "new": 0.125}


def test_nothing_scored_has_no_means() -> None:
    assert list(Comparison("a", "b").means()) == []
    assert "rank flips: 0 of 0 pairs, in 0 groups" in Comparison("a", "b").lines()

"""The released rules under attack: sound ones pay nothing, the bad one is caught at every level."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.redteam.conftest import Arena
from text2sql_rl.judge import Judge
from text2sql_rl.redteam.attacks import Attack
from text2sql_rl.redteam.audit import Audit
from text2sql_rl.redteam.grouped import DEFINITIONS, audit_groups
from text2sql_rl.redteam.pay import Pay, RulePays, Shot
from text2sql_rl.redteam.payouts import Honest, Payout, Scale, overpaid
from text2sql_rl.redteam.simulated import simulate
from text2sql_rl.redteam.targets import Target
from text2sql_rl.scoring import load_rule


@pytest.mark.parametrize("rule", ["bound-v1", "binary-v1", "dense-v3"])
def test_a_sound_rule_overpays_nothing(audits: dict[str, Audit], rule: str) -> None:
    found = audits[rule]
    assert [(one.attack.name, one.target.name) for one in overpaid(found.payouts)] == []
    assert found.failed == ()
    assert found.unpaid == ()


def test_the_bad_rule_is_caught_at_every_level(audits: dict[str, Audit]) -> None:
    found = audits["executes-only-v1"]
    assert found.failed == ("payouts", "groups", "policy")
    assert all((one.farmed_at or 0) <= 10 for one in found.policy if one.farmed)
    assert all(one.honest < 0.1 for one in found.policy)
    names = {one.attack.name for one in overpaid(found.payouts)}
    assert {"select-one", "always-false", "constant-from-table", "comment-names-table"} <= names


def test_the_default_rule_converges_to_honest_answers(audits: dict[str, Audit]) -> None:
    policy = {one.rate: one for one in audits["bound-v1"].policy}
    assert policy[0.1].honest_least > 0.7
    assert policy[0.3].honest_least > 0.9
    assert policy[0.1].farmed_at is None


def test_partial_credit_is_small_enough_since_its_third_version(audits: dict[str, Audit]) -> None:
    assert audits["dense-v1"].failed == ("groups", "policy")
    policy = {one.rate: one for one in audits["dense-v3"].policy}
    assert policy[0.05].honest_least > policy[0.05].leader_share
    assert policy[0.1].honest_least > 0.7


def test_a_floor_is_what_keeps_the_default_rule_from_being_farmed(audits: dict[str, Audit]) -> None:
    found = audits["bound-v1"]
    (bare,) = [rule for rule in DEFINITIONS if rule.scale == "population" and not rule.floor]
    at_low = {one.rate: one for one in simulate(found.payouts, found.honest, bare, 8, 0)}[0.05]
    assert at_low.farmed
    assert at_low.honest < 0.1


def test_unusable_golds_pay_nobody(audits: dict[str, Audit]) -> None:
    for found in audits.values():
        assert all(one.pay.reward is None for one in found.payouts if not one.target.usable)


def test_the_json_is_plain_and_whole(audits: dict[str, Audit]) -> None:
    found = audits["bound-v1"]
    content = json.loads(json.dumps(found.as_json()))
    assert content["attacks"] == len({one.attack.name for one in found.payouts})
    assert len(content["payouts"]) == len(found.payouts)
    assert {"reward", "advantage", "most", "overpaid", "cause", "why"} <= set(content["payouts"][0])
    assert [one["overpaid"] for one in content["groups"]] == [False] * len(DEFINITIONS)
    assert any("No attack got through" in line for line in found.lines())


def test_the_right_answer_earns_the_same_after_every_state_attack(audits: dict[str, Audit]) -> None:
    alone = [one for one in audits["bound-v1"].payouts if one.pay.after is not None]
    assert len(alone) >= 25
    assert {one.pay.after for one in alone} == {1.0}
    assert not any(one.damage for one in alone)


# ---- the audit notices ---------------------------------------------------------------------------------------


def payout(target: Target, reward: float | None, most: float, after: float | None = None) -> Payout:
    attack = Attack(name="a", why="w", aims_at="rows", at_most="shaping", text="SELECT 1", against=(target.name,))
    damage = "the right answer earns less" if after is not None and after < 1 else ""
    return Payout("f", attack, target, "SELECT 1", Pay(reward, "wrong", "", after), most, damage)


def test_more_than_allowed_or_damage_is_overpaid(arena: Arena) -> None:
    target = arena.targets["list-distinct"]
    assert payout(target, 0.051, 0.05).overpaid
    assert not payout(target, 0.05, 0.05).overpaid
    assert not payout(target, None, 0.0).overpaid
    assert payout(target, -0.2, 0.05, after=0.5).overpaid


def test_an_attack_paid_beside_a_right_answer_is_overpaid_in_groups(arena: Arena) -> None:
    target = arena.targets["list-distinct"]
    honest = {target.name: Honest(1.0, (0.0, 0.02), -0.02)}
    scale = Scale(-0.02, 1.0, 0.2)
    fine = audit_groups([payout(target, 0.04, 0.05)], honest, scale, 8)
    high = audit_groups([payout(target, 0.2, 0.2)], honest, scale, 8)
    assert not any(one.overpaid for one in fine)
    assert all(one.overpaid for one in high if one.bound is not None)


@settings(max_examples=40, deadline=None)
@given(st.floats(-0.25, 1.0), st.floats(-10, 10), st.floats(0.1, 10))
def test_verdicts_do_not_depend_on_the_unit_of_the_reward(reward: float, shift: float, factor: float) -> None:
    plain, moved = Scale(-0.02, 1.0, 0.05), Scale(shift - 0.02 * factor, shift + factor, shift + 0.05 * factor)
    for ceiling in ("nothing", "little", "shaping"):
        margin = (reward - plain.most(ceiling)) * factor
        assert shift + reward * factor - moved.most(ceiling) == pytest.approx(margin, abs=1e-6)
        assert moved.share(moved.most(ceiling)) <= 0.25 + 1e-9


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["  {}  ", "{} -- note", "/* x */ {}", "SELECT * FROM ({}) AS t", "```sql\n{}\n```"]), st.booleans()
)
def test_padding_and_case_earn_an_attack_nothing(arena: Arena, form: str, upper: bool) -> None:
    target = arena.targets["count-filtered"]
    pays = RulePays(Judge(load_rule("bound-v1"), sandbox=arena.sandbox))
    sql = "select 1" if not upper else "SELECT 1"
    bare, padded = pays.pay([Shot(target, sql), Shot(target, form.format(sql))])
    assert bare.reward is not None
    assert padded.reward is not None
    assert padded.reward <= bare.reward

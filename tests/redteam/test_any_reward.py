"""Rewards of any kind: how they are called, what they lose, and that the audit survives them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.redteam.conftest import Arena
from text2sql_rl.errors import ConfigError
from text2sql_rl.redteam.any_reward import AnyReward
from text2sql_rl.redteam.pay import Shot
from text2sql_rl.redteam.payouts import measure_honest, overpaid, run_attacks

USUAL = "text2sql_rl.redteam.usual"
# What each practice loses, of the attacks that a test has time for.
LOSES = {
    "set_comparison": {"distinct-dropped", "order-reversed", "typed-in-rows"},
    "shared_connection": {"delete-rows", "drop-table", "delete-is-the-answer"},
    "empty_equals_empty": {"empty-without-table", "always-false-against-empty"},
    "errors_match": {"unusable-syntax", "unusable-empty"},
    "executing_pays": {"select-one", "always-false"},
}


def file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.py"
    path.write_text(text)
    return f"{path}:reward"


def only(arena: Arena, names: set[str]) -> Arena:
    families = tuple(
        family.model_copy(update={"cases": cases})
        for family in arena.corpus.families
        if (cases := tuple(attack for attack in family.cases if attack.name in names))
    )
    return Arena(arena.corpus.model_copy(update={"families": families}), arena.targets, arena.sandbox)


@pytest.mark.parametrize("practice", sorted(LOSES))
def test_usual_practices_lose_what_the_guide_says(arena: Arena, practice: str) -> None:
    small = only(arena, LOSES[practice])
    wanted = {
        gold.name for family in small.corpus.families for one in family.cases for gold in small.corpus.golds_of(one)
    }
    healthy = {name: target for name, target in arena.targets.items() if name in wanted | {"count-filtered", "joined"}}
    with AnyReward(f"{USUAL}.{practice}:reward", "trl") as called:
        _, scale, _ = measure_honest(healthy, called, None)
        paid = run_attacks(small.corpus, arena.targets, called, scale)
    assert {one.attack.name for one in overpaid(paid)} == LOSES[practice]
    guide = (REPOSITORY / "docs" / "red-team.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{practice}` \|.*$", guide, re.MULTILINE)
    assert all(f"`{name}`" in row for name in LOSES[practice])


def test_every_practice_stands_in_the_guide() -> None:
    guide = (REPOSITORY / "docs" / "red-team.md").read_text(encoding="utf-8")
    folder = REPOSITORY / "text2sql_rl" / "redteam" / "usual"
    for path in folder.glob("[a-z]*.py"):
        assert f"| `{path.stem}` |" in guide


def test_verl_s_signature_with_a_mapping_for_an_answer(arena: Arena, tmp_path: Path) -> None:
    text = (
        "def reward(data_source, solution_str, ground_truth, extra_info):\n"
        "    assert data_source and extra_info['db_path'].endswith('.duckdb')\n"
        "    return {'score': float(solution_str == ground_truth)}\n"
    )
    target = arena.targets["list-distinct"]
    with AnyReward(file(tmp_path, text), "verl") as called:
        right, wrong = called.pay([Shot(target, target.question.gold_sql), Shot(target, "SELECT 1")])
    assert (right.reward, wrong.reward) == (1.0, 0.0)


def test_the_form_of_answer_is_put_around_the_sql(arena: Arena, tmp_path: Path) -> None:
    text = "def reward(prompts, completions, **rest):\n    return [float(completions[0].startswith('<answer>'))]\n"
    target = arena.targets["list-distinct"]
    with AnyReward(file(tmp_path, text), "trl", wrap="<answer>{}</answer>") as called:
        wrapped, bare = called.pay([Shot(target, "SELECT 1"), Shot(target, "SELECT 1", family="format-farming")])
    assert (wrapped.reward, bare.reward) == (1.0, 0.0)


def test_a_call_that_raises_hangs_or_ends_the_process_is_an_outcome(arena: Arena, tmp_path: Path) -> None:
    text = (
        "import os, time\n"
        "def reward(prompts, completions, **rest):\n"
        "    print('noise')\n"
        "    do = {'raise': lambda: 1 / 0, 'hang': lambda: time.sleep(60), 'end': lambda: os._exit(3)}\n"
        "    do.get(completions[0], lambda: None)()\n"
        "    return [0.5]\n"
    )
    target = arena.targets["list-distinct"]
    with AnyReward(file(tmp_path, text), "trl", timeout_s=1.0) as called:
        causes = [pay.cause for pay in called.pay([Shot(target, word) for word in ("raise", "hang", "end", "go on")])]
    assert causes == ["raised", "hung", "died", "paid"]


def test_what_a_reward_lets_a_completion_change_is_seen_and_undone(arena: Arena) -> None:
    target = arena.targets["list-filtered"]
    drop = Shot(target, "DROP TABLE feeding", family="state-abuse")
    copy = Shot(target, "COPY (SELECT 1) TO 'redteam_probe.csv'", family="engine-abuse")
    with AnyReward(f"{USUAL}.shared_connection:reward", "trl") as called:
        dropped, copied, right = called.pay([drop, copy, Shot(target, target.question.gold_sql)])
    assert "the database was changed" in dropped.damage
    assert "redteam_probe.csv" in copied.damage
    assert right.reward == 1.0


@pytest.mark.parametrize(
    ("name", "signature", "wrap", "said"),
    [
        ("json:no_such_function", "trl", "{}", "no attribute 'no_such_function'"),
        ("no_such_module_here:reward", "trl", "{}", "No module named 'no_such_module_here'"),
        ("nowhere.py:reward", "trl", "{}", "there is no such file"),
        ("reward", "trl", "{}", "names no function"),
        ("json:loads", "openrlhf", "{}", "no way to call a reward"),
        ("json:loads", "trl", "<answer>", "no {} stands for the SQL"),
    ],
)
def test_what_cannot_be_called_is_one_clear_error(name: str, signature: str, wrap: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        AnyReward(name, signature, wrap=wrap)
    assert caught.value.fix


def test_a_reward_that_pays_the_gold_nothing_is_refused(arena: Arena, tmp_path: Path) -> None:
    text = "def reward(prompts, completions, **rest):\n    return [0.0]\n"
    targets = {"list-distinct": arena.targets["list-distinct"]}
    with AnyReward(file(tmp_path, text), "trl") as called, pytest.raises(ConfigError, match="--wrap"):
        measure_honest(targets, called, None)

"""The attack files load against their types, and a malformed one is one line that names file, field and fix."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from text2sql_rl.errors import ConfigError
from text2sql_rl.redteam.attacks import load_corpus

FOLDER = REPOSITORY / "rewards" / "attacks"
FAMILIES = {
    "engine-abuse", "equality-abuse", "executes-only", "format-farming", "gold-abuse", "judge-abuse", "result-farming",
    "state-abuse",
}  # fmt: skip


def test_the_corpus_holds_the_families_and_enough_cases() -> None:
    corpus = load_corpus(FOLDER)
    assert {family.name for family in corpus.families} == FAMILIES
    assert sum(len(family.cases) for family in corpus.families) >= 150
    assert all(corpus.golds_of(attack) for family in corpus.families for attack in family.cases)


def test_every_kind_of_gold_is_attacked() -> None:
    corpus = load_corpus(FOLDER)
    attacked = {gold.name for family in corpus.families for attack in family.cases for gold in corpus.golds_of(attack)}
    assert set(corpus.golds) <= attacked


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("    aims_at: executes\n", "    aims_at: executes\n    most: 1\n", "select-one.most: unknown key"),
        ("    at_most: nothing\n", "    at_most: everything\n", "select-one.at_most: should be 'nothing', 'little'"),
        ("    at_most: nothing\n", "", "select-one.at_most: the key is missing"),
        ("    text: SELECT 1\n", "    text: SELECT {{tabel}}\n", "select-one: {{tabel}} is none of column"),
        ("    text: SELECT 1\n", "    text: SELECT 1\n    gold: SELECT 2\n", "give either 'against'"),
        ("    against: [number, ", "    against: [numbre, ", "select-one.against: no gold 'numbre'"),
        ("  - name: select-null\n", "  - name: select-one\n", "select-one: the name is taken"),
        ("note: SQL", "note: [SQL", "not YAML"),
    ],
)
def test_a_malformed_attack_file_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    for name in ("golds.yaml", "executes-only.yaml"):
        shutil.copy(FOLDER / name, tmp_path)
    path = tmp_path / "executes-only.yaml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(ConfigError) as caught:
        load_corpus(tmp_path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.fix


def test_an_unknown_family_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no family named 'format'.*format-farming"):
        load_corpus(FOLDER, ["format"])
    with pytest.raises(ConfigError, match="there are no attacks"):
        load_corpus(tmp_path)

"""The search: it finds what is there, writes it as a case file that loads, and stops at nothing on the way."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.redteam.conftest import Arena
from text2sql_rl.content import cache_folder, open_content
from text2sql_rl.errors import ConfigError
from text2sql_rl.judge import Judge
from text2sql_rl.records import Database, Question
from text2sql_rl.redteam import search as room
from text2sql_rl.redteam.attacks import load_corpus
from text2sql_rl.redteam.minimise import minimise
from text2sql_rl.redteam.mutate import Maker
from text2sql_rl.redteam.search import Search, search
from text2sql_rl.scoring import load_rule

Pairs = list[tuple[Question, Database]]


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    content = open_content(REPOSITORY)
    return content.pairs(content.questions.role("dev"))[:3]


def hunt(pairs: Pairs, arena: Arena, tmp_path: Path, rule: str, instances: int, budget: int, seed: int = 3) -> Search:
    judge = Judge(load_rule(rule), sandbox=arena.sandbox, cache=cache_folder())
    return search(
        pairs,
        judge,
        arena.sandbox,
        tmp_path / "cache",
        tmp_path / "finds",
        budget=budget,
        instances=instances,
        seed=seed,
    )


def test_a_rule_that_pays_for_executing_is_found_out(pairs: Pairs, arena: Arena, tmp_path: Path) -> None:
    found = hunt(pairs[:1], arena, tmp_path, "executes-only-v1", instances=2, budget=60)
    assert {one.kind for one in found.finds} == {"overpaid"}
    assert found.counts["candidates"] == 60
    assert found.counts["unsafe"] == 0
    shutil.copy(REPOSITORY / "rewards" / "attacks" / "golds.yaml", tmp_path / "finds")
    corpus = load_corpus(tmp_path / "finds")
    assert {family.name for family in corpus.families} == {one.name for one in found.finds}
    assert [family.cases[0].text for family in corpus.families] == [
        one.sql for one in sorted(found.finds, key=lambda one: one.name)
    ]


def test_luck_on_the_real_rows_is_found_where_the_judge_has_no_others(
    pairs: Pairs, arena: Arena, tmp_path: Path
) -> None:
    found = hunt(pairs, arena, tmp_path, "bound-v1", instances=0, budget=240)
    assert any(one.kind == "lucky" and one.reward == 1.0 for one in found.finds)
    assert found.counts["unsafe tried"] > 20
    assert found.counts["unsafe"] == 0


def test_what_is_done_is_not_done_again(
    pairs: Pairs, arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hunt(pairs[:1], arena, tmp_path, "bound-v1", instances=2, budget=20)
    monkeypatch.setattr(room.Hunt, "run", None)
    again = hunt(pairs[:1], arena, tmp_path, "bound-v1", instances=2, budget=20)
    assert (again.finds, again.counts) == (first.finds, first.counts)


def test_nothing_to_search_and_nowhere_to_write_are_clear_errors(pairs: Pairs, arena: Arena, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no gold can judge"):
        hunt([], arena, tmp_path, "bound-v1", instances=2, budget=20)
    (tmp_path / "finds").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be written"):
        hunt(pairs[:1], arena, tmp_path, "executes-only-v1", instances=2, budget=60)


def test_the_same_dice_make_the_same_candidates(pairs: Pairs) -> None:
    (question, database), golds = pairs[0], [one.gold_sql for one, _ in pairs]

    def made() -> list[object]:
        maker = Maker(random.Random(5), question.gold_sql, golds, ["SELECT 1"], database.tables, [[1], [2]])
        return [maker.make([]) for _ in range(200)]

    first = made()
    assert first == made()
    assert len({one for one in first if one is not None}) > 100
    assert any(one is not None and one.fragment for one in first)  # type: ignore[attr-defined]


def test_a_find_is_made_as_small_as_it_can_be() -> None:
    sql = "SELECT DISTINCT a, b FROM t JOIN u USING (k) WHERE a > 1 AND b = 'bad' ORDER BY a LIMIT 3"
    small = minimise(sql, lambda texts: ["'bad'" in text and "FROM t" in text for text in texts])
    assert len(small) < len(sql) / 2
    assert "'bad'" in small
    assert minimise("not ( sql", lambda texts: [True] * len(texts)) == "not ( sql"

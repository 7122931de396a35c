"""The guides: what code gives is up to date, what they tell to do works, and what they say is refused is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import generated
from tests.docs.test_docs import ELSEWHERE, ROOT, blocks
from text2sql_rl.config import load_config
from text2sql_rl.content import open_content
from text2sql_rl.errors import ConfigError
from text2sql_rl.scoring import load_rule

REWARDS = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
HOW = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")


def named_files(page: str) -> dict[str, str]:
    """The files a page shows: a line ends or begins with `PATH`:, and the block after it is the content."""
    found = re.finditer(r"`([\w./-]+\.\w+)`:[^\n]*\n\n```\w+\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return {match[1]: match[2] for match in found}


@pytest.mark.parametrize("page", generated.pages(), ids=lambda page: page.name)
def test_generated_parts_are_what_the_code_gives(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == generated.render(text), "run: python -m tests.docs.generated"


def test_every_generated_part_stands_in_one_page() -> None:
    assert sorted(generated.used()) == sorted(generated.PARTS)


def test_the_example_is_judged_against_its_own_gold() -> None:
    _, question = generated._example()
    commands = [shlex.split(command) for block in blocks(ROOT / "docs" / "how-it-works.md") for command, _ in block]
    judged = [words for words in commands if "judge" in words]
    assert judged
    for words in judged:
        assert (words[words.index("--gold") + 1], words[words.index("--database") + 1]) == (
            question.gold_sql,
            question.database,
        )


def test_the_example_group_has_the_rewards_that_are_shown() -> None:
    shown = {float(number) for number in re.findall(r"^reward     (\S+),", HOW, re.MULTILINE)}
    assert shown >= {generated._RIGHT, generated._CLOSE, generated._EMPTY}
    assert f"  error           {generated._ERROR:g}\n" in REWARDS


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in sorted(ROOT.glob("docs/*.md")) if page.name not in ("README.md",)] == [
        name for name in sorted(set(re.findall(r"\]\(([\w-]+\.md)\)", index)))
    ]


# ---- rewards.md --------------------------------------------------------------------------------------------


def test_the_rule_in_the_guide_loads(tmp_path: Path) -> None:
    ((name, text),) = named_files(REWARDS).items()
    (tmp_path / name).write_text(text)
    assert load_rule(str(tmp_path / name)).name == "mine-v1"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  correct: 1\n", "  correct: 1\n  execute: 0.1\n"),
        ("version: 1\n", "version: 2\n"),
        ("bounds: {low: -0.25, high: 1}\n", ""),
        ("  correct: 1\n", "  correct: 1\n  executes: 0.05\n"),
        ("  constant: -0.025\n", ""),
    ],
)
def test_a_refusal_in_the_guide_is_what_loading_says(tmp_path: Path, before: str, after: str) -> None:
    ((name, text),) = named_files(REWARDS).items()
    assert text.count(before) == 1
    (tmp_path / name).write_text(text.replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load_rule(str(tmp_path / name))
    said = str(caught.value).replace(f"{tmp_path}/", "")
    assert f"\n{said}\n" in REWARDS


def test_every_part_of_the_default_rule_is_explained() -> None:
    rule = load_rule("bound-v1")
    table = REWARDS.split("## What each part is for")[1].split("##")[0]
    for name in (*rule.components, *rule.penalties, *rule.gates, "binding"):
        assert f"`{name}`" in table


# ---- your-own-data.md --------------------------------------------------------------------------------------


def test_the_guide_to_own_data_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEXT2SQL_ROOT", "TEXT2SQL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for place in ("rewards", "databases/yoga_studio", "databases/city_library"):
        shutil.copytree(ROOT / place, tmp_path / place)
    files = named_files(ELSEWHERE.read_text(encoding="utf-8"))
    assert {"databases/shop/schema.sql", "databases/shop/rows/product.csv", "mine.yaml"} <= set(files)
    mine = tmp_path / "mine"
    for command, output in (pair for block in blocks(ELSEWHERE) for pair in block):
        program, *words = shlex.split(command)
        if program == "cd":
            assert (tmp_path / words[0]) == mine
            for name, text in files.items():
                (mine / name).write_text(text)
        elif "work" in words or "work/" in words:
            continue  # of the recipe for Spider, which is not in the repository
        elif program in ("mkdir", "cp"):
            subprocess.run([program, *words], cwd=tmp_path, check=True)
        elif program == "text2sql-rl" and words[0] not in ("run", "fetch"):
            done = subprocess.run(
                [sys.executable, "-m", "text2sql_rl.cli", *words],
                cwd=mine, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, "")
            if output:
                assert done.stdout == output
    content, config = open_content(mine), load_config(mine / "mine.yaml")
    assert len(content.questions.role("rl")) >= config.difficulty.questions
    assert all(content.questions.role(role) for role in ("sft", "dev", *config.evaluate.roles))

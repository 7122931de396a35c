"""Groups looked at: which are told first, what is shown of one, and what is said when there is none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.inspection.logged_run import log_kinds
from text2sql_rl.cli import app
from text2sql_rl.errors import RunError
from text2sql_rl.inspection import groups
from text2sql_rl.inspection.groups import choose, open_stage, telling, tells, view
from text2sql_rl.inspection.words import view_lines
from text2sql_rl.questions import load_questions
from text2sql_rl.runs import RunFolder

TELLS = {
    "overpaid": "a wrong answer gains beside a right one",
    "shaped": "a wrong answer gains though none is right",
    "broken": "could not be judged",
    "close": "right and wrong, paid nearly the same",
    "one-right": "one right answer",
    "lost": "all wrong, mostly wrong",
    "one-wrong": "one wrong answer",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return log_kinds(tmp_path_factory.mktemp("runs"))


@pytest.fixture(autouse=True)
def _no_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_questions", dict)


def words(*arguments: str) -> str:
    shown = CliRunner().invoke(app, ["inspect", *arguments], env={"COLUMNS": "150"})
    assert shown.exit_code == 0, shown.output
    return str(shown.output)


def test_what_should_not_be_is_told_first_and_solved_groups_are_not(run: RunFolder) -> None:
    lines = open_stage(run, "grpo").lines
    assert {line.question_id: tells(line) for line in telling(lines, 20)} == TELLS
    assert [line.question_id for line in telling(lines, 20)] == list(TELLS)
    assert [line.question_id for line in telling(lines, 2)] == ["overpaid", "shaped"]


def test_a_line_counts_its_group(run: RunFolder) -> None:
    (line,) = choose(open_stage(run, "grpo"), question_id="broken")
    assert (line.step, line.number, line.size, line.scored, line.right) == (1, 3, 4, 1, 1)


def test_the_list_says_how_many_groups_of_each_kind_there_are(run: RunFolder) -> None:
    shown = words(str(run.path))
    assert "run demo, stage grpo, steps 1 to 2: 8 groups" in shown
    assert (
        "3 right and wrong, 1 all right, 2 all wrong (most often: wrong 2), 1 too little spread, 1 not judged" in shown
    )
    assert "population standard deviation, the divisor at least 0.25" in shown
    assert re.search(r"2 +0 +1 of 4 .* overpaid +a wrong answer gains beside a right one", shown)
    assert "overpaid" not in words(str(run.path), "--step", "1")


def test_a_group_is_shown_with_each_answers_evidence(run: RunFolder) -> None:
    shown = words(str(run.path), "--step", "2", "--group", "0")
    blocks = shown.split("\n\n")
    assert blocks[0].splitlines()[:4] == [
        "group 0 of step 2, stage grpo: 1 of 4 right",
        "question   overpaid: (its words are not at hand)",
        "database   aquarium",
        "gold       SELECT 'overpaid'",
    ]
    assert [block.splitlines()[0] for block in blocks[1:]] == [
        "advantage +1.0100, once (answer 0)",
        "advantage +0.9899, once (answer 1)",
        "advantage -1.0000, once (answer 2)",
        "advantage -1.0000, once (answer 3)",
    ]
    assert "candidate  SELECT 1\nexecution  rows: 3 rows, gold has 4\nverdict    match, rows: told so" in blocks[1]
    assert "reward     1, counted as equivalent, by rule bound-v1" in blocks[1]
    assert "+1.0000  component  correct" in blocks[1]
    assert "completion I do not\\u{1b}[31m know\n           cut at the token limit, after 9 tokens" in blocks[4]


def test_equal_answers_are_shown_once(run: RunFolder) -> None:
    shown = words(str(run.path), "--question", "lost")
    assert "advantage +0.0000, 3 times (answer 0, 1, 2)" in shown
    assert "unscored: no worker" in words(str(run.path), "--question", "broken")


def test_json_holds_every_rollout_with_its_evidence(run: RunFolder) -> None:
    (group,) = json.loads(words(str(run.path), "--step", "1", "--group", "1", "--json"))["groups"]
    assert (group["question_id"], group["kind"], group["cause"]) == ("shaped", "all_wrong", "wrong")
    assert [one["reward"]["total"] for one in group["rollouts"]] == [0.05, 0, 0, 0]
    assert sum(one["advantage"] for one in group["rollouts"]) == pytest.approx(0)
    listed = json.loads(words(str(run.path), "--json"))
    assert (listed["groups"], listed["telling"][0]["question_id"]) == (8, "overpaid")


def test_the_questions_words_are_shown_only_where_it_is_still_the_same(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = load_questions(Path(__file__).resolve().parent.parent.parent / "data").role("handwritten")[0]
    log = open_stage(run, "grpo")
    lines = choose(log, question_id="lost")
    for gold, text in (("SELECT 'lost'", known.text), ("SELECT 'another'", "")):
        fields = {name: getattr(known, name) for name in known.__slots__}
        question = type(known)(**{**fields, "id": "lost", "database": "aquarium", "gold_sql": gold})
        monkeypatch.setattr(groups, "_questions", lambda question=question: {"lost": question})
        (shown,) = view(log, lines)
        assert shown.text == text
        assert f"question   lost: {text or '(its words are not at hand)'}" in list(view_lines(shown))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"step": 7}, r"no step 7\. It has steps 1 to 2"),
        ({"step": 1, "number": 4}, r"no group 4\. Give 0 to 3"),
        ({"question_id": "overpiad"}, r"in no group of stage grpo\. It has overpaid"),
        ({"step": 1, "question_id": "overpaid"}, "in no group of step 1"),
    ],
)
def test_a_group_that_is_not_there_is_refused_with_those_that_are(
    run: RunFolder, chosen: dict[str, int | str], said: str
) -> None:
    with pytest.raises(RunError, match=said):
        choose(open_stage(run, "grpo"), **chosen)  # type: ignore[arg-type]


def test_a_stage_without_rollouts_and_a_folder_that_is_no_run_are_refused(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"'sft' has logged no rollouts.*grpo"):
        open_stage(run, "sft")
    with pytest.raises(RunError, match=r"run\.json"):
        open_stage(RunFolder(tmp_path, min_free_gb=0.0), "grpo")


@pytest.mark.parametrize("more", [(), ("--step", "1", "--question", "lost")])
def test_a_group_needs_its_step(run: RunFolder, more: tuple[str, ...]) -> None:
    refused = CliRunner().invoke(app, ["inspect", str(run.path), "--group", "1", *more])
    assert refused.exit_code == 2
    assert "--step" in refused.output

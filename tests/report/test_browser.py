"""The browser of groups: its JSON against counts made by hand, and its share of a long log."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.fake_run import HOSTILE, train_grpo
from tests.report.html_tags import Tags
from text2sql_rl.report import write_report
from text2sql_rl.report.browser import as_json, browser, quotas
from text2sql_rl.report.logged import evenly, read_part
from text2sql_rl.runs import RunFolder


def unpacked(text: str) -> dict[str, Any]:
    return json.loads(text)  # type: ignore[no-any-return]


def page_of(run: RunFolder) -> str:
    write_report(run)
    return (run.path / "report.html").read_text()


# ---- golden ------------------------------------------------------------------------------------------------


def test_a_group_is_packed_as_it_was_logged(run: RunFolder) -> None:
    found = browser(run, {"heldout-7": "What is 7?"})
    assert found.groups == 20 * 30
    assert [(one.name, one.rollouts, one.logged) for one in found.shown] == [("GRPO", 1_800, 1_800)]
    assert not found.is_sampled
    data = unpacked(found.text)
    strings = data["strings"]
    assert len(strings) == len(set(strings))
    stage, step, database, kind, question, gold, mean, answers = data["groups"][7]
    assert [strings[place] for place in (stage, database, kind, question, gold)] == [
        "GRPO", "db7", "informative", "What is 7?", "SELECT 7",
    ]  # fmt: skip
    # Of three candidates, those with an even index are wrong for an odd question.
    assert (step, mean) == (1, pytest.approx((0.05 + 1.0 + 0.05) / 3, abs=1e-4))
    assert [(answer[1], answer[2], strings[answer[4]]) for answer in answers] == [
        (1, 1.0, "equivalent"), (1, 0.05, "wrong"), (1, 0.05, "wrong"),
    ]  # fmt: skip
    assert sum(answer[3] for answer in answers) == pytest.approx(0.0, abs=0.01)
    assert strings[answers[0][7]].startswith("+1 correct: </pre><script>")
    assert strings[answers[0][0]].startswith("SELECT 1 -- ")
    assert [strings[answer[6]] for answer in answers[:2]] == [
        "1 row, gold has 1",
        "1 row, gold has 1; of gold's it gives 0% of the rows, 0% of the columns",
    ]


def test_a_long_log_is_sampled_evenly_and_the_page_says_so(run: RunFolder) -> None:
    found = browser(run, {}, most=120)
    (shown,) = found.shown
    assert (shown.rollouts, shown.logged) == (120, 1_800)
    groups = unpacked(found.text)["groups"]
    steps = [group[1] for group in groups]
    assert (steps[0], steps[-1]) == (1, 20)
    assert all(sum(answer[1] for answer in group[7]) == 3 for group in groups)  # whole groups
    small = browser(run, {}, most_characters=20_000)
    assert len(small.text) <= 20_000
    assert small.is_sampled


def test_the_page_tells_what_share_of_the_log_it_holds(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GRPO: all 1,800 rollouts." in page_of(run)
    monkeypatch.setattr(sys.modules["text2sql_rl.report.page"], "MOST_ROLLOUTS", 120)
    page = page_of(run)
    assert "GRPO: 120 of 1,800 rollouts." in page
    assert "whole groups are taken evenly over the steps" in page


def test_a_stage_gives_what_it_does_not_need() -> None:
    assert quotas({"grpo": 100, "difficulty": 10}, 200) == {"grpo": 100, "difficulty": 10}
    assert quotas({"grpo": 1_000, "difficulty": 1_000}, 80) == {"grpo": 60, "difficulty": 20}
    assert quotas({"grpo": 1_000, "difficulty": 5}, 80) == {"grpo": 75, "difficulty": 5}


# ---- hostile text ------------------------------------------------------------------------------------------


def test_only_the_pages_own_script_may_run(run: RunFolder) -> None:
    tags = Tags()
    page = page_of(run)
    tags.feed(page)
    kinds = [attributes for tag, attributes in tags.seen if tag == "script"]
    assert kinds == [{"type": "text/plain", "id": "groups-data"}, {}]
    data, script = tags.scripts
    assert re.fullmatch("[A-Za-z0-9+/=]+", data)
    assert "alert" in zlib.decompress(base64.b64decode(data)).decode()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page
    assert "alert" not in script
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "setAttribute"):
        assert way not in script


@settings(max_examples=60, deadline=None)
@given(st.text() | st.sampled_from(["</script>", "<!--<script>", "]]>", "\u2028", HOSTILE]))
def test_json_cannot_leave_its_element_and_loses_nothing(text: str) -> None:
    packed = as_json({"strings": [text]})
    assert not set("<>&\u2028\u2029") & set(packed)
    assert json.loads(packed) == {"strings": [text]}


# ---- properties --------------------------------------------------------------------------------------------


@given(st.lists(st.integers(), max_size=300), st.integers(1, 60))
def test_evenly_keeps_ends_and_order(things: list[int], most: int) -> None:
    chosen = evenly(list(enumerate(things)), most)
    assert len(chosen) == min(len(things), most)
    assert chosen == sorted(chosen)
    assert len(set(chosen)) == len(chosen)
    if things and most > 1:
        assert (chosen[0][0], chosen[-1][0]) == (0, len(things) - 1)


@given(
    st.dictionaries(st.sampled_from(["grpo", "difficulty", "evaluate_base"]), st.integers(1, 10_000), min_size=1),
    st.integers(1, 20_000),
)
def test_quotas_use_all_there_is_and_no_more(rows: dict[str, int], most: int) -> None:
    found = quotas(rows, most)
    assert all(0 < found[name] <= rows[name] for name in found)
    assert min(most, sum(rows.values())) - 3 <= sum(found.values()) <= most


# ---- faults ------------------------------------------------------------------------------------------------


def test_a_run_without_rollouts_has_no_browser(run: RunFolder) -> None:
    shutil.rmtree(run.stage("grpo").path / "rollouts")
    page = page_of(run)
    assert "<script" not in page
    assert "groups-browser" not in page


def test_a_schema_is_shown_where_it_is_at_hand(run: RunFolder, content: Path) -> None:
    (content / "databases" / "db7").mkdir(parents=True)
    (content / "databases" / "db7" / "schema.sql").write_text("CREATE TABLE t (a INTEGER);")
    data = unpacked(browser(run, {}).text)
    ((database, schema),) = data["schemas"].items()
    assert data["strings"][int(database)] == "db7"
    assert data["strings"][schema] == "CREATE TABLE t (a INTEGER);"


def test_more_rows_than_asked_for_only_to_keep_a_group_whole(run: RunFolder) -> None:
    shutil.rmtree(run.stage("grpo").path)
    train_grpo(run, lambda step: 0.5, lambda step: 0.5, steps=2)
    part = sorted((run.stage("grpo").path / "rollouts").iterdir())[0]
    assert [len(group) for group in read_part(part, 1)] == [3]
    assert [len(group) for group in read_part(part, 7)] == [3, 3]

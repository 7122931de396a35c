"""The rollout log: what is written is read back; a resumed step replaces; damage is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from text2sql_rl.errors import RunError
from text2sql_rl.records import (
    Candidate,
    Completion,
    Execution,
    Finish,
    Group,
    GroupKind,
    Item,
    Match,
    Outcome,
    Reward,
    Rollout,
    Verdict,
)
from text2sql_rl.rollout_log import (
    Lineage,
    LogRow,
    Origin,
    Update,
    open_rollouts,
    part_path,
    read_groups,
    read_rollouts,
    to_groups,
    to_rows,
    write_groups,
    write_rollouts,
)

LINEAGE = Lineage(
    run="demo",
    stage="grpo",
    checkpoint="sft",
    seed=1,
    sampling='{"temperature": 1.0}',
    engine="duckdb 2.0.1",
    limits_sha256="l",
    origins={"q1": Origin(prompt_sha256="p", instance_sha256="i", gold_sql="SELECT a FROM t", role="rl")},
)

texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=20)
shares = st.floats(min_value=0, max_value=1)
reals = st.floats(allow_nan=False, allow_infinity=False, width=64)
counts = st.integers(min_value=0, max_value=10**9)
items = st.builds(
    Item,
    name=texts,
    kind=st.sampled_from(("component", "penalty", "gate")),
    value=shares,
    weight=reals,
    points=reals,
    why=texts,
)
executions = st.builds(
    Execution,
    outcome=st.sampled_from(Outcome),
    columns=st.just(()),
    types=st.just(()),
    rows=st.just(()),
    reads_tables=st.booleans(),
    reason=texts,
    elapsed_s=shares,
)
verdicts = st.builds(
    Verdict,
    match=st.sampled_from(Match),
    code=texts,
    words=texts,
    row_overlap=shares,
    column_overlap=shares,
    flags=st.lists(texts, max_size=2).map(tuple),
)
rewards = st.builds(
    Reward,
    total=st.none() | reals,
    items=st.lists(items, max_size=3).map(tuple),
    unscored=texts,
    rule=texts,
    rule_sha256=texts,
)
rollouts = st.builds(
    Rollout,
    question_id=st.just("q1"),
    database=texts,
    completion=st.builds(
        Completion,
        question_id=st.just("q1"),
        text=texts,
        raw=texts,
        finish=st.sampled_from(Finish),
        tokens=counts,
    ),
    candidate=st.builds(Candidate, sql=st.none() | texts, reason=texts, answers=counts, clean=st.booleans()),
    execution=st.none() | executions,
    verdict=st.none() | verdicts,
    reward=rewards,
    cause=texts,
    equivalent=st.booleans(),
    gold_rows=counts,
    rows=st.none() | counts,
)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    members = tuple(draw(st.lists(rollouts, min_size=1, max_size=3)))
    return Group(
        question_id="q1",
        rollouts=members,
        kind=draw(st.sampled_from(GroupKind)),
        cause=draw(texts),
        mean=draw(reals),
        spread=draw(shares),
        advantages=tuple(draw(reals) for _ in members),
    )


@given(st.lists(groups(), max_size=3))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_groups_and_rows_are_read_back_identical(tmp_path: Path, written: list[Group]) -> None:
    path = part_path(tmp_path / "log", 7)
    write_groups(path, written, LINEAGE, step=7)
    assert read_groups(path) == written
    assert read_rollouts(tmp_path / "log") == to_rows(written, LINEAGE, 7)
    assert to_groups(to_rows(written, LINEAGE, 7)) == written


def example() -> Group:
    item = Item(name="correct", kind="component", value=1.0, weight=0.9, points=0.9, why="right")
    rollout = Rollout(
        question_id="q1",
        database="db",
        completion=Completion(question_id="q1", text="SELECT a FROM t", raw="raw", finish=Finish.STOP, tokens=5),
        candidate=Candidate(sql="SELECT a FROM t", answers=1),
        execution=Execution(outcome=Outcome.ROWS, columns=("a",), types=("INTEGER",), rows=((1,), (2,))),
        verdict=Verdict(match=Match.MATCH, code="match", words="same", row_overlap=1.0, column_overlap=1.0),
        reward=Reward(total=0.9, items=(item,), rule="bound-v1", rule_sha256="s"),
        cause="equivalent",
        equivalent=True,
        gold_rows=2,
        rows=2,
    )
    nothing = replace(
        rollout,
        candidate=Candidate(sql=None, reason="empty", clean=False),
        execution=None,
        verdict=None,
        reward=Reward(total=None, unscored="why", rule="bound-v1", rule_sha256="s"),
        rows=None,
    )
    return Group(
        question_id="q1",
        rollouts=(rollout, nothing),
        kind=GroupKind.UNSCORED,
        cause="",
        mean=0.9,
        spread=0.0,
        advantages=(0.0, 0.0),
    )


def test_a_row_holds_evidence_and_lineage() -> None:
    first, second = to_rows([example()], LINEAGE, 12)
    assert (first.run, first.stage, first.step, first.checkpoint, first.seed) == ("demo", "grpo", 12, "sft", 1)
    assert (first.prompt_sha256, first.instance_sha256, first.limits_sha256, first.role) == ("p", "i", "l", "rl")
    assert (first.group_id, first.group_index, second.group_index) == ("grpo-12-0", 0, 1)
    assert [item["points"] for item in json.loads(first.items)] == [0.9]
    assert (second.candidate, second.outcome, second.rows, second.total) == (None, None, None, None)
    assert json.loads(first.sampling) == {"temperature": 1.0}


def test_a_resumed_step_replaces_its_part_file(tmp_path: Path) -> None:
    for step in (10, 2, 10):
        write_groups(part_path(tmp_path, step), [example()], LINEAGE, step=step)
    assert [row.step for row in read_rollouts(tmp_path)] == [2, 2, 10, 10]
    assert len(read_groups(tmp_path)) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000002.parquet", "step-000010.parquet"]


def test_the_part_file_is_an_ordinary_parquet_file(tmp_path: Path) -> None:
    write_groups(part_path(tmp_path, 1), [example()], LINEAGE, step=1)
    table = pq.read_table(part_path(tmp_path, 1))
    assert table.column_names == [field.name for field in fields(LogRow)]
    assert table.column("total").to_pylist() == [0.9, None]


def test_what_an_update_made_of_a_completion_is_logged(tmp_path: Path) -> None:
    group = replace(example(), conditions_sha256="c")
    write_groups(part_path(tmp_path, 1), [group], LINEAGE, step=1, updates={(0, 1): Update(in_loss=True, kl=0.5)})
    rows = read_rollouts(tmp_path)
    assert [(one.in_loss, one.kl, one.clip_share) for one in rows] == [(None, None, None), (True, 0.5, None)]
    assert {one.conditions_sha256 for one in rows} == {"c"}
    assert read_groups(tmp_path)[0].conditions_sha256 == "c"


def test_a_log_of_version_1_is_read_alone_and_beside_newer_ones(tmp_path: Path) -> None:
    for step in (1, 2):
        write_groups(part_path(tmp_path, step), [example()], LINEAGE, step=step)
    new = pq.read_table(part_path(tmp_path, 1))
    old = new.drop_columns(["conditions_sha256", "in_loss", "kl", "clip_share"])
    pq.write_table(old.replace_schema_metadata({b"text2sql_rl.rollout_log": b"1"}), part_path(tmp_path, 1))
    first, *_ = read_rollouts(tmp_path)
    assert (first.step, first.in_loss, first.conditions_sha256) == (1, None, "")
    assert len(read_groups(tmp_path)) == 2
    table = open_rollouts(sorted(tmp_path.glob("*.parquet"))).to_table(columns=["step", "in_loss", "raw"])
    assert table.column("step").to_pylist() == [1, 1, 2, 2]


def test_nothing_there_is_no_rows(tmp_path: Path) -> None:
    assert read_rollouts(tmp_path) == []
    assert read_rollouts(tmp_path / "absent") == []
    write_rollouts(part_path(tmp_path, 1), [])
    assert read_rollouts(tmp_path) == []


def test_text_that_is_not_unicode_is_stored_with_question_marks(tmp_path: Path) -> None:
    row = replace(to_rows([example()], LINEAGE, 1)[0], text="a\ud800é")
    write_rollouts(part_path(tmp_path, 1), [row])
    assert read_rollouts(tmp_path) == [replace(row, text="a?é")]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = part_path(tmp_path, 1)
    write_groups(path, [example()], LINEAGE, step=1)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match="No space left on device"):
        write_groups(path, [example(), example()], LINEAGE, step=1)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _another_version(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"text2sql_rl.rollout_log": b"0"}), path)


def _not_a_log(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def _another_column(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.append_column("extra", pa.array([1] * len(table))), path)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_truncated, "cannot be read"),
        (_another_version, "schema version 0, not 2"),
        (_not_a_log, "schema version none"),
        (_another_column, "other columns"),
    ],
)
def test_damage_is_named_with_its_file(tmp_path: Path, damage: Callable[[Path], None], says: str) -> None:
    path = part_path(tmp_path, 1)
    write_groups(path, [example()], LINEAGE, step=1)
    damage(path)
    with pytest.raises(RunError, match=says) as caught:
        read_rollouts(tmp_path)
    assert str(path) in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write_rollouts(tmp_path / "file" / "step-1.parquet", [])
    shutil.rmtree(tmp_path)

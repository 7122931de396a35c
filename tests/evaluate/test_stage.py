"""Evaluation: numbers a person can check by hand, the wall, and a verifier that breaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import REPOSITORY
from text2sql_rl.config import RunConfig
from text2sql_rl.content import open_content
from text2sql_rl.errors import DataError, LeakError, RunError, SandboxError
from text2sql_rl.evaluate import evaluate_stage, stage
from text2sql_rl.evaluate.judging import Answer
from text2sql_rl.evaluate.metrics import summarise
from text2sql_rl.evaluate.predictions import read_rows
from text2sql_rl.evaluate.results import read_results
from text2sql_rl.records import Candidate, Completion, Database, Finish, Prompt, Question, Reward, Rollout, Split
from text2sql_rl.rollout_log import read_rollouts
from text2sql_rl.runs import RunFolder

CONFIG = {
    "name": "one", "seed": 7, "prompt_style": "ddl",
    "policy": {"kind": "scratch", "hidden_size": 16, "layers": 1, "heads": 1},
    "sampling": {"max_prompt_tokens": 16, "max_completion_tokens": 8, "batch": 4},
    "judge": {"rule": "strict-v1"},
    "sft": {"steps": 1, "batch": 1, "learning_rate": 0.1, "eval_every": 1, "patience": 1, "augment": False},
    "difficulty": {"questions": 1, "samples": 2, "low": 0, "high": 1},
    "grpo": {"steps": 1, "questions_per_step": 1, "generations": 2, "learning_rate": 0.1, "save_every": 1,
             "advantage": {"scale": "population", "floor": 0.25}},
    "evaluate": {"roles": ["heldout", "handwritten"], "samples": 1},
}  # fmt: skip


def question(number: int, database: str = "reef", role: str = "heldout") -> Question:
    return Question(
        id=f"{role}-{number}", database=database, text=f"question {number}?", gold_sql=f"SELECT {number}",
        split=Split.HELDOUT, role=role, shape="count" if number % 2 else "", hardness="easy",
    )  # fmt: skip


def rollout(asked: Question, cause: str, total: float | None = None, unscored: str = "") -> Rollout:
    right = cause == "equivalent"
    if not unscored and total is None:
        total = float(right)
    return Rollout(
        question_id=asked.id, database=asked.database,
        completion=Completion(question_id=asked.id, text="SELECT 1", raw="x", finish=Finish.STOP, tokens=4),
        candidate=Candidate(sql="SELECT 1", answers=1), execution=None, verdict=None,
        reward=Reward(total=total, unscored=unscored), cause=cause, equivalent=right, gold_rows=1, rows=1,
    )  # fmt: skip


@dataclass
class Scripted:
    """A policy that writes the cause the judge shall find, and remembers how it was asked."""

    script: Callable[[str, int], str]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def sample(self, prompts: Sequence[Prompt], style: Any, limits: Any, **how: Any) -> list[list[Completion]]:
        self.asked.append({"prompts": len(prompts), **{key: how[key] for key in ("samples", "seed", "temperature")}})
        how["progress"](len(prompts))
        return [
            [
                Completion(question_id=one.question_id, text=self.script(one.question_id, number), raw="", tokens=3,
                           finish=Finish.STOP)
                for number in range(how["samples"])
            ]
            for one in prompts
        ]  # fmt: skip


class Echo:
    """A judge that believes what the completion says."""

    def __init__(self) -> None:
        self.environment = {"rule_sha256": "abc", "duckdb": "2"}

    def judge(self, items: Sequence[tuple[Question, Database, Completion]]) -> list[Answer]:
        return [
            Answer(rollout(asked, one.text, unscored="the sandbox is gone" if one.text == "unscored" else ""))
            for asked, _, one in items
        ]


class Plain:
    name = "plain"

    def prompt(self, asked: Question, database: Database) -> Prompt:
        return Prompt(question_id=asked.id, style="plain", text=asked.text)


@pytest.fixture
def run(tmp_path: Path, content: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "runs" / "one", min_free_gb=0.0)
    folder.create_or_open(CONFIG)
    for name, databases in (("base", None), ("sft", ["bakery"]), ("grpo", ["bakery", "chess_club"])):
        one = folder.stage(name)
        one.start()
        one.finish({} if databases is None else {"databases": databases})
    return folder


Scene = Callable[..., tuple[RunConfig, Scripted]]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Replace policy, judge and content by fakes."""

    def make(script: Callable[[str, int], str], **evaluate: Any) -> tuple[RunConfig, Scripted]:
        sets = {
            "heldout": tuple(question(number, ("reef", "kite")[number % 2]) for number in range(10)),
            "handwritten": tuple(question(number, role="handwritten") for number in range(2)),
            "empty": (),
        }
        fake = SimpleNamespace(questions=SimpleNamespace(role=sets.__getitem__))

        def pairs(content: object, some: Sequence[Question]) -> list[tuple[Question, Database]]:
            return [(one, Database(name=one.database, tables=(), instances=())) for one in some]

        @contextmanager
        def judge(config: RunConfig) -> Iterator[Echo]:
            yield Echo()

        policy = Scripted(script)
        monkeypatch.setattr(stage, "open_content", lambda: fake)
        monkeypatch.setattr(stage, "shared_pairs", pairs)
        monkeypatch.setattr(stage, "load_policy", lambda config, run, source: (policy, Plain()))
        monkeypatch.setattr(stage, "open_judge", judge)
        config = RunConfig.model_validate({**CONFIG, "evaluate": {**CONFIG["evaluate"], **evaluate}})  # type: ignore[dict-item]
        return config, policy

    return make


# ---- golden ------------------------------------------------------------------------------------------------


def test_a_question_set_by_hand() -> None:
    asked = [question(number, "reef" if number < 3 else "kite") for number in range(6)]
    causes = ["equivalent", "equivalent", "wrong", "equivalent", "truncated", "unscored"]
    greedy = [
        Answer(rollout(one, cause, unscored="no gold" if cause in ("truncated", "unscored") else ""))
        for one, cause in zip(asked, causes, strict=True)
    ]
    numbers = summarise(asked, greedy, [], seed=1)
    assert (numbers["correct"], numbers["scored"], numbers["questions"], numbers["databases"]) == (3, 5, 6, 2)
    assert numbers["accuracy"] == 0.6
    assert numbers["causes"] == {"truncated": 1, "wrong": 1}
    assert numbers["unscored"] == {"no gold": 1}
    assert numbers["by_database"] == {"kite": {"correct": 1, "scored": 2}, "reef": {"correct": 2, "scored": 3}}
    assert numbers["by_shape"] == {"count": {"correct": 2, "scored": 2}, "free": {"correct": 1, "scored": 3}}
    assert [list(part.values()) for part in numbers["answers"].values()] == [[1, 1, 0], [1, 0, None]]
    # Draws of two databases: kite twice 1/2, both 3/5, reef twice 2/3.
    assert numbers["ci95"] == pytest.approx([1 / 2, 2 / 3])
    assert numbers["wilson95"] == pytest.approx([0.2307, 0.8824], abs=1e-4)


def test_pass_at_k_by_hand() -> None:
    asked = [question(0), question(1)]
    sampled = [
        [Answer(rollout(asked[0], cause)) for cause in ("equivalent", "wrong", "wrong")],
        [Answer(rollout(asked[1], cause)) for cause in ("wrong", "wrong", "error")],
    ]
    numbers = summarise(asked, [group[0] for group in sampled], sampled, seed=1)
    assert numbers["pass_at"] == pytest.approx({"1": 1 / 6, "2": 1 / 3, "3": 1 / 2})


def test_the_stage_writes_predictions_and_a_result(run: RunFolder, scene: Scene) -> None:
    config, policy = scene(lambda name, number: "wrong" if name.endswith("0") else "equivalent")
    evaluate_stage(config, run, "grpo")
    result = run.stage("evaluate_grpo").result()
    assert result["summary"] == "heldout 90.0 % of 10, handwritten 50.0 % of 2"
    assert result["environment"]["rule_sha256"] == "abc"
    assert result["roles"]["heldout"]["answers"]["reef"]["heldout-0"] == 0
    assert policy.asked[0] == {"prompts": 10, "samples": 1, "seed": 7, "temperature": 0.0}
    rows = pq.read_table(run.stage("evaluate_grpo").path / "predictions.parquet").to_pylist()
    assert len(rows) == 12
    assert {row["role"] for row in rows} == {"heldout", "handwritten"}
    assert sum(row["equivalent"] for row in rows) == 10
    log = read_rollouts(run.stage("evaluate_grpo").path / "rollouts")
    assert [(row.checkpoint, row.role, row.equivalent) for row in log[:2]] == [
        ("grpo", "heldout", False),
        ("grpo", "heldout", True),
    ]
    assert json.loads(log[0].sampling)["temperature"] == 0.0
    assert not [path for path in run.stage("evaluate_grpo").path.iterdir() if path.name.startswith(".predictions")]


def test_sampled_answers_stand_beside_the_greedy_one(run: RunFolder, scene: Scene) -> None:
    config, policy = scene(lambda name, number: "equivalent" if number == 1 else "wrong", samples=4)
    evaluate_stage(config, run, "sft")
    numbers = run.stage("evaluate_sft").result()["roles"]["heldout"]
    assert numbers["accuracy"] == 0.0
    assert numbers["pass_at"] == pytest.approx({"1": 0.25, "2": 0.5, "4": 1.0})
    assert [one["temperature"] for one in policy.asked] == [0.0, None, 0.0, None]
    assert [path.name for path in sorted((run.stage("evaluate_sft").path / "rollouts").iterdir())] == [
        f"step-00000{number}.parquet" for number in range(4)
    ]


def test_a_limit_takes_from_every_database(run: RunFolder, scene: Scene) -> None:
    config, _ = scene(lambda name, number: "equivalent", limit=3)
    evaluate_stage(config, run, "sft")
    numbers = run.stage("evaluate_sft").result()["roles"]["heldout"]
    assert {name: list(part) for name, part in numbers["answers"].items()} == {
        "reef": ["heldout-0", "heldout-2"],
        "kite": ["heldout-1"],
    }
    assert numbers["databases"] == 2


# ---- properties --------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["equivalent", "wrong", "error", "truncated", "unscored"]), min_size=1, max_size=20))
def test_every_question_is_right_failed_or_unscored(causes: list[str]) -> None:
    asked = [question(number, f"d{number % 3}") for number in range(len(causes))]
    greedy = [
        Answer(rollout(one, cause, unscored="why" if cause == "unscored" else ""))
        for one, cause in zip(asked, causes, strict=True)
    ]
    numbers = summarise(asked, greedy, [], seed=0)
    failed, unscored = sum(numbers["causes"].values()), sum(numbers["unscored"].values())
    assert numbers["correct"] + failed + unscored == numbers["questions"] == len(causes)
    for parts in ("by_shape", "by_hardness", "by_database"):
        assert sum(part["scored"] for part in numbers[parts].values()) == numbers["scored"]
        assert sum(part["correct"] for part in numbers[parts].values()) == numbers["correct"]
    if numbers["scored"]:
        assert numbers["ci95"][0] <= numbers["accuracy"] <= numbers["ci95"][1]
    else:
        assert numbers["accuracy"] is None


# ---- faults ------------------------------------------------------------------------------------------------


def test_a_database_that_training_touched_is_refused(run: RunFolder, scene: Scene) -> None:
    leaky = run.stage("control")
    leaky.start()
    leaky.finish({"databases": ["bakery", "kite"]})
    config, policy = scene(lambda name, number: "equivalent")
    with pytest.raises(LeakError, match="heldout-1 of heldout is on database 'kite', which stage control"):
        evaluate_stage(config, run, "control")
    assert policy.asked == []
    assert not run.stage("evaluate_control").is_done()
    evaluate_stage(config, run, "control", allow_leak=True)
    marked = run.stage("evaluate_control")
    assert marked.result()["summary"].startswith("LEAK ALLOWED, heldout 100.0 % of 10")
    assert marked.result()["heldout"]["leaked"] == {"kite": "control"}
    assert read_results(marked.path)["warnings"][0].startswith("LEAK ALLOWED: training touched 1 of the databases")
    assert {row["database"] for row in read_rows(marked.path / "predictions.parquet") if row["leaked"]} == {"kite"}
    evaluate_stage(config, run, "grpo")  # the control is not on grpo's way
    assert run.stage("evaluate_grpo").is_done()


@pytest.mark.parametrize("touching", ["sft", "difficulty", "warmup", "difficulty_warm", "grpo"])
def test_every_stage_on_the_way_counts(tmp_path: Path, content: Path, scene: Scene, touching: str) -> None:
    folder = RunFolder(tmp_path / "runs" / "two", min_free_gb=0.0)
    folder.create_or_open({**CONFIG, "name": "two"})
    for name in ("base", "sft", "difficulty", "warmup", "difficulty_warm", "grpo"):
        one = folder.stage(name)
        one.start()
        one.finish({"databases": ["bakery", "reef"] if name == touching else ["bakery"]})
    config, _ = scene(lambda name, number: "equivalent")
    with pytest.raises(LeakError, match=f"stage {touching} of this policy"):
        evaluate_stage(config, folder, "grpo")


def test_training_without_a_record_proves_nothing(run: RunFolder, scene: Scene) -> None:
    silent = run.stage("control")
    silent.start()
    silent.finish({})
    config, _ = scene(lambda name, number: "equivalent")
    with pytest.raises(RunError, match="stage control did not write down which databases"):
        evaluate_stage(config, run, "control")


def test_a_missing_checkpoint_is_named(run: RunFolder, scene: Scene) -> None:
    config, _ = scene(lambda name, number: "equivalent")
    with pytest.raises(RunError, match="stage warmup is not done"):
        evaluate_stage(config, run, "warmup")


def test_a_broken_verifier_stops_the_evaluation(run: RunFolder, scene: Scene) -> None:
    config, _ = scene(lambda name, number: "unscored" if name == "heldout-3" else "equivalent")
    with pytest.raises(SandboxError, match=r"1 of 10 answers of heldout could not be judged.*the sandbox is gone"):
        evaluate_stage(config, run, "grpo")
    assert not run.stage("evaluate_grpo").is_done()
    assert not (run.stage("evaluate_grpo").path / "predictions.parquet").exists()


def test_an_empty_question_set_is_refused(run: RunFolder, scene: Scene) -> None:
    config, _ = scene(lambda name, number: "equivalent", roles=["empty"])
    with pytest.raises(DataError, match="the question set 'empty' is empty"):
        evaluate_stage(config, run, "grpo")


# ---- with the real judge on the bundled databases ----------------------------------------------------------


def test_gold_answers_are_right_and_constants_are_wrong(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scripted policy that knows every second gold; the rest answers a constant."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(REPOSITORY))
    monkeypatch.setenv("TEXT2SQL_CACHE", str(tmp_path / "cache"))
    golds = {one.id: one.gold_sql for one in open_content().questions.role("heldout")}
    policy = Scripted(lambda name, number: golds[name] if int(name[-1]) % 2 else "SELECT 'nothing'")
    monkeypatch.setattr(stage, "load_policy", lambda config, run, source: (policy, Plain()))
    changes = {"judge": {"rule": "binary-v1"}, "evaluate": {"roles": ["heldout"], "samples": 1, "limit": 12}}
    evaluate_stage(RunConfig.model_validate({**CONFIG, **changes}), run, "grpo")
    result = run.stage("evaluate_grpo").result()
    numbers = result["roles"]["heldout"]
    answers = {name: answer for part in numbers["answers"].values() for name, answer in part.items()}
    assert len(answers) == 12
    assert all(answer == int(name[-1]) % 2 for name, answer in answers.items())
    assert numbers["unscored"] == {}
    assert result["environment"]["engine"].startswith("duckdb")

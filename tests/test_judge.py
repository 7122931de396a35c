"""The judge: the flow over a scripted sandbox, its caches and its breaker; then once over the real sandbox."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from text2sql_rl.errors import RunError, SandboxError
from text2sql_rl.judge import Judge, judge_one
from text2sql_rl.records import (
    Completion,
    Database,
    Execution,
    Finish,
    Gold,
    Instance,
    Outcome,
    Question,
    Rollout,
    Split,
)
from text2sql_rl.sandbox import Job, Limits
from text2sql_rl.scoring import load_rule, rejudge

RULE = load_rule("bound-v1")
GOLD = "SELECT a FROM t"


def rows(*values: int, reads_tables: bool = True) -> Execution:
    return Execution(
        outcome=Outcome.ROWS,
        columns=("a",),
        types=("INTEGER",),
        rows=tuple((value,) for value in values),
        reads_tables=reads_tables,
    )


class Script:
    """A sandbox that plays a script: (instance index, SQL) -> execution; everything else is an error."""

    limits = Limits()

    def __init__(self, script: Mapping[tuple[int, str], Execution]) -> None:
        self.script, self.runs, self.closed = dict(script), list[tuple[int, str]](), False

    def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
        self.runs += [(job.instance.index, job.sql) for job in jobs]
        missing = Execution(outcome=Outcome.ERROR, reason="no such table")
        return tuple(self.script.get((job.instance.index, job.sql), missing) for job in jobs)

    def allow(self, folders: Iterable[Path]) -> None:
        pass

    def close(self) -> None:
        self.closed = True


SCRIPT = {
    (0, GOLD): rows(1, 2),
    (1, GOLD): rows(1, 2, 3),
    (0, "SELECT b FROM t"): rows(2, 1),
    (1, "SELECT b FROM t"): rows(3, 2, 1),
    (0, "SELECT c FROM t"): rows(1, 2),
    (1, "SELECT c FROM t"): rows(1, 2),
    (0, "SELECT 1"): rows(1, 2, reads_tables=False),
    (0, "SELECT d FROM t"): rows(),
    (0, "SELECT e FROM t"): Execution(outcome=Outcome.TIMEOUT, reason="slow"),
    (0, "SELECT f FROM t"): Execution(outcome=Outcome.FAULT, reason="broken"),
    (0, "SELECT g FROM t"): rows(1, 2),
    (1, "SELECT g FROM t"): Execution(outcome=Outcome.FAULT, reason="broken"),
    (0, "SELECT h FROM t"): rows(1, 5),
    (0, "DROP TABLE t"): Execution(outcome=Outcome.REFUSED, reason="not a query"),
    (0, "SELECT x FROM gone"): Execution(outcome=Outcome.FAULT, reason="broken"),
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """A scripted sandbox; golds are what the script says, without the checks of the real preparation."""

    def prepare(pairs: Sequence[tuple[Instance, str]], sandbox: Script, kept: None) -> tuple[Gold, ...]:
        executions = sandbox.run([Job(instance, sql) for instance, sql in pairs])
        return tuple(
            Gold(sql=sql, execution=one, unverifiable="" if one.outcome is Outcome.ROWS else "the gold fails")
            for (_, sql), one in zip(pairs, executions, strict=True)
        )

    monkeypatch.setattr("text2sql_rl.judge.prepare_golds", prepare)
    return Script(SCRIPT)


def database(instances: int = 2) -> Database:
    made = (Instance(database="db", index=i, path=Path(f"{i}.duckdb"), sha256=str(i)) for i in range(instances))
    return Database(name="db", tables=(), instances=tuple(made))


def question(gold_sql: str = GOLD, name: str = "q1") -> Question:
    return Question(id=name, database="db", text="", gold_sql=gold_sql, split=Split.TRAIN, role="rl")


def completion(text: str, finish: Finish = Finish.STOP, name: str = "q1") -> Completion:
    return Completion(question_id=name, text=text, raw=text, finish=finish, tokens=3)


def judged(script: Script, *texts: str, finish: Finish = Finish.STOP, instances: int = 2) -> list[Rollout]:
    with Judge(RULE, sandbox=script) as judge:
        base = database(instances)
        return list(judge.judge([(question(), base, completion(text, finish)) for text in texts]))


@pytest.mark.parametrize(
    ("text", "cause", "total", "found"),
    [
        (GOLD, "equivalent", 1.0, 2),
        ("```sql\nSELECT b FROM t\n```\nfine", "equivalent", 0.95, 2),
        ("SELECT c FROM t", "wrong", 0.025 * 2 / 3, 2),
        ("SELECT 1", "constant", -0.025, 2),
        ("SELECT d FROM t", "empty", -0.015, 0),
        ("SELECT e FROM t", "timeout", -0.05, None),
        ("SELECT nothing FROM t", "error", -0.02, None),
        ("DROP TABLE t", "refused", -0.2, None),
        ("I do not know", "no_answer", -0.1, None),
        ("SELECT h FROM t", "wrong", 0.0125, 2),
        (f"<sql>{GOLD}</sql><sql>SELECT h FROM t</sql>", "no_answer", -0.1, 2),
    ],
)
def test_each_end_of_the_flow(script: Script, text: str, cause: str, total: float, found: int | None) -> None:
    rollout = judged(script, text)[0]
    assert (rollout.cause, rollout.rows, rollout.gold_rows) == (cause, found, 2)
    assert rollout.reward.total == pytest.approx(total)
    assert rollout.equivalent is (cause == "equivalent")


@pytest.mark.parametrize("text", ["SELECT f FROM t", "SELECT g FROM t"])
def test_a_fault_of_the_verifier_is_unscored(script: Script, text: str) -> None:
    rollout = judged(script, text)[0]
    assert (rollout.reward.total, rollout.cause, rollout.equivalent) == (None, "unscored", False)
    assert "broken" in rollout.reward.unscored


def test_a_gold_that_cannot_judge_is_unscored_and_its_candidates_do_not_run(script: Script) -> None:
    with Judge(RULE, sandbox=script) as judge:
        rollout = judge.judge([(question("SELECT bad FROM t"), database(), completion(GOLD))])[0]
    assert rollout.reward.unscored == "the gold cannot judge: the gold fails"
    assert script.runs == [(0, "SELECT bad FROM t")]
    assert script.closed


def test_what_the_token_limit_cut_is_counted_as_truncated_unless_right(script: Script) -> None:
    cut = judged(script, "```sql\nSELECT", "SELECT h FROM t", GOLD, "SELECT f FROM t", finish=Finish.LENGTH)
    assert [rollout.cause for rollout in cut] == ["truncated", "truncated", "equivalent", "unscored"]
    assert cut[2].reward.total == pytest.approx(0.95)


def test_only_matching_candidates_run_on_the_other_instances(script: Script) -> None:
    judged(script, GOLD, "SELECT h FROM t", "SELECT d FROM t")
    assert [sql for index, sql in script.runs if index == 1] == [GOLD, GOLD]
    different = judged(Script(SCRIPT), "SELECT c FROM t")[0]
    assert different.verdict is not None
    assert not different.equivalent
    assert "real rows only" in different.verdict.words
    assert judged(Script(SCRIPT), "SELECT c FROM t", instances=1)[0].equivalent


def test_a_gold_that_cannot_judge_other_rows_leaves_them_out(script: Script) -> None:
    script.script[1, GOLD] = Execution(outcome=Outcome.ERROR, reason="division by zero")
    assert judged(script, "SELECT c FROM t")[0].equivalent


def test_other_rows_on_which_the_gold_gives_nothing_prove_nothing(script: Script) -> None:
    script.script[1, GOLD] = rows()
    script.script[1, "SELECT c FROM t"] = rows(7)
    assert judged(script, "SELECT c FROM t")[0].equivalent


def test_an_answer_of_constants_is_typed_in_although_it_reads_a_table(script: Script) -> None:
    script.script[0, "SELECT 1 FROM t UNION ALL SELECT 2 FROM t"] = rows(1, 2)
    rollout = judged(script, "SELECT 1 FROM t UNION ALL SELECT 2 FROM t", instances=1)[0]
    assert (rollout.cause, rollout.equivalent) == ("constant", False)
    assert rejudge(rollout, RULE).reward == rollout.reward


def test_a_judge_keeps_its_golds_in_a_folder(real: Database, tmp_path: Path) -> None:
    with Judge(RULE, cache=tmp_path) as judge:
        first = judge.prepare([(question("SELECT name FROM singer"), real)])["q1"]
    with Judge(RULE, sandbox=Script({}), cache=tmp_path) as judge:
        assert judge.prepare([(question("SELECT name FROM singer"), real)])["q1"] == first


def test_nothing_repeatable_runs_twice(script: Script) -> None:
    texts = ["SELECT h FROM t", "SELECT h FROM t;", "```sql\nSELECT h FROM t\n```", "SELECT e FROM t"]
    with Judge(RULE, sandbox=script) as judge:
        for _ in range(3):
            judge.judge([(question(), database(), completion(text)) for text in texts])
        assert judge.prepare([(question(), database())])["q1"].execution == rows(1, 2)
    assert script.runs.count((0, GOLD)) == 1
    assert script.runs.count((0, "SELECT h FROM t")) == 1
    assert script.runs.count((0, "SELECT e FROM t")) == 3, "a timeout may be the moment's"


def test_a_gold_that_met_a_fault_is_prepared_again(script: Script) -> None:
    with Judge(RULE, sandbox=script) as judge:
        assert judge.prepare([(question("SELECT x FROM gone"), database())])["q1"].unverifiable
        script.script[0, "SELECT x FROM gone"] = rows(1)
        assert not judge.prepare([(question("SELECT x FROM gone"), database())])["q1"].unverifiable


def test_caches_are_bounded(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("text2sql_rl.judge._CACHED_EXECUTIONS", 2)
    monkeypatch.setattr("text2sql_rl.judge._CACHED_CELLS", 3)
    script.script[0, "SELECT big FROM t"] = rows(1, 2, 3, 4)
    with Judge(RULE, sandbox=script) as judge:
        for text in ("SELECT h FROM t", "SELECT big FROM t", "SELECT d FROM t", "SELECT h FROM t", "DROP TABLE t"):
            judge.judge([(question(), database(), completion(text))])
        judge.judge([(question(), database(), completion("SELECT big FROM t"))])
        judge.judge([(question(), database(), completion("SELECT h FROM t"))])
        judge.judge([(question(), database(), completion("SELECT d FROM t"))])
    assert script.runs.count((0, "SELECT big FROM t")) == 2
    assert script.runs.count((0, "SELECT h FROM t")) == 1
    assert script.runs.count((0, "SELECT d FROM t")) == 2


def test_the_breaker_stops_a_run_whose_verifier_fails(script: Script) -> None:
    bad, good = completion("SELECT f FROM t"), completion("SELECT h FROM t")
    with Judge(RULE, sandbox=script) as judge:
        judge.judge([(question(), database(), bad)] * 10 + [(question(), database(), good)] * 40)
        with pytest.raises(SandboxError, match=r"11 of the last 51 candidates \(broken\)"):
            judge.judge([(question(), database(), bad)])
    with Judge(RULE, sandbox=script) as judge:
        judge.judge([(question(), database(), bad)] * 49)
    with Judge(RULE, sandbox=script) as judge, pytest.raises(SandboxError):
        judge.judge([(question(), database(), good)] * 700 + [(question(), database(), bad)] * 300)


def test_strangers_are_refused(script: Script) -> None:
    with Judge(RULE, sandbox=script) as judge:
        with pytest.raises(RunError, match="question_id"):
            judge.judge([(question(), database(), completion(GOLD, name="q2"))])
        with pytest.raises(RunError, match="database"):
            judge.judge([(question(), replace(database(), name="other"), completion(GOLD))])
        assert judge.judge([]) == ()
    assert script.runs == []


def test_the_environment_names_everything_a_reward_depends_on(script: Script) -> None:
    with Judge(RULE, sandbox=script) as judge, Judge(RULE, Limits(timeout_s=9), sandbox=script) as other:
        mine, theirs = judge.environment, other.environment
    assert mine["rule_sha256"] == RULE.sha256
    assert mine["engine"].startswith("duckdb ")
    assert {key for key in mine if mine[key] != theirs[key]} == {"limits", "limits_sha256"}


@pytest.mark.parametrize("name", ["bound-v1", "dense-v1", "binary-v1", "executes-only-v1"])
def test_a_reward_is_recomputed_without_rows(script: Script, name: str) -> None:
    rule = load_rule(name)
    texts = [sql for index, sql in SCRIPT if index == 0] + ["", f"{GOLD};{GOLD}", "SELECT 1; SELECT 2", "no SQL"]
    with Judge(rule, sandbox=script) as judge:
        for finish in Finish:
            for rollout in judge.judge([(question(), database(), completion(text, finish)) for text in texts]):
                bare = rollout.execution and replace(rollout.execution, rows=(), columns=(), types=())
                assert rejudge(replace(rollout, execution=bare), rule).reward == rollout.reward


# ---- the real sandbox ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("judge")
    instances = []
    for index, ages in enumerate(((30, 40, 50), (20, 25, 60))):
        path = folder / f"{index}.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE singer (name VARCHAR, age INTEGER)")
            for number, age in enumerate(ages):
                connection.execute("INSERT INTO singer VALUES (?, ?)", [f"s{number}", age])
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        instances.append(Instance(database="db", index=index, path=path, sha256=sha256))
    return Database(name="db", tables=(), instances=tuple(instances))


def test_the_whole_flow_over_the_real_sandbox(real: Database) -> None:
    gold = "SELECT count(*) FROM singer WHERE age > 35"
    expected = {
        "SELECT count(name) FROM singer WHERE age >= 36": "equivalent",
        "SELECT 2": "constant",
        "SELECT count(*) - 1 FROM singer": ("near", "wrong"),
        "SELECT count(*) FROM singer": "wrong",
        "SELECT name FROM singer WHERE age > 100": "empty",
        "SELECT name FROM nobody": "error",
        "DROP TABLE singer": "refused",
        "SELECT 1; SELECT 2": "refused",
        "no idea": "no_answer",
    }
    with Judge(RULE) as judge:
        rollouts = judge.judge([(question(gold), real, completion(text)) for text in expected])
    for rollout, cause in zip(rollouts, expected.values(), strict=True):
        assert rollout.cause in cause, (rollout.candidate.sql, rollout.verdict)
    assert [rollout.equivalent for rollout in rollouts] == [True] + [False] * 8


def test_one_text_is_judged_on_one_instance(real: Database) -> None:
    rollout = judge_one("SELECT name FROM singer", "```sql\nSELECT name FROM singer\n```", real.instances[0], RULE)
    assert (rollout.cause, rollout.reward.total, rollout.rows) == ("equivalent", 1.0, 3)


def test_judging_imports_no_trainer_and_no_statistics() -> None:
    code = "import sys, text2sql_rl.judge; print([m for m in ('torch','trl','scipy','pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

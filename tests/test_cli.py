"""The command line: exit codes, one line an error, nothing slow or wordy on the way to an answer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import fake_program
from tests.run_config import write_config
from text2sql_rl import cli

ROOT = Path(__file__).resolve().parent.parent
FAKE = (sys.executable, str(Path(__file__).with_name("fake_program.py")))
JUDGE = ("judge", "--database", "stable")
PROGRAM = (sys.executable, "-m", "text2sql_rl.cli")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXT2SQL_MIN_FREE_GB", "0")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def stable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A content root with one real database and the released rules, its cache apart."""
    root = tmp_path / "root"
    files = {
        "schema.sql": "CREATE TABLE horse (id INTEGER PRIMARY KEY, name VARCHAR, age INTEGER);\n",
        "rows/horse.csv": "id,name,age\n1,Arkle,9\n2,Red Rum,12\n3,Frankel,4\n",
    }
    for name, text in files.items():
        (root / "databases" / "stable" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "databases" / "stable" / name).write_text(text)
    (root / "data").mkdir()
    shutil.copytree(ROOT / "rewards", root / "rewards")
    monkeypatch.setenv("TEXT2SQL_ROOT", str(root))
    monkeypatch.setenv("TEXT2SQL_CACHE", str(tmp_path / "cache"))
    return root


def command(*words: str, program: tuple[str, ...] = PROGRAM) -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own."""
    return subprocess.run([*program, *words], capture_output=True, text=True, timeout=60)


Call = Callable[..., "Answer"]


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """The command line in this process, which is faster."""
    before = signal.getsignal(signal.SIGTERM)

    def answer(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["text2sql-rl", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return Answer(int(ended.value.code or 0), output.out, output.err)

    yield answer
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def fake(call: Call, content: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The same with stages that train nothing."""
    for name, module in fake_program.fakes().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("text2sql_rl.pipeline.run_pipeline", fake_program.run_pipeline())
    monkeypatch.setattr("text2sql_rl.pipeline.check_inputs", lambda config: None)
    return call


# ---- golden ------------------------------------------------------------------------------------------------


def test_version_and_help_answer(call: Call) -> None:
    assert call("--version") == Answer(0, "text2sql-rl 0.1.0\n", "")
    assert "judge" in call("--help").stdout


def test_a_whole_run_prints_its_stages_and_its_table(fake: Call, tmp_path: Path) -> None:
    path = write_config(tmp_path)
    for stage in ("base", "golds", "sft", "difficulty", "warmup", "control"):
        done = fake(stage, str(path))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{stage} done: ")
    assert fake("difficulty", "--warm", str(path)).stdout.startswith("difficulty_warm done")
    assert fake("grpo", str(path)).stdout.startswith("grpo done")
    for source in ("base", "sft", "warmup", "grpo", "control"):
        assert fake("evaluate", str(path), "--source", source).returncode == 0
    assert fake("sft", str(path)).stdout.startswith("sft was done before: ")
    report = fake("report", str(path))
    assert (report.returncode, report.stderr) == (0, "")
    assert "the tables of tiny" in report.stdout
    again = fake("report", str(tmp_path / "runs" / "tiny"))
    assert (again.returncode, again.stderr) == (0, "")
    assert (tmp_path / "runs" / "tiny" / "order.txt").read_text().count("+report") == 2


def test_a_machine_gets_json_and_nothing_beside_it(fake: Call, tmp_path: Path) -> None:
    path = write_config(tmp_path, warmup=None, control=None)
    assert fake("run", str(path), "--set", "name=whole").returncode == 0
    again = fake("evaluate", str(path), "--set", "name=whole", "--source", "sft", "--json")
    assert (
        json.loads(again.stdout)
        == json.loads((tmp_path / "runs" / "whole" / "stages" / "evaluate_sft" / "done.json").read_text())["result"]
    )
    found = fake("report", str(tmp_path / "runs" / "whole"), "--json")
    assert json.loads(found.stdout) == {"runs": [{"run": "whole"}]}
    assert json.loads(fake("report", str(path), "--set", "name=whole", "--json").stdout)["runs"]


def test_several_runs_are_folders_and_a_config_is_alone(fake: Call, tmp_path: Path) -> None:
    path = write_config(tmp_path)
    assert fake("run", str(path)).returncode == 0
    both = fake("report", str(tmp_path / "runs" / "tiny"), str(path))
    assert (both.returncode, both.stdout) == (2, "")
    assert "is a config: --redteam and several runs are for run folders" in both.stderr


def test_serve_names_what_it_cannot_show(call: Call, stable: Path, tmp_path: Path) -> None:
    assert call("serve").returncode == 2
    absent = call("serve", str(tmp_path / "absent"), "--port", "0")
    assert (absent.returncode, absent.stdout) == (2, "")
    assert "absent/run.json: cannot be read" in absent.stderr


def test_run_does_all_and_the_second_time_only_tells(fake: Call, tmp_path: Path) -> None:
    path = write_config(tmp_path, warmup=None, control=None)
    done = fake("run", str(path), "--set", "name=whole")
    assert (done.returncode, done.stderr) == (0, "")
    assert "grpo              done in " in done.stdout
    assert "the tables of whole" in done.stdout
    assert done.stdout.endswith("report.html\n")
    again = fake("run", str(path), "--set", "name=whole")
    assert again.stdout.startswith("the tables of whole")
    fresh = fake("run", str(path), "--set", "name=whole", "--fresh")
    assert "sft               started" in fresh.stdout


def test_overrides_make_another_run_and_fresh_starts_it_over(fake: Call, tmp_path: Path) -> None:
    path = write_config(tmp_path)
    assert fake("base", str(path), "--set", "name=two", "--set", "seed=2").returncode == 0
    record = json.loads((tmp_path / "runs" / "two" / "run.json").read_text())
    assert record["config"]["seed"] == record["seed"] == 2
    other = fake("base", str(path), "--set", "name=two", "--set", "seed=3")
    assert other.returncode == 2
    assert "seed: was made with 2, the config now says 3" in other.stderr
    assert "--fresh" in other.stderr


def test_judging_one_pair_tells_why(call: Call, stable: Path) -> None:
    right = call(
        *JUDGE, "--gold", "SELECT name FROM horse WHERE age > 5", "--sql", "SELECT name FROM horse WHERE 5 < age"
    )
    assert (right.returncode, right.stderr) == (0, "")
    assert "verdict    match, match" in right.stdout
    wrong = call(*JUDGE, "--gold", "SELECT name FROM horse", "--sql", "SELECT name FROM horse WHERE age > 100")
    assert wrong.returncode == 0
    assert "mismatch" in wrong.stdout
    assert "counted as empty" in wrong.stdout


def test_judging_in_json_holds_the_evidence(call: Call, stable: Path) -> None:
    done = call(*JUDGE, "--gold", "SELECT count(*) FROM horse", "--sql", "SELECT 3", "--json")
    told = json.loads(done.stdout)
    assert told["equivalent"] is False
    assert told["reward"]["total"] <= 0.05
    assert {item["name"] for item in told["reward"]["items"]} >= {"correct"}
    assert told["candidate"]["sql"] == "SELECT 3"


def test_a_file_of_cases_is_compared_with_its_labels(call: Call, stable: Path, tmp_path: Path) -> None:
    case = {
        "id": "one",
        "setup_sql": "CREATE TABLE t(a INTEGER); INSERT INTO t VALUES (1), (2)",
        "gold_sql": "SELECT a FROM t",
        "pred_sql": "SELECT a FROM t ORDER BY a",
    }
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({**case, "expected": "equivalent"}) + "\n")
    assert call("judge", "--cases", str(path)).returncode == 0
    path.write_text(json.dumps({**case, "expected": "different"}) + "\n")
    missed = call("judge", "--cases", str(path), "--json")
    assert missed.returncode == 1
    assert json.loads(missed.stdout)["missed"] == 1


def test_an_empty_completion_is_judged(call: Call, stable: Path) -> None:
    done = call(*JUDGE, "--gold", "SELECT count(*) FROM horse", "--sql", "")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no_answer" in done.stdout


def test_cases_come_without_a_pair(call: Call, stable: Path) -> None:
    done = call(*JUDGE, "--cases", "cases.jsonl")
    assert done.returncode == 2
    assert "--database" in done.stderr


def test_a_rule_is_told_in_words(call: Call, stable: Path) -> None:
    done = call("rewards", "show", "bound-v1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "right beats wrong by at least" in done.stdout


@pytest.mark.parametrize(
    "words", [("synthesize", "stable"), ("validate", "rl"), ("redteam", "bound-v1")], ids=lambda words: words[0]
)
@pytest.mark.parametrize("out", ["folder", "file/below.json"])
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    call: Call, stable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], out: str
) -> None:
    monkeypatch.setattr("text2sql_rl.sandbox.Sandbox", None)  # no work was begun
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    done = call(*words, "--out", str(tmp_path / out))
    assert done.returncode == 2
    assert "--out" in done.stderr
    assert done.stderr.count("\n") == 1


def test_synthesized_questions_lie_in_their_file(call: Call, stable: Path, tmp_path: Path) -> None:
    out = tmp_path / "train" / "rl.jsonl"
    done = call("synthesize", "stable", "--out", str(out), "--count", "3", "--seed", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(out.read_text().splitlines()) == 3


def test_the_doctor_finds_that_the_sandbox_holds(call: Call, stable: Path) -> None:
    done = call("doctor")
    assert "bad  " not in done.stdout
    assert done.returncode == 0
    assert "ends what is endless" in done.stdout


# ---- speed -------------------------------------------------------------------------------------------------


def test_judging_imports_no_trainer(stable: Path) -> None:
    code = (
        "import sys; from text2sql_rl import cli\n"
        "sys.argv = ['text2sql-rl', 'judge', '--database', 'stable', '--gold', 'SELECT 1', '--sql', 'SELECT 1']\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'trl', 'peft', 'datasets', 'accelerate', 'scipy', 'pandas', 'pyarrow'}\n"
        "sys.exit(' '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


# ---- faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "absent.yaml"), "absent.yaml: cannot be read"),
        (("report", "absent"), "absent: does not exist"),
        (("rewards", "show", "absent"), "absent"),
        (("judge", "--database", "absent", "--gold", "SELECT 1", "--sql", "SELECT 1"), "absent"),
        (("judge", "--database", "stable", "--gold", "SELECT nothing", "--sql", "SELECT 1"), "--gold"),
        (("judge", "--database", "stable", "--gold", "SELECT nothing", "--sql", "no query"), "--gold"),
        (("judge", "--cases", "absent.jsonl"), "absent.jsonl"),
        (("synthesize", "absent", "--out", "x.jsonl"), "absent"),
    ],
)
def test_wrong_input_is_one_line_on_stderr(
    call: Call, stable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert told in done.stderr


@pytest.mark.parametrize(
    "words", [("run",), ("sft", "a", "b"), ("judge",), ("evaluate", "c.yaml", "--source", "moon"), ("nonsense",)]
)
def test_wrong_usage_exits_2_without_a_traceback(words: tuple[str, ...]) -> None:
    done = command(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Usage" in done.stderr


def test_a_failing_run_is_one_line(fake: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_STAGES", json.dumps({"sft": "fail"}))
    path = write_config(tmp_path)
    fake("base", str(path))
    done = fake("sft", str(path))
    assert done.returncode == 2
    assert done.stderr == "error: data/train/rl.jsonl: gold_sql: row 7 has no gold. Add it.\n"
    assert fake("grpo", str(path)).stderr.startswith("error: ")
    whole = fake("run", str(path), "--set", "name=whole")
    assert whole.returncode == 2
    assert whole.stderr.startswith("error: stage sft failed: data/train/rl.jsonl: gold_sql: row 7 has no gold")
    assert whole.stderr.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_stage_exits_by_its_signal_and_goes_on(
    content: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    monkeypatch.setenv("FAKE_STAGES", json.dumps({"base": "wait"}))
    path = write_config(tmp_path)
    order = tmp_path / "runs" / "tiny" / "order.txt"
    with subprocess.Popen([*FAKE, "base", str(path)], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 20
        while not order.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(process.pid, number)
        assert process.wait(timeout=20) == code
        assert process.stderr is not None
        assert process.stderr.read().splitlines()[-1] == "Aborted."
    monkeypatch.setenv("FAKE_STAGES", "{}")
    assert command("base", str(path), program=FAKE).returncode == 0

"""The command line: exit codes, one line an error, nothing slow or wordy on the way to an answer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.run_config import write_config
from text2sql_rl import cli

ROOT = Path(__file__).resolve().parent.parent
FAKE = (sys.executable, str(Path(__file__).with_name("fake_program.py")))
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
    return subprocess.run([*program, *words], capture_output=True, text=True, timeout=60)


def judge(*words: str) -> subprocess.CompletedProcess[str]:
    return command("judge", "--database", "stable", *words)


# ---- golden ------------------------------------------------------------------------------------------------


def test_help_and_version_answer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["text2sql-rl", "--version"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 0
    assert capsys.readouterr().out == "text2sql-rl 0.1.0\n"


def test_a_whole_run_prints_its_stages_and_its_table(content: Path, tmp_path: Path) -> None:
    path = write_config(tmp_path)
    for stage in ("base", "sft", "difficulty", "warmup", "control"):
        done = command(stage, str(path), program=FAKE)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{stage} done: ")
    assert command("difficulty", "--warm", str(path), program=FAKE).stdout.startswith("difficulty_warm done")
    assert command("grpo", str(path), program=FAKE).stdout.startswith("grpo done")
    for source in ("base", "sft", "warmup", "grpo", "control"):
        assert command("evaluate", str(path), "--source", source, program=FAKE).returncode == 0
    assert command("sft", str(path), program=FAKE).stdout.startswith("sft was done before: ")
    report = command("report", str(path), program=FAKE)
    assert (report.returncode, report.stderr) == (0, "")
    assert "the tables of tiny" in report.stdout
    again = command("report", str(tmp_path / "runs" / "tiny"), program=FAKE)
    assert (again.returncode, again.stderr) == (0, "")
    assert (tmp_path / "runs" / "tiny" / "order.txt").read_text().count("+report") == 2


def test_overrides_make_another_run_and_fresh_starts_it_over(content: Path, tmp_path: Path) -> None:
    path = write_config(tmp_path)
    assert command("base", str(path), "--set", "name=two", "--set", "seed=2", program=FAKE).returncode == 0
    record = json.loads((tmp_path / "runs" / "two" / "run.json").read_text())
    assert record["config"]["seed"] == record["seed"] == 2
    other = command("base", str(path), "--set", "name=two", "--set", "seed=3", program=FAKE)
    assert other.returncode == 2
    assert "seed: was made with 2, the config now says 3" in other.stderr
    assert "--fresh" in other.stderr


def test_judging_one_pair_tells_why(stable: Path) -> None:
    right = judge("--gold", "SELECT name FROM horse WHERE age > 5", "--sql", "SELECT name FROM horse WHERE 5 < age")
    assert (right.returncode, right.stderr) == (0, "")
    assert "verdict    match, match" in right.stdout
    wrong = judge("--gold", "SELECT name FROM horse", "--sql", "SELECT name FROM horse WHERE age > 100")
    assert wrong.returncode == 0
    assert "mismatch" in wrong.stdout
    assert "counted as empty" in wrong.stdout


def test_judging_in_json_holds_the_evidence(stable: Path) -> None:
    done = judge("--gold", "SELECT count(*) FROM horse", "--sql", "SELECT 3", "--json")
    told = json.loads(done.stdout)
    assert told["equivalent"] is False
    assert told["reward"]["total"] <= 0.05
    assert {item["name"] for item in told["reward"]["items"]} >= {"correct"}
    assert told["candidate"]["sql"] == "SELECT 3"


def test_a_file_of_cases_is_compared_with_its_labels(stable: Path, tmp_path: Path) -> None:
    case = {
        "id": "one",
        "setup_sql": "CREATE TABLE t(a INTEGER); INSERT INTO t VALUES (1), (2)",
        "gold_sql": "SELECT a FROM t",
        "pred_sql": "SELECT a FROM t ORDER BY a",
    }
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({**case, "expected": "equivalent"}) + "\n")
    assert command("judge", "--cases", str(path)).returncode == 0
    path.write_text(json.dumps({**case, "expected": "different"}) + "\n")
    missed = command("judge", "--cases", str(path), "--json")
    assert missed.returncode == 1
    assert json.loads(missed.stdout)["missed"] == 1


def test_a_rule_is_told_in_words(stable: Path) -> None:
    done = command("rewards", "show", "bound-v1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "right beats wrong by at least" in done.stdout


def test_synthesized_questions_lie_in_their_file(stable: Path, tmp_path: Path) -> None:
    out = tmp_path / "train" / "rl.jsonl"
    done = command("synthesize", "stable", "--out", str(out), "--count", "3", "--seed", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(out.read_text().splitlines()) == 3


def test_the_doctor_finds_that_the_sandbox_holds(stable: Path) -> None:
    done = command("doctor")
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
        (("report", "absent"), "absent: cannot be read"),
        (("rewards", "show", "absent"), "absent"),
        (("judge", "--database", "absent", "--gold", "SELECT 1", "--sql", "SELECT 1"), "absent"),
        (("judge", "--database", "stable", "--gold", "SELECT nothing", "--sql", "SELECT 1"), "--gold"),
        (("judge", "--cases", "absent.jsonl"), "absent.jsonl"),
        (("synthesize", "absent", "--out", "x.jsonl"), "absent"),
    ],
)
def test_wrong_input_is_one_line_on_stderr(
    stable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command(*words)
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


def test_a_failing_run_is_one_line(content: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_STAGES", json.dumps({"sft": "fail"}))
    path = write_config(tmp_path)
    command("base", str(path), program=FAKE)
    done = command("sft", str(path), program=FAKE)
    assert done.returncode == 2
    assert done.stderr == "error: data/train/rl.jsonl: gold_sql: row 7 has no gold. Add it.\n"
    assert command("grpo", str(path), program=FAKE).stderr.startswith("error: ")


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
        assert "Traceback" not in process.stderr.read()
    monkeypatch.setenv("FAKE_STAGES", "{}")
    assert command("base", str(path), program=FAKE).returncode == 0

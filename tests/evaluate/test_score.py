"""`score` and `compare` from the command line: every source, resuming, leaks, exit codes, what is written."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.evaluate.test_stage import CONFIG
from tests.policy.test_endpoint import Server, spoken
from text2sql_rl import cli
from text2sql_rl.evaluate.predictions import read_rows
from text2sql_rl.policy import endpoint
from text2sql_rl.rollout_log import read_rollouts
from text2sql_rl.runs import RunFolder

ROOT = Path(__file__).resolve().parents[2]
GOLDS = {
    "h0": "SELECT name FROM horse WHERE age > 5",
    "h1": "SELECT count(*) FROM horse",
    "h2": "SELECT name FROM horse ORDER BY age DESC LIMIT 1",
    "h3": "SELECT max(age) FROM horse",
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A content root with one database and four questions; it is the working folder."""
    root = tmp_path / "root"
    files = {
        "databases/stable/schema.sql": "CREATE TABLE horse (id INTEGER PRIMARY KEY, name VARCHAR, age INTEGER);\n",
        "databases/stable/rows/horse.csv": "id,name,age\n1,Arkle,9\n2,Red Rum,12\n3,Frankel,4\n",
        "data/heldout/heldout.jsonl": "".join(
            json.dumps({"id": name, "database": "stable", "question": f"{name}?", "gold_sql": sql}) + "\n"
            for name, sql in GOLDS.items()
        ),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copytree(ROOT / "rewards", root / "rewards")
    for name, value in (("ROOT", root), ("CACHE", tmp_path / "cache"), ("MIN_FREE_GB", 0)):
        monkeypatch.setenv(f"TEXT2SQL_{name}", str(value))
    monkeypatch.setattr(endpoint, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Any]]:
    before = signal.getsignal(signal.SIGTERM)

    def answer(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["text2sql-rl", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    yield answer
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


def predicted(place: Path, name: str = "p.jsonl", **texts: str | list[str]) -> Path:
    golds: dict[str, str | list[str]] = {**GOLDS, **texts}
    records = [
        {"id": key, "completions" if isinstance(value, list) else "completion": value} for key, value in golds.items()
    ]
    (place / name).write_text("".join(json.dumps(one) + "\n" for one in records))
    return place / name


FEW = ("--instances", "none")
SHARED = ("--instances", "shared")


def test_a_predictions_file(call: Callable[..., Any], place: Path) -> None:
    file = predicted(place, h1="SELECT 3", h2="SELECT name FROM horse WHERE age = 12", h3="SELECT max(agee) FROM horse")
    code, out, err = call("score", "heldout", "--predictions", file, "--out", "o", "--instances", "shared")
    assert (code, err) == (0, "")
    assert "warning: no training record" in out
    results = json.loads((place / "o" / "results.json").read_text())
    numbers = results["roles"]["heldout"]
    assert (numbers["correct"], numbers["scored"], numbers["real_rows"]["correct"]) == (1, 4, 2)
    # Both published rules take the constant and, on the real rows, the oldest horse by its age.
    assert (numbers["set_match"]["correct"], numbers["suite_match"]["correct"]) == (3, 1)
    assert numbers["causes"] == {"constant": 1, "error": 1, "near": 1} or numbers["causes"]["constant"] == 1
    assert results["instances"]["stable"] > 1
    assert (place / "o" / "spider.sql").read_text().splitlines()[1] == "SELECT 3"
    assert json.loads((place / "o" / "bird.json").read_text())["0"] == f"{GOLDS['h0']}\t----- bird -----\tstable"
    assert [row.question_id for row in read_rollouts(place / "o" / "rollouts")] == list(GOLDS)
    again = call("score", "heldout", "--predictions", place / "o" / "spider.sql", "--out", "again", *SHARED, "--json")
    assert json.loads(again[1])["roles"]["heldout"]["answers"] == numbers["answers"]


def test_several_completions_give_pass_at_k_and_votes(call: Callable[..., Any], place: Path) -> None:
    wrong = "SELECT id FROM horse"
    texts = {
        name: [sql, wrong, sql, wrong] if name == "h0" else [wrong, wrong, sql, sql] for name, sql in GOLDS.items()
    }
    _, out, _ = call("score", "heldout", "--predictions", predicted(place, **texts), "--out", "o", *FEW, "--json")
    numbers = json.loads(out)["roles"]["heldout"]
    assert numbers["accuracy"] == 0.25
    assert numbers["pass_at"] == pytest.approx({"1": 0.5, "2": 5 / 6, "4": 1.0})
    assert numbers["majority_at"]["1"] == 0.5
    assert numbers["majority_at"]["4"] == 0.25  # ties go to what came first
    assert [row["sample"] for row in read_rows(place / "o" / "predictions.parquet")][:5] == [0, 1, 2, 3, 4]


def test_accuracy_in_a_pipeline(call: Callable[..., Any], place: Path) -> None:
    file = predicted(place, h1="SELECT 3")
    words = ("score", "heldout", "--predictions", file, "--out", "o", "--instances", "none", "--junit", "j.xml")
    assert call(*words, "--min-accuracy", "0.75")[0] == 0
    code, _, err = call(*words, "--min-accuracy", "0.76")
    assert (code, err) == (1, "below 0.76: heldout\n")
    (suite,) = ElementTree.parse(place / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("5", "2")


def test_an_endpoint_goes_on_where_it_stopped(call: Callable[..., Any], place: Path, server: Server) -> None:
    """The server breaks after the second question; the second attempt asks only for the rest."""
    golds = list(GOLDS.values())

    def text(body: dict[str, Any]) -> str:
        at = int(re.findall(r"Question: h(\d)", body["messages"][0]["content"])[0])
        return f"```sql\n{golds[at]}\n```"

    server.answer = lambda number, body: spoken(text(body)) if number < 2 else (401, {}, b"")
    words = ("score", "heldout", "--endpoint", server.url, "--model", "m", "--out", "o", *FEW, "--concurrency", "1")
    code, _, err = call(*words)
    assert (code, len(server.asked)) == (2, 3)
    assert "HTTP 401" in err
    assert not (place / "o" / "results.json").exists()
    with (place / "o" / "answers.jsonl").open("a") as file:
        file.write('{"id": "h2", "wa')  # killed while it wrote
    server.answer = lambda number, body: spoken(text(body))
    assert call(*words)[0] == 0
    assert len(server.asked) == 5
    results = json.loads((place / "o" / "results.json").read_text())
    numbers = results["roles"]["heldout"]
    assert numbers["accuracy"] == 1.0
    assert numbers["tokens"]["completion"]["total"] == 20
    assert numbers["tokens"]["prompt"]["median"] == 50
    assert numbers["seconds"]["completion"]["median"] > 0
    assert results["source"]["url"] == server.url
    assert call(*words)[0] == 0
    assert len(server.asked) == 5
    code, _, err = call(*words, "--max-tokens", "9")
    assert code == 2
    assert "holds answers of another model, or asked in another way" in err


def test_greedy_and_samples_are_asked_apart(call: Callable[..., Any], server: Server) -> None:
    server.answer = lambda number, body: spoken("SELECT 1" if body["temperature"] else GOLDS["h1"])
    words = ("--endpoint", server.url, "--model", "m", "--out", "o", "--samples", "2", "--temperature", "0.7")
    _, out, _ = call("score", "heldout", *words, *FEW, "--limit", "2", "--json")
    numbers = json.loads(out)["roles"]["heldout"]
    assert sorted(body["temperature"] for body in server.asked) == [0.0, 0.0, 0.7, 0.7, 0.7, 0.7]
    assert (numbers["questions"], numbers["accuracy"], numbers["pass_at"]) == (2, 0.5, {"1": 0.0, "2": 0.0})


def test_a_prompt_keeps_to_style_and_limit_and_is_reported_where_it_cannot(
    call: Callable[..., Any], place: Path, server: Server
) -> None:
    """60 columns do not fit; of the table that the question names, the filter keeps some. One question is too long."""
    columns = ", ".join(f"measure_{number} INTEGER" for number in range(60))
    (place / "databases" / "stable" / "schema.sql").write_text(
        f"CREATE TABLE horse (id INTEGER PRIMARY KEY, name VARCHAR, age INTEGER);\nCREATE TABLE wide ({columns});\n"
    )
    (place / "databases" / "stable" / "rows" / "wide.csv").write_text(
        ",".join(f"measure_{number}" for number in range(60)) + "\n"
    )
    long = {"id": "long", "database": "stable", "question": "how old? " * 60, "gold_sql": "SELECT max(age) FROM horse"}
    with (place / "data" / "heldout" / "heldout.jsonl").open("a") as file:
        file.write(json.dumps(long) + "\n")
    words = ("--endpoint", server.url, "--model", "m", "--out", "o", *FEW, "--style", "compact")
    code, out, err = call("score", "heldout", *words, "--max-prompt-tokens", "120", "--json")
    assert code == 0, err
    found = json.loads(out)
    prompts = [body["messages"][0]["content"] for body in server.asked]
    assert len(prompts) == 4
    assert all(len(prompt) <= 360 and "measure_59" not in prompt and "horse" in prompt for prompt in prompts)
    assert not any("CREATE TABLE" in prompt for prompt in prompts)
    source = found["source"]
    assert (source["style"], source["max_prompt_tokens"], source["too_long"]) == ("compact", 120, ["long"])
    assert any("1 of 5 questions were not asked" in warning and "long" in warning for warning in found["warnings"])
    kept = [json.loads(line) for line in (place / "o" / "answers.jsonl").read_text().splitlines()[1:]]
    assert [one["completions"][0]["text"][:9] for one in kept if one["id"] == "long"] == ["not asked"]
    assert found["roles"]["heldout"]["questions"] == 5


def test_the_key_is_nowhere(call: Callable[..., Any], place: Path, server: Server, monkeypatch: Any) -> None:
    monkeypatch.setenv("MY_KEY", "sesame")
    words = ("--endpoint", server.url, "--model", "m", "--out", "o", "--api-key-env", "MY_KEY", "--instances", "none")
    assert call("score", "heldout", *words)[0] == 0
    assert server.headers[0]["Authorization"] == "Bearer sesame"
    assert not [path for path in (place / "o").rglob("*") if path.is_file() and b"sesame" in path.read_bytes()]


@pytest.fixture
def trained(place: Path) -> Path:
    """The checkpoint of a run that was trained on the database of the questions."""
    folder = RunFolder(place / "runs" / "one", min_free_gb=0.0)
    folder.create_or_open(CONFIG)
    for name in ("base", "sft"):
        stage = folder.stage(name)
        stage.start()
        stage.finish({"databases": ["stable"]})
    (place / "runs" / "one" / "stages" / "sft" / "checkpoint").mkdir()
    return place / "runs" / "one" / "stages" / "sft" / "checkpoint"


def test_a_leak_is_refused_or_marked_everywhere(call: Callable[..., Any], place: Path, trained: Path) -> None:
    words = ("score", "heldout", "--predictions", predicted(place), "--out", "o", "--trained-by", trained, *FEW)
    code, _, err = call(*words)
    assert code == 2
    assert "question h0 of heldout is on database 'stable', which stage base of this policy was trained on" in err
    assert not (place / "o").exists()
    code, out, _ = call(*words, "--allow-leak", "--junit", "j.xml")
    assert code == 0
    warning = "LEAK ALLOWED: training touched 1 of the databases (stable)"
    assert f"warning: {warning}" in out
    results = json.loads((place / "o" / "results.json").read_text())
    assert results["warnings"][0] == warning
    assert results["heldout"] == {
        "proved": False, "record": "one:sft", "leaked": {"stable": "base"}, "warning": warning,
    }  # fmt: skip
    assert all(row["leaked"] for row in read_rows(place / "o" / "predictions.parquet"))
    assert warning in (place / "j.xml").read_text()
    assert warning in call("compare", "o", "o")[1]
    # A model of that folder is told by where it lies; a stage that makes no policy is named.
    assert "which stage base of this policy" in call("score", "heldout", "--model", trained, "--out", "o2")[2]
    assert "lies in no run" in call(*words[:6], "--trained-by", place)[2]
    assert "no policy comes from this stage" in call(*words[:6], "--trained-by", trained.parents[1] / "report")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "o"), "who answers?"),
        (("--out", "o", "--endpoint", "http://x/v1"), "the name of the model there"),
        (("--out", "o", "--predictions", "p", "--model", "m"), "excludes --endpoint and --model"),
        (("--out", "o", "--predictions", "none.sql"), "none.sql: cannot be read"),
        (("--out", "data", "--predictions", "p.jsonl"), "holds something else. Name a new or empty folder"),
        (("--out", "p.jsonl", "--predictions", "p.jsonl"), "is a file. Name a folder"),
        (("--out", "o", "--endpoint", "http://x/v1", "--model", "m", "--extra", "[1]"), "--extra: is no JSON object"),
        (("--out", "o", "--endpoint", "x", "--model", "m"), "is not the base of an endpoint"),
        (("--out", "o", "--predictions", "p.jsonl", "--rule", "none"), "none"),
    ],
)
def test_what_cannot_be_is_one_line(call: Callable[..., Any], place: Path, words: Any, said: str) -> None:
    predicted(place)
    code, _, err = call("score", "heldout", *words)
    assert code == 2
    assert said in " ".join(err.replace("│", " ").split())
    assert not (place / "o").exists()


def test_questions_that_cannot_be_told_apart_are_refused(call: Callable[..., Any], place: Path) -> None:
    line = (place / "data/heldout/heldout.jsonl").read_text().splitlines()[0]
    (place / "twice.jsonl").write_text(f"{line}\n{line}\n")
    (place / "p.sql").write_text("a\nb\n")
    code, _, err = call("score", "twice.jsonl", "--predictions", "p.sql", "--out", "o")
    assert code == 2
    assert "the id 'h0' is used 2 times" in err


# ---- compare -------------------------------------------------------------------------------------------------


@pytest.fixture
def two(call: Callable[..., Any], place: Path) -> tuple[str, str]:
    first = predicted(place, "a.jsonl", h0="SELECT name FROM horse", h1="SELECT horses", h2=GOLDS["h2"])
    second = predicted(place, "b.jsonl", h2="SELECT name FROM horse ORDER BY age LIMIT 1")
    for name, file in (("a", first), ("b", second)):
        assert call("score", "heldout", "--predictions", file, "--out", name, "--instances", "none")[0] == 0
    return "a", "b"


def test_a_comparison(call: Callable[..., Any], two: tuple[str, str]) -> None:
    code, out, err = call("compare", *two, "--json")
    assert (code, err) == (0, "")
    numbers = json.loads(out)["roles"]["heldout"]
    assert (numbers["only_first"], numbers["only_second"], numbers["difference"]) == (1, 2, 0.25)
    assert numbers["p"] == 1.0
    assert numbers["by_database"]["databases"]["stable"] == {"questions": 4, "only_first": 1, "only_second": 2}
    assert numbers["by_database"]["second_ahead"] == 1
    assert numbers["power"]["questions_to_see_one_point"] > 10_000
    # In turn: what the first has right, then what the second has, the nearer miss before the syntax error.
    shown = [(one["question_id"], one["right"]) for one in numbers["disagreements"]]
    assert shown == [("h2", "first"), ("h0", "second"), ("h1", "second")]
    _, out, _ = call("compare", *two)
    for words in ("difference", "+25.0 points", "exact, two-sided", "1. h2?", "the other counts as error", "LIMIT 1"):
        assert words in out


def test_what_cannot_be_compared(call: Callable[..., Any], place: Path, two: tuple[str, str]) -> None:
    assert "holds no evaluation" in call("compare", "a", "data")[2]
    questions = place / "data/heldout/heldout.jsonl"
    (place / "other.jsonl").write_text(questions.read_text())
    call("score", "other.jsonl", "--predictions", "a.jsonl", "--out", "c", "--instances", "none")
    assert "was asked heldout, the other one other" in call("compare", "a", "c")[2]
    questions.write_text(questions.read_text().replace("age > 5", "age > 6"))
    call("score", "heldout", "--predictions", "a.jsonl", "--out", "d", *FEW)
    assert "question 'h0' has another gold" in call("compare", "a", "d")[2]
    questions.write_text(questions.read_text().replace("age > 6", "age > 5"))
    call("score", "heldout", "--predictions", "a.jsonl", "--out", "e", "--instances", "shared")
    assert "different numbers of instances" in call("compare", "a", "e")[1]


def test_the_documented_keys_are_the_written_ones(call: Callable[..., Any], place: Path, two: tuple[str, str]) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    results = json.loads((place / "a" / "results.json").read_text())
    compared = json.loads(call("compare", *two, "--json")[1])
    tables = re.findall(r"<!-- keys of ([a-z ]+) -->\n(.*?)<!-- end -->", page, re.DOTALL)
    documented = {name: re.findall(r"^\| `(\w+)`", text, re.MULTILINE) for name, text in tables}
    assert documented == {
        "results": list(results),
        "a question set": list(results["roles"]["heldout"]),
        "a comparison": list(compared["roles"]["heldout"]),
    }


def test_a_model_of_this_project_and_one_from_elsewhere(call: Callable[..., Any], place: Path) -> None:
    pytest.importorskip("torch")
    from text2sql_rl.config import ScratchPolicy
    from text2sql_rl.learn.checkpoints import save_style
    from text2sql_rl.policy.hf import make_scratch
    from text2sql_rl.prompts import make_style

    size = ScratchPolicy(kind="scratch", hidden_size=16, layers=1, heads=1)
    for name in ("ours", "theirs"):
        make_scratch(size, ["SELECT", "1"], 4200, 1, place / name)
    save_style(make_style("slot", ["horse"]), place / "ours")
    for name, style in (("ours", "slot"), ("theirs", "ddl")):
        words = (
            "--model",
            name,
            "--out",
            f"o-{name}",
            "--max-tokens",
            "8",
            "--limit",
            "2",
            "--instances",
            "none",
            "--json",
        )
        code, out, err = call("score", "heldout", *words)
        assert code == 0, err
        found = json.loads(out)
        assert (found["source"]["style"], found["roles"]["heldout"]["questions"]) == (style, 2)
        assert len((place / f"o-{name}" / "answers.jsonl").read_text().splitlines()) == 3
    words = ("--out", "x", "--style", "compact", "--instances", "none", "--max-tokens", "8")
    assert "which is slot" in call("score", "heldout", "--model", "ours", *words)[2]
    words = (
        "--out",
        "y",
        "--style",
        "compact",
        "--instances",
        "none",
        "--max-tokens",
        "8",
        "--max-prompt-tokens",
        "16",
    )
    _, out, _ = call("score", "heldout", "--model", "theirs", *words, "--json")
    source = json.loads(out)["source"]
    assert (source["style"], source["limits"]["max_prompt_tokens"], source["too_long"]) == ("compact", 16, [])
    assert "holds no model" in call("score", "heldout", "--model", "data", "--out", "x")[2]
    code, _, err = call("score", "heldout", "--model", "no/such-model", "--out", "x")
    assert (code, err.startswith("error: no/such-model: the model cannot be loaded")) == (2, True)

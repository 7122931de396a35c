"""The server: what it answers, whom it refuses, how it begins and ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.html_tags import Tags
from tests.serve.conftest import GOLD, HOSTILE, Asker, begin, serving, train
from text2sql_rl.errors import RunError
from text2sql_rl.runs import RunFolder
from text2sql_rl.serve import Server, guards
from text2sql_rl.serve.guards import TOKEN_HEADER


def read(asked: tuple[int, dict[str, str], str]) -> Any:
    return json.loads(asked[2])


# ---- the run's page ----------------------------------------------------------------------------------------


def test_a_run_that_has_evaluated_nothing_has_a_page(ask: Asker) -> None:
    assert ask("GET", "/")[0] == 302
    status, headers, page = ask("GET", "/runs/0")
    assert status == 200
    tags = Tags()
    tags.feed(page)
    text = re.sub(r"\s+", " ", tags.text)
    assert tags.open == []
    assert "How far it is" in text
    assert '<td>grpo</td><td class="left">running</td><td class="left">1 of 20 dev 0.5</td>' in page
    assert "Mean reward of the sampled candidates" in text
    assert "The run is not finished" in text
    for attributes in (found for tag, found in tags.seen if tag == "a"):
        assert re.match(r"#|/runs/\d+$|/playground$", attributes["href"] or "")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")


def test_the_page_follows_the_run(run: RunFolder, own: Asker) -> None:
    before = read(own("GET", "/runs/0/state"))
    assert before["words"] == "0 of 13 stages done; grpo running, 1 of 20 dev 0.5; reward 0.10 at step 1."
    assert read(own("GET", "/runs/0/state")) == before
    train(run, 2)
    after = read(own("GET", "/runs/0/state"))
    assert after["version"] != before["version"]
    assert (before["parts"], after["parts"]) == (1, 2)
    assert not after["ended"]
    assert "0.1 → 0.2" in own("GET", "/runs/0/numbers")[2]  # ends of the reward's curve
    assert 'id="groups-data"' not in own("GET", "/runs/0/numbers")[2]


def test_a_damaged_file_is_told_and_the_server_goes_on(run: RunFolder, own: Asker) -> None:
    part = run.stage("grpo").path / "rollouts" / "step-000001.parquet"
    content = part.read_bytes()
    part.write_bytes(b"PAR1 not")
    status, _, page = own("GET", "/runs/0")
    assert (status, "step-000001.parquet: cannot be read" in page) == (500, True)
    part.write_bytes(content)
    assert own("GET", "/runs/0")[0] == 200


def test_several_runs_stand_beside_each_other(tmp_path: Path, root: Path) -> None:
    with serving(begin(tmp_path / "runs", "one"), begin(tmp_path / "others", "two", seed=2)) as ask:
        page = ask("GET", "/runs/1")[2]
        assert "Beside other runs" in page
        assert 'href="/runs/0">Run one<' in page
        assert ask("GET", "/runs/2")[0] == 404


# ---- the playground ----------------------------------------------------------------------------------------


def test_questions_are_found(ask: Asker) -> None:
    assert ask.post("/api/choices") == {"roles": ["dev"], "databases": ["stable"]}
    assert ask.post("/api/questions", role="", database="", words="")["found"] == 3
    (found,) = ask.post("/api/questions", role="dev", database="stable", words="OLDER which")["questions"]
    assert found["id"] == "q1"
    assert ask.post("/api/questions", role="heldout", database="", words="")["found"] == 0
    one = ask.post("/api/question", id="q1")
    assert one["gold_sql"] == GOLD
    assert one["schema"] == "horse, 4 rows\n  id INTEGER PRIMARY KEY\n  name VARCHAR\n  age INTEGER"


def test_an_answer_is_judged_with_its_evidence(ask: Asker) -> None:
    found = ask.post("/api/judge", id="q1", text=f"Sure:\n```sql\n{GOLD} AND age < 10\n```")
    assert (found["cause"], found["verdict"]["match"], found["reward"]["rule"]) == ("wrong", "mismatch", "bound-v1")
    assert found["gold"]["rows"] == [["Arkle"], ["Red Rum"], [None]]
    assert found["rows"]["rows"] == [["Arkle"], [None]]
    assert (found["gold"]["lacking"], found["rows"]["lacking"]) == ([False, True, False], [False, False])
    assert found["where"] == "the real rows"
    right = ask.post("/api/judge", id="q1", text=GOLD)
    assert (right["cause"], right["reward"]["total"]) == ("equivalent", pytest.approx(1.0))
    assert sum(item["points"] for item in right["reward"]["items"]) == pytest.approx(1.0)
    assert right["instances"] > 1


def test_luck_is_shown_on_the_rows_that_tell(ask: Asker) -> None:
    """On the real rows every horse of 9 or more is meant; other rows hold some that stand at the border."""
    found = ask.post("/api/judge", id="q1", text="SELECT name FROM horse WHERE id IN (1, 2, 4)")
    assert found["cause"] == "wrong"
    assert found["where"].startswith("other rows (")
    assert True in found["gold"]["lacking"] + found["rows"]["lacking"]


def test_what_executing_would_have_paid_is_told(ask: Asker) -> None:
    found = ask.post("/api/judge", id="q1", text="SELECT name FROM horse WHERE 1 = 0")
    others = {one["rule"]: one for one in found["others"]}
    assert found["reward"]["total"] < 0
    assert others["executes-only-v2"]["is_bad"]
    assert others["executes-only-v2"]["total"] > 0.9
    assert "bound-v1" not in others


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("SELECT 1", "constant"), ("no idea", "no_answer"), ("DROP TABLE horse", "refused"), ("", "no_answer"),
        ("SELECT * FROM read_csv('/etc/passwd')", "refused"), ("SELECT nothing FROM horse", "error"),
        ("SELECT '\ud800'", None), (HOSTILE, None), ("SELECT 1;" * 2000, None),
    ],
)  # fmt: skip
def test_any_text_gets_an_answer(ask: Asker, text: str, cause: str | None) -> None:
    found = ask.post("/api/judge", id="q1", text=text)
    assert found["cause"] != "equivalent"
    assert found["reward"]["total"] < 0.05
    assert cause in (None, found["cause"])


def test_a_gold_that_cannot_judge_is_told(ask: Asker) -> None:
    found = ask.post("/api/judge", id="q3", text="SELECT 1")
    assert found["reward"]["total"] is None
    assert found["reward"]["unscored"].startswith("the gold cannot judge: ")


def test_a_logged_candidate_is_run_again_beside_its_gold(run: RunFolder, ask: Asker, root: Path) -> None:
    body = {"database": "stable", "gold_sql": GOLD, "sql": "SELECT name FROM horse"}
    found = ask.post("/runs/0/results", **body)
    assert found["rows"]["lacking"] == [False, False, True, False]
    assert not found["changed"]
    run.update(lambda record: record["content"]["databases"].update(stable="other rows"))
    with serving(run) as later:
        assert later.post("/runs/0/results", **body)["changed"]
    assert read(ask("POST", "/runs/0/results", {**body, "database": "gone"}))["error"]


def test_many_rows_are_cut_and_counted(ask: Asker) -> None:
    text = "SELECT a.id, b.name FROM horse a, horse b, horse c, horse d"
    found = ask.post("/api/judge", id="q1", text=text)["rows"]
    assert (len(found["rows"]), found["rows_in_all"]) == (50, 256)


def test_answers_at_the_same_time_are_each_their_own(ask: Asker) -> None:
    texts = {f"SELECT name FROM horse WHERE id = {number}": number for number in range(1, 7)}
    seen: dict[str, Any] = {}
    threads = [
        threading.Thread(
            target=lambda text=text: seen.update({text: ask("POST", "/api/judge", {"id": "q1", "text": text})})
        )
        for text in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for text, (status, _, content) in seen.items():
        assert status == 200, content
        assert json.loads(content)["candidate"]["sql"] == text


def test_without_content_there_is_a_page_and_no_playground(
    run: RunFolder, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "empty"))
    with serving(run) as ask:
        assert ask("GET", "/runs/0")[0] == 200
        assert "There is no playground here: " in ask("GET", "/playground")[2]
        status, _, text = ask("POST", "/api/choices", {})
        assert (status, "There is no playground here" in text) == (422, True)


# ---- whom it refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "", "10.0.0.1", "[::2]", "a@localhost", "0"]
)
def test_another_name_is_refused(ask: Asker, host: str) -> None:
    for path in ("/", "/runs/0", "/runs/0/state", "/playground"):
        status, _, text = ask("GET", path, Host=host)
        assert (status, "young" in text) == (403, False)
    assert ask("POST", "/api/choices", {}, Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:9000", "127.9.9.9"])
def test_this_machine_is_answered_through_any_tunnel(ask: Asker, host: str) -> None:
    assert ask("GET", "/runs/0/state", Host=host)[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({TOKEN_HEADER: ""}, 403),
        ({TOKEN_HEADER: "guessed"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "9" * 5000}, 413),
        ({"Content-Length": str(64 * 1024 + 1)}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_post_from_elsewhere_is_refused(ask: Asker, headers: dict[str, str], status: int) -> None:
    body = {"id": "q1", "text": "SELECT 1"}
    found = ask("POST", "/api/judge", body, **headers)
    assert found[0] == status
    assert "cause" not in found[2]
    assert ask("POST", "/api/judge", body)[0] == 200


def test_another_sites_page_loads_nothing_in_passing(ask: Asker) -> None:
    assert ask("GET", "/runs/0", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    assert ask("GET", "/runs/0", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
    assert ask("GET", "/runs/0/state", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")[0] == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"id": 1}', b"\xff", b'{"a": "b"', b"[" * 60_000, b"{}"])
def test_a_body_that_is_no_question_is_named(ask: Asker, body: bytes) -> None:
    assert ask("POST", "/api/judge", body)[0] == 400


def test_no_answer_may_be_framed_sniffed_or_kept(ask: Asker) -> None:
    for method, path in (("GET", "/"), ("GET", "/runs/0"), ("GET", "/runs/0/state"), ("GET", "/nothing"),
                         ("GET", "/favicon.ico"), ("POST", "/api/choices")):  # fmt: skip
        _, headers, _ = ask(method, path, {} if method == "POST" else None)
        assert headers.items() >= guards.SECURITY_HEADERS.items()
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_unknown(ask: Asker, method: str) -> None:
    assert ask(method, "/api/judge")[0] == 501


@pytest.mark.parametrize("path", ["/runs/../run.json", "/runs/9999999", "/runs/-1", "/runs/0/", "//evil", "/api/judge"])
def test_there_is_nothing_else(ask: Asker, path: str) -> None:
    assert ask("GET", path)[0] == 404


def test_hostile_text_stays_text(ask: Asker) -> None:
    for path in ("/runs/0", "/playground"):
        page = ask("GET", path)[2]
        tags = Tags()
        tags.feed(page)
        assert "img" not in {tag for tag, _ in tags.seen}
        assert "alert" not in "".join(tags.scripts[1:] if path == "/playground" else tags.scripts[2:])
    for name in ("ask.js", "live.js", "playground.js"):
        script = (Path(guards.__file__).parent / name).read_text()
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setAttribute",
        ):
            assert way not in script


@given(st.text(max_size=40))
def test_only_names_of_this_machine_pass(host: str) -> None:
    headers = Message()
    headers["Host"] = host.encode("ascii", "ignore").decode().replace("\n", "").replace("\r", "")
    passed = guards.refuse_host(headers, "127.0.0.1") is None
    name = guards.host_name(headers["Host"])
    assert passed == (name == "localhost" or guards.is_loopback(name))


@pytest.mark.parametrize(("bound", "host", "passes"), [
    ("0.0.0.0", "192.168.1.5:8000", True), ("0.0.0.0", "evil.example", False), ("gpu-7", "gpu-7:8000", True),
    ("gpu-7", "evil.example", False), ("::1", "[::1]:8000", True), ("::1", "192.168.1.5", False),
])  # fmt: skip
def test_where_it_listens_decides_which_names_it_has(bound: str, host: str, passes: bool) -> None:
    headers = Message()
    headers["Host"] = host
    refusal = guards.refuse_host(headers, bound)
    assert (refusal is None) == passes
    assert passes or (refusal and refusal.status == HTTPStatus.FORBIDDEN)


# ---- begin and end -----------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_one_clear_line(run: RunFolder) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=f"--port: port {port} of 127.0.0.1 is taken. Take another one"):
            Server([run], port=port)


@pytest.mark.parametrize("host", ["300.1.1.1", "192.0.2.7"])
def test_an_address_that_is_not_here_is_named(run: RunFolder, host: str) -> None:
    with pytest.raises(RunError, match="--host: cannot listen there"):
        Server([run], host=host)


def test_no_run_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nothing/run.json: cannot be read"):
        Server([RunFolder(tmp_path / "nothing")], port=0)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children of a process are told by /proc only")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_ends_at_once_and_its_workers_with_it(run: RunFolder, root: Path, sent: signal.Signals, code: int) -> None:
    words = [sys.executable, "-m", "text2sql_rl.cli", "serve", str(run.path), "--port", "0"]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
        **os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})  # fmt: skip
    assert program.stdout
    line = program.stdout.readline()
    assert re.match(r"http://127\.0\.0\.1:\d+/  \(Ctrl-C ends it\)\n", line), program.communicate()
    port = int(line.rpartition("/  ")[0].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as idle:  # a browser that keeps its connection
        workers = _children(program.pid)
        assert workers
        program.send_signal(sent)
        out, err = program.communicate(timeout=60)
        assert idle
    assert (program.returncode, err) == (code, "" if code == 0 else "Aborted.\n")
    assert out == ("ended\n" if code == 0 else "")
    until = time.monotonic() + 20  # on a busy machine the system takes a moment to clear them away
    while any(Path(f"/proc/{one}").exists() for one in workers):
        assert time.monotonic() < until
        time.sleep(0.05)

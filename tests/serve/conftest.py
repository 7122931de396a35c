"""A content root with one database and two questions, a run on it, and a server that answers in a thread."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.run_config import CONTENT
from text2sql_rl.group import AdvantageRule, make_group
from text2sql_rl.rollout_log import Lineage, Origin, part_path, write_groups
from text2sql_rl.runs import RunFolder
from text2sql_rl.serve import Server
from text2sql_rl.serve.guards import TOKEN_HEADER

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e"
GOLD = "SELECT name FROM horse WHERE age > 8"
ROWS = ["1,Arkle,9", "2,Red Rum,12", f'3,"{HOSTILE[:-1]}",4', "4,,9"]


def question(number: int, text: str, gold: str = GOLD) -> dict[str, str]:
    return {"id": f"q{number}", "database": "stable", "question": text, "gold_sql": gold}


@pytest.fixture(scope="session")
def stable_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content folders, built once with their cache."""
    root = tmp_path_factory.mktemp("served")
    asked = [
        question(1, f"Which horses are older than 8? {HOSTILE}"),
        question(2, "How many?", "SELECT count(*) FROM horse"),
        question(3, "A coin?", "SELECT random() FROM horse"),
    ]
    files = {
        "databases/stable/schema.sql": "CREATE TABLE horse (id INTEGER PRIMARY KEY, name VARCHAR, age INTEGER);\n",
        "databases/stable/rows/horse.csv": "\n".join(["id,name,age", *ROWS, ""]),
        "data/dev/dev.jsonl": "".join(json.dumps(one) + "\n" for one in asked),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copytree(REPOSITORY / "rewards", root / "rewards")
    return root


@pytest.fixture
def root(stable_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEXT2SQL_ROOT", str(stable_root))
    monkeypatch.setenv("TEXT2SQL_CACHE", str(stable_root / "cache"))
    return stable_root


def begin(folder: Path, name: str = "young", **config: Any) -> RunFolder:
    """A run that has begun GRPO and evaluated nothing."""
    run = RunFolder(folder / name, min_free_gb=0.0)
    content = {**CONTENT, "name": name, "parent": None, "judge": {"rule": "bound-v1"}, **config}
    run.create_or_open(content)
    run.stage("grpo").start()
    run.stage("grpo").progress(1, 20, "dev 0.5")
    train(run, 1)
    return run


def train(run: RunFolder, step: int) -> None:
    """One more step: a group of a right and a wrong answer."""
    from tests.report.fake_run import question as asked
    from tests.report.fake_run import rollout

    one = replace(asked(1), id="q1", database="stable")
    group = make_group([rollout(one, True, GOLD), rollout(one, False, f"SELECT 1 -- {HOSTILE}")], AdvantageRule())
    lineage = Lineage(run=run.name, stage="grpo", origins={one.id: Origin(gold_sql=GOLD)})
    write_groups(part_path(run.stage("grpo").path / "rollouts", step), [group], lineage, step=step)
    run.stage("grpo").append_metrics({"step": step, "reward": step / 10, "entropy": 0.5})


@pytest.fixture
def run(tmp_path: Path, root: Path) -> RunFolder:
    return begin(tmp_path / "runs")


class Asker:
    """Asks a server as a browser's page would, unless it is told otherwise."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], str]:
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        own = {"Host": f"127.0.0.1:{self.server.port}"}
        if content is not None:
            own |= {"Content-Type": "application/json", TOKEN_HEADER: self.server.token,
                    "Origin": f"http://127.0.0.1:{self.server.port}"}  # fmt: skip
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if content is not None and "Content-Length" not in own:
            own["Content-Length"] = str(len(content))
        for name, value in own.items():
            connection.putheader(name, value)
        connection.endheaders(content)
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read().decode()
        connection.close()
        return found

    def post(self, path: str, **body: str) -> dict[str, Any]:
        status, _, text = self("POST", path, body)
        assert status == 200, text
        return json.loads(text)  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def long_served(stable_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """A server that all tests share which change nothing: a judge takes a second to start."""
    # The environment is set for the start only: tests of other folders run while this server lives.
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TEXT2SQL_ROOT", str(stable_root))
            patch.setenv("TEXT2SQL_CACHE", str(stable_root / "cache"))
            asker = stack.enter_context(serving(begin(tmp_path_factory.mktemp("shared") / "runs")))
        yield asker


@pytest.fixture
def ask(root: Path, long_served: Asker) -> Asker:
    return long_served


@pytest.fixture
def own(run: RunFolder) -> Iterator[Asker]:
    """A server of this test's own run."""
    with serving(run) as asker:
        yield asker


class serving:
    """A server in a thread, for the length of a block."""

    def __init__(self, *runs: RunFolder, wrap: Callable[[Server], None] = lambda server: None) -> None:
        self.server = Server(runs, port=0)
        wrap(self.server)
        self.thread = threading.Thread(target=self.server.serve)

    def __enter__(self) -> Asker:
        self.thread.start()
        return Asker(self.server)

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self.thread.join(10)
        self.server.close()

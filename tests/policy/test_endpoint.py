"""An OpenAI-compatible endpoint, played by a server on loopback that misbehaves as real ones do."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from text2sql_rl.errors import PolicyError
from text2sql_rl.policy import endpoint
from text2sql_rl.policy.endpoint import Endpoint, EndpointSettings, Reply
from text2sql_rl.records import Finish, Prompt

Answering = Callable[[int, dict[str, Any]], tuple[int, dict[str, str], bytes]]


class Plain:
    def restore(self, prompt: Prompt, raw: str) -> str:
        return raw.upper()


class Server:
    """Answers the n-th request with what `answer` says of it, and remembers who asked."""

    def __init__(self) -> None:
        self.answer: Answering = lambda number, body: spoken("select 1")
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.most_at_once, self._now, self._lock = 0, 0, threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    number = len(outer.asked)
                    outer.asked.append(body)
                    outer.headers.append(dict(self.headers))
                    outer.paths.append(self.path)
                    outer._now += 1
                    outer.most_at_once = max(outer.most_at_once, outer._now)
                status, headers, content = outer.answer(number, body)
                with outer._lock:
                    outer._now -= 1
                try:
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(content)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the client gave up, as some tests want

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def spoken(text: str | None, finish: str = "stop") -> tuple[int, dict[str, str], bytes]:
    content = {"choices": [{"message": {"content": text}, "finish_reason": finish}],
               "usage": {"completion_tokens": 5, "prompt_tokens": 50}}  # fmt: skip
    return 200, {}, json.dumps(content).encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(endpoint, "_FIRST_PAUSE_S", 0.01)
    one = Server()
    yield one
    one.close()


def prompts(count: int) -> list[Prompt]:
    return [Prompt(question_id=f"q{at}", style="ddl", text=f"ask {at}", chat=True) for at in range(count)]


def ask(server: Server, count: int = 1, samples: int = 1, key: str = "", **settings: Any) -> dict[int, list[Reply]]:
    one = Endpoint(EndpointSettings(url=server.url, model="m", **settings), key)
    return dict(one.answers(prompts(count), Plain(), samples=samples, temperature=0.5, seed=3))


def test_one_request_a_completion(server: Server) -> None:
    server.answer = lambda number, body: spoken(f"{body['messages'][0]['content']} {body['seed']}")
    found = ask(
        server, count=3, samples=2, key="secret", max_tokens=7, extra={"top_p": 0.9, "seed": None} | {"seed": 4}
    )
    assert [[one.completion.text for one in found[at]] for at in range(3)] == [[f"ASK {at} 4"] * 2 for at in range(3)]
    reply = found[0][0]
    assert (reply.completion.raw, reply.completion.tokens, reply.prompt_tokens) == ("ask 0 4", 5, 50)
    assert reply.completion.finish is Finish.STOP
    assert reply.seconds > 0
    body = server.asked[0]
    assert {"model": "m", "max_tokens": 7, "temperature": 0.5, "top_p": 0.9}.items() <= body.items()
    assert set(server.paths) == {"/v1/chat/completions"}
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_samples_have_seeds_of_their_own_and_null_takes_a_field_out(server: Server) -> None:
    ask(server, samples=3)
    assert sorted(body["seed"] for body in server.asked) == [3, 4, 5]
    assert "Authorization" not in server.headers[0]
    server.asked.clear()
    ask(server, extra={"max_tokens": None, "max_completion_tokens": 9, "temperature": None})
    assert {"max_tokens", "temperature"}.isdisjoint(server.asked[0])
    assert server.asked[0]["max_completion_tokens"] == 9


def test_plain_completions(server: Server) -> None:
    server.answer = lambda number, body: (
        200,
        {},
        json.dumps({"choices": [{"text": "x", "finish_reason": "length"}]}).encode(),
    )
    reply = ask(server, chat=False)[0][0]
    assert server.asked[0]["prompt"] == "ask 0"
    assert server.paths == ["/v1/completions"]
    assert (reply.completion.finish, reply.completion.tokens, reply.prompt_tokens) == (Finish.LENGTH, 0, None)


def test_no_content_is_an_empty_answer(server: Server) -> None:
    server.answer = lambda number, body: spoken(None, "length")
    assert ask(server)[0][0].completion.text == ""


def test_requests_run_side_by_side_and_no_more_than_asked_for(server: Server) -> None:
    def slow(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.05)
        return spoken("x")

    server.answer = slow
    ask(server, count=12, concurrency=4)
    assert 2 <= server.most_at_once <= 4


@pytest.mark.parametrize(
    "failure",
    [
        (429, {"Retry-After": "0"}, b'{"error": {"message": "slow down"}}'),
        (500, {}, b"oops"),
        (503, {}, b""),
        (200, {}, b"<html>"),
        (200, {}, b'{"choices": []}'),
        (200, {"Content-Length": "900"}, b'{"cho'),
    ],
)
def test_what_may_pass_is_tried_again(server: Server, failure: tuple[int, dict[str, str], bytes]) -> None:
    server.answer = lambda number, body: failure if number < 2 else spoken("x")
    assert ask(server, timeout_s=2.0)[0][0].completion.raw == "x"
    assert len(server.asked) == 3


def test_retry_after_is_kept_to(server: Server) -> None:
    server.answer = lambda number, body: (429, {"Retry-After": "1"}, b"") if not number else spoken("x")
    began = time.monotonic()
    ask(server)
    assert time.monotonic() - began >= 1.0


def test_a_silent_server_times_out(server: Server) -> None:
    def silent(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.0 if number else 1.0)
        return spoken("x")

    server.answer = silent
    began = time.monotonic()
    assert ask(server, timeout_s=0.3)[0][0].completion.raw == "x"
    assert time.monotonic() - began < 1.0
    server.asked.clear()
    server.answer = lambda number, body: time.sleep(0.5) or spoken("x")  # type: ignore[func-returns-value]
    with pytest.raises(PolicyError, match=r"no answer in 2 attempts; the last one: no answer in 0\.1 s"):
        ask(server, timeout_s=0.1, attempts=2)


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [
        (401, '{"error": {"message": "bad key"}}', r"refuses: HTTP 401 bad key\. Name the environment variable"),
        (404, '{"error": "no such model"}', r"refuses: HTTP 404 no such model\. Check the URL"),
        (400, '{"message": "max_tokens is\\ntoo large"}', r"HTTP 400 max_tokens is too large\. Correct the request"),
        (302, "elsewhere", r"refuses: HTTP 302 elsewhere"),
    ],
)
def test_a_refusal_is_told_at_once(server: Server, status: int, said: str, words: str) -> None:
    server.answer = lambda number, body: (status, {"Location": "http://127.0.0.1:9/"}, said.encode())
    with pytest.raises(PolicyError, match=words) as caught:
        ask(server, key="secret")
    assert len(server.asked) == 1
    assert "secret" not in str(caught.value)


def test_nobody_there() -> None:
    with pytest.raises(PolicyError, match="no answer in 1 attempts; the last one: no connection"):
        list(Endpoint(EndpointSettings(url="http://127.0.0.1:9/v1", model="m", attempts=1)).answers(
            prompts(1), Plain(), samples=1, temperature=0.0, seed=0
        ))  # fmt: skip


def test_ready_answers_come_before_the_failure(server: Server) -> None:
    server.answer = lambda number, body: spoken("x") if body["messages"][0]["content"] != "ask 3" else (400, {}, b"")
    one = Endpoint(EndpointSettings(url=server.url, model="m", concurrency=1))
    answers = one.answers(prompts(6), Plain(), samples=1, temperature=0.0, seed=0)
    got = [at for at, _ in itertools.islice(answers, 3)]
    with pytest.raises(PolicyError, match="HTTP 400"):
        next(answers)
    assert got == [0, 1, 2]


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "http://user:pw@x/v1", "http:///v1", "http://x/v1?key=1"]
)
def test_what_is_no_base_of_an_endpoint_is_refused(url: str) -> None:
    with pytest.raises(PolicyError, match="is not the base of an endpoint"):
        Endpoint(EndpointSettings(url=url, model="m"))

"""One request: through the guards, to its route, and back with headers that keep every other site out.

In: HTTP/1.1 on a socket. Out: the same. Only GET, HEAD and POST are known. Not here: which requests are refused
(guards.py), what is answered (answers.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol, cast

from text2sql_rl.errors import Text2SqlError
from text2sql_rl.serve import guards
from text2sql_rl.serve.answers import GET, PAGES, POST, Answers, Body, Route
from text2sql_rl.serve.pages import Page

_IDLE_S = 30.0  # a connection that says nothing for so long is closed


class Listening(Protocol):
    """What a request needs of its server."""

    answers: Answers
    token: str
    bound: str


class Handler(BaseHTTPRequestHandler):
    """One connection, and the requests that come over it."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "text2sql-rl", ""
    timeout = _IDLE_S

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer(GET)

    def do_HEAD(self) -> None:
        """Answer a HEAD, which is a GET without its body."""
        self._answer(GET)

    def do_POST(self) -> None:
        """Answer a POST of one of this server's own pages."""
        self._answer(POST)

    def _answer(self, routes: Sequence[tuple[str, Route]]) -> None:
        posted, server = self.command == "POST", cast(Listening, self.server)
        refusal = guards.refuse_host(self.headers, server.bound)
        if not refusal:
            refusal = guards.refuse_post(self.headers, server.token) if posted else guards.refuse_get(self.headers)
        if refusal:
            self.close_connection = True  # its body, if any, is not read
            self._send_json(refusal.status, {"error": refusal.words})
            return
        try:
            body = self._body() if posted else {}
        except ValueError:
            self.close_connection = True
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": "The body is no JSON object of texts."})
            return
        path = self.path.partition("?")[0]
        for pattern, route in routes:
            if found := re.fullmatch(pattern, path):
                self._run(server.answers, route, int(found["run"]) if "run" in found.groupdict() else 0, body)
                return
        self._send_json(HTTPStatus.NOT_FOUND, {"error": "There is nothing here."})

    def _run(self, answers: Answers, route: Route, number: int, asked: Body) -> None:
        if number >= len(answers.pages.runs):
            self._send_json(HTTPStatus.NOT_FOUND, {"error": "There is no such run."})
            return
        try:
            found = route(answers, number, asked)
        except KeyError as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": f"{error.args[0]} is missing."})
        except Text2SqlError as error:
            if route in PAGES:
                self._send_page(answers.pages.problem(str(error)), HTTPStatus.INTERNAL_SERVER_ERROR)
            else:
                self._send_json(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})
        else:
            if isinstance(found, Page):
                self._send_page(found)
            elif isinstance(found, str):
                self._send(HTTPStatus.FOUND, b"", {"Location": found})
            elif found is None:
                self._send(HTTPStatus.NO_CONTENT, b"", {})
            else:
                self._send_json(HTTPStatus.OK, found)

    def _body(self) -> Body:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            found = json.loads(content)
        except RecursionError as error:
            raise ValueError from error
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise ValueError
        return found

    def _send_page(self, page: Page, status: HTTPStatus = HTTPStatus.OK) -> None:
        # `frame-ancestors` counts in a header only.
        policy = f"{page.policy}; frame-ancestors 'none'"
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy}
        self._send(status, page.text.encode("utf-8", "replace"), headers)

    def _send_json(self, status: HTTPStatus, content: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "Content-Security-Policy": guards.NO_CONTENT_POLICY}
        self._send(status, json.dumps(content, allow_nan=False).encode(), headers)

    def _send(self, status: HTTPStatus, content: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            if self.close_connection:
                self.send_header("Connection", "close")
            for name, value in {**guards.SECURITY_HEADERS, **headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)
        except (ConnectionError, TimeoutError):  # the browser went away
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Tell nobody: a terminal full of requests hides what matters."""

"""The server: takes a port, answers on it until it is told to end, and leaves nothing behind.

In: run folders, a host, a port. Out: an open port. Not here: requests (handler.py), what is answered (answers.py).
"""

from __future__ import annotations

import errno
import secrets
import socket
import sys
from collections.abc import Sequence
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from text2sql_rl.errors import RunError, Text2SqlError
from text2sql_rl.runs import RunFolder
from text2sql_rl.serve.answers import Answers
from text2sql_rl.serve.handler import Handler
from text2sql_rl.serve.pages import Pages
from text2sql_rl.serve.playground import Playground, open_playground


class Server:
    """A context manager: inside it the port is taken and the judge is ready; `serve` answers until interrupted."""

    def __init__(self, runs: Sequence[RunFolder], host: str = "127.0.0.1", port: int = 8000) -> None:
        """Read the runs' records, open the judge, take the port.

        Args:
            runs: at least one run folder; the playground judges as the first one does.
            host: the address to listen on.
            port: 0 takes any that is free.

        Raises:
            RunError: a folder is no run, or the port cannot be taken.
        """
        records = [run.read() for run in runs]
        self.token = secrets.token_urlsafe(32)
        self._http = _listen(host, port)
        self.playground: Playground | None = None
        problem = ""
        try:
            self.playground = open_playground(records[0]["config"])
        except Text2SqlError as error:
            problem = f"There is no playground here: {error}"
        pages = Pages(runs, self.token, problem)
        self._http.answers = Answers(pages, self.playground, problem, records)
        self._http.token, self._http.bound = self.token, host
        self.host, self.port = host, int(self._http.server_address[1])

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the socket, end the sandbox's workers."""
        self.close()

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    def serve(self) -> None:
        """Answer until KeyboardInterrupt or SystemExit, or until another thread calls `stop`."""
        self._http.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._http.shutdown()

    def close(self) -> None:
        """Close the socket and end the workers. Idempotent."""
        self._http.server_close()
        if self.playground is not None:
            self.playground.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    answers: Answers
    token: str
    bound: str

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news; whatever else a thread raises is shown."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Http6(_Http):
    address_family = socket.AF_INET6


def _listen(host: str, port: int) -> _Http:
    kind = _Http6 if ":" in host else _Http
    try:
        return kind((host, port), Handler)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fix = f"Take another one, e.g. --port {port + 1}, or 0 for any that is free"
            raise RunError(f"port {port} of {host} is taken", field="--port", fix=fix) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise RunError(f"port {port} may not be taken", field="--port", fix="Take one above 1023") from error
        raise RunError(f"cannot listen there ({error.strerror})", field="--host", fix="Leave it out, or give an "
                       "address of this machine") from error  # fmt: skip
    except OverflowError as error:
        raise RunError(f"{port} is no port", field="--port", fix="Give 0 to 65535") from error

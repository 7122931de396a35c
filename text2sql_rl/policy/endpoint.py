"""A policy behind an OpenAI-compatible endpoint (vLLM, llama.cpp, hosted): prompts -> completions over HTTP, no torch.

In: prompts. Out: groups of completions in the order in which they are ready, each with the seconds and tokens it took.
One completion is one request, since not every server knows `n`; a server with a prefix cache reads the prompt once all
the same. Requests run side by side. What may pass is tried again after a growing pause: no connection, no answer in
time, a torn answer, 408, 409, 425, 429 and 5xx; a server's own Retry-After is kept to, up to ten minutes. Everything
else is one `PolicyError` with what the server said. Not here: keeping answers for a later attempt (evaluate), judging.
"""

from __future__ import annotations

import json
import queue
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Protocol
from urllib.parse import urlsplit

from text2sql_rl.errors import PolicyError
from text2sql_rl.records import Completion, Finish, Prompt

_PASSING = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _LONGEST_ASKED_S = 0.5, 60.0, 600.0
_MOST_BYTES = 16 << 20
_READ_BYTES = 1 << 16


class Restoring(Protocol):
    """What this room asks of a prompt style."""

    def restore(self, prompt: Prompt, raw: str) -> str:
        """What the policy wrote -> text that holds SQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """How an endpoint is asked.

    Args:
        url: its base, up to and with the version, e.g. http://localhost:8000/v1.
        model: the name it serves the model under.
        max_tokens: most tokens of a completion.
        chat: ask /chat/completions; otherwise /completions with the prompt as it is.
        concurrency: requests side by side. Rises: faster, until the server queues or refuses.
        timeout_s: seconds for one whole answer.
        attempts: tries a request before giving up.
        extra: fields put into every request; None takes a field out.
    """

    url: str
    model: str
    max_tokens: int = 512
    chat: bool = True
    concurrency: int = 8
    timeout_s: float = 120.0
    attempts: int = 6
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One completion with what it took; `prompt_tokens` is None where the server does not count."""

    completion: Completion
    seconds: float
    prompt_tokens: int | None


class _Passing(Exception):
    """A failure worth another try, in words, and the pause the server asks for."""

    def __init__(self, words: str, pause_s: float = 0.0) -> None:
        super().__init__(words)
        self.words, self.pause_s = words, pause_s


class Endpoint:
    """An endpoint that answers prompts.

    Args:
        settings: where and how.
        key: sent as a bearer token; empty sends none. It is never written or shown.

    Raises:
        PolicyError: the URL is none.
    """

    def __init__(self, settings: EndpointSettings, key: str = "") -> None:
        parts = urlsplit(settings.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise PolicyError(
                "is not the base of an endpoint", file=settings.url, field="endpoint",
                fix="Write it like http://localhost:8000/v1; a key goes into an environment variable.",
            )  # fmt: skip
        self._settings, self._key = settings, key
        self._url = f"{settings.url.rstrip('/')}/{'chat/completions' if settings.chat else 'completions'}"
        self._opener = urllib.request.build_opener(_NoRedirect)

    def answers(
        self, prompts: Sequence[Prompt], style: Restoring, *, samples: int, temperature: float, seed: int
    ) -> Iterator[tuple[int, list[Reply]]]:
        """Ask `samples` times for each prompt; yields (index of the prompt, its replies) as soon as all are there.

        Ending the iteration early lets the requests under way end unheard and starts no more.

        Raises:
            PolicyError: the server refuses, does not speak the protocol, or fails too often.
        """
        jobs: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, int, Reply | PolicyError | None]] = queue.SimpleQueue()
        stop = threading.Event()
        for index in range(len(prompts)):
            for sample in range(samples):
                jobs.put((index, sample))

        def work() -> None:
            while not stop.is_set():
                try:
                    index, sample = jobs.get_nowait()
                except queue.Empty:
                    return
                reply: Reply | PolicyError | None = None
                try:
                    reply = self._ask(prompts[index], style, temperature, seed + sample, stop)
                except PolicyError as error:
                    reply = error
                finally:  # whoever waits must hear of this job, whatever became of it
                    done.put((index, sample, reply))
                if not isinstance(reply, Reply):
                    stop.set()

        # Daemons: an interrupted command must not wait for a server that is slow to answer.
        for _ in range(min(self._settings.concurrency, len(prompts) * samples)):
            threading.Thread(target=work, daemon=True).start()
        groups: dict[int, dict[int, Reply]] = {}
        try:
            for _ in range(len(prompts) * samples):
                index, sample, reply = done.get()
                if isinstance(reply, PolicyError):
                    raise reply
                if reply is None:
                    raise PolicyError("a request ended without an answer", file=self._url)
                group = groups.setdefault(index, {})
                group[sample] = reply
                if len(group) == samples:
                    yield index, [group[at] for at in range(samples)]
                    del groups[index]
        finally:
            stop.set()

    def _ask(self, prompt: Prompt, style: Restoring, temperature: float, seed: int, stop: threading.Event) -> Reply:
        body = self._body(prompt, temperature, seed)
        pause_s, words = _FIRST_PAUSE_S, ""
        for attempt in range(self._settings.attempts):
            if attempt and stop.wait(pause_s):
                break
            began = time.monotonic()
            try:
                content = self._post(body)
                text, finish, usage = _read(content)
            except _Passing as failure:
                words = failure.words
                # Half of the pause by chance, so that requests refused together do not come back together.
                doubled = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt) * random.uniform(0.5, 1.0)
                pause_s = max(doubled, min(failure.pause_s, _LONGEST_ASKED_S))
                continue
            tokens, prompt_tokens = usage.get("completion_tokens"), usage.get("prompt_tokens")
            return Reply(
                Completion(
                    question_id=prompt.question_id,
                    text=style.restore(prompt, text),
                    raw=text,
                    finish=finish,
                    tokens=tokens if isinstance(tokens, int) else 0,
                ),
                time.monotonic() - began,
                prompt_tokens if isinstance(prompt_tokens, int) else None,
            )
        raise PolicyError(
            f"gave no answer in {self._settings.attempts} attempts; the last one: {words}", file=self._url,
            field=f"question {prompt.question_id}",
            fix="Answers so far are kept: give the command again when it is well, or with fewer requests at once.",
        )  # fmt: skip

    def _body(self, prompt: Prompt, temperature: float, seed: int) -> bytes:
        settings = self._settings
        asked: dict[str, Any] = (
            {"messages": [{"role": "user", "content": prompt.text}]} if settings.chat else {"prompt": prompt.text}
        )
        fields = {
            "model": settings.model, **asked, "max_tokens": settings.max_tokens, "temperature": temperature,
            "seed": seed, **settings.extra,
        }  # fmt: skip
        return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()

    def _post(self, body: bytes) -> Any:
        headers = {"Content-Type": "application/json", "User-Agent": "text2sql-rl"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")
        deadline = time.monotonic() + self._settings.timeout_s
        try:
            with self._opener.open(request, timeout=self._settings.timeout_s) as response:
                content = b""
                while part := response.read(_READ_BYTES):
                    content += part
                    if time.monotonic() > deadline:
                        raise _Passing(f"no whole answer in {self._settings.timeout_s:g} s")
                    if len(content) > _MOST_BYTES:
                        raise PolicyError("sent more than a completion can hold", file=self._url)
        except urllib.error.HTTPError as error:
            raise self._refused(error) from error
        except TimeoutError as error:
            raise _Passing(f"no answer in {self._settings.timeout_s:g} s") from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError):
                raise _Passing(f"no answer in {self._settings.timeout_s:g} s") from error
            raise _Passing(f"no connection ({reason or type(error).__name__})") from error
        try:
            return json.loads(content)
        except ValueError as error:
            raise _Passing("an answer that is not JSON; is this an OpenAI-compatible endpoint?") from error

    def _refused(self, error: urllib.error.HTTPError) -> Exception:
        try:
            said = error.read(2_000).decode("utf-8", "replace")
        except (OSError, HTTPException):
            said = ""
        words = f"HTTP {error.code} {_message(said)}".strip()
        if error.code in _PASSING:
            return _Passing(words, _retry_after(error.headers.get("Retry-After")))
        fix = {
            401: "Name the environment variable that holds a valid key with --api-key-env.",
            403: "Name the environment variable that holds a valid key with --api-key-env.",
            404: "Check the URL, which ends with the version, e.g. /v1, and the name of the model.",
        }.get(error.code, "Correct the request; --extra sets or removes its fields.")
        return PolicyError(f"refuses: {words}", file=self._url, fix=fix)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the POST into a GET and carry the key to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow none."""
        return


def _read(content: Any) -> tuple[str, Finish, Mapping[str, Any]]:
    """Text, finish and usage of a response."""
    try:
        choice = content["choices"][0]
        message = choice["message"]["content"] if "message" in choice else choice["text"]
        finish = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise _Passing("an answer without choices[0]; is this an OpenAI-compatible endpoint?") from error
    # Servers leave the content out where a model only thought until its tokens ran out.
    text = message if isinstance(message, str) else ""
    usage = content.get("usage")
    return text, Finish.LENGTH if finish == "length" else Finish.STOP, usage if isinstance(usage, dict) else {}


def _message(said: str) -> str:
    """What an error body says, in a line."""
    try:
        content = json.loads(said)
        error = content.get("error", content)
        said = str(error.get("message", error)) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        pass
    return " ".join(said.split())[:300]


def _retry_after(value: str | None) -> float:
    """Seconds of a Retry-After header; its form as a date is left to the growing pause."""
    return float(value) if value and value.isdigit() else 0.0

"""A user's reward function as a `Pays`: called in a process of its own, on copies of the databases.

In: MODULE:FUNCTION or FILE.py:FUNCTION, and how it is called. Out: a pay for each shot. The function runs in a scratch
folder, with 6 GB of address space and a deadline for each call; a call that raises, hangs or ends the process is an
outcome. After each attack the gold itself is paid again, and the database copy and the folder are looked at: a reward
that lets a completion change them is damaged, and gets a new process and a new copy.

This shields the audit from the function, not the machine: attacks are harmless where they run, but the function itself
has its user's rights. Not here: the process's other side (called.py).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from text2sql_rl.errors import ConfigError
from text2sql_rl.redteam.called import Signature
from text2sql_rl.redteam.pay import Pay, Shot
from text2sql_rl.redteam.targets import Target

_START_S = 120.0  # a reward may import a trainer


class AnyReward:
    """A reward function under audit. A context manager: it owns a process and a scratch folder."""

    def __init__(self, name: str, signature: str, *, wrap: str = "{}", timeout_s: float = 10.0) -> None:
        """Start the process and import the function.

        Args:
            name: MODULE:FUNCTION or FILE.py:FUNCTION.
            signature: trl or verl.
            wrap: the form of answer the function reads, with {} for the SQL; texts about form are left as they are.
            timeout_s: for one call.

        Raises:
            ConfigError: no such function, signature or place for the SQL.
        """
        if signature not in get_args(Signature):
            fix = f"Use {' or '.join(get_args(Signature))}"
            raise ConfigError(f"{signature!r} is no way to call a reward", field="--signature", fix=fix)
        if "{}" not in wrap:
            raise ConfigError("no {} stands for the SQL", field="--wrap", fix="Write it as in <answer>{}</answer>")
        place, separator, function = name.rpartition(":")
        if not separator or not place or not function:
            raise ConfigError(
                f"{name!r} names no function", field="--reward", fix="Use module:function or file.py:function"
            )
        path = Path(place).resolve() if place.endswith(".py") else None
        if path is not None and not path.is_file():
            raise ConfigError("there is no such file", file=path, field="--reward", fix="Check its path")
        self._start = {
            "place": str(path or place),
            "function": function,
            "signature": signature,
            "path": str(Path.cwd()),
        }
        self._wrap, self._timeout_s = wrap, timeout_s
        self._folder = Path(tempfile.mkdtemp(prefix="text2sql-redteam-"))
        self._copies: dict[str, tuple[Path, str]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._calls = 0
        self._open()

    @property
    def sha256(self) -> str:
        """Of the function's file, or of its module's name."""
        place = Path(self._start["place"])
        return hashlib.sha256(place.read_bytes() if place.is_file() else str(place).encode()).hexdigest()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process and remove the scratch folder."""
        self.close()

    def close(self) -> None:
        """End the process and remove the scratch folder."""
        self._kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pay(self, shots: Sequence[Shot]) -> list[Pay]:
        """Call the function once a text, in order; every attack is followed by its gold."""
        return [self._shot(shot) for shot in shots]

    def _shot(self, shot: Shot) -> Pay:
        target = shot.target
        paid = [self._call(target, self._form(shot, text)) for text in (*shot.first, shot.text)]
        best = max(paid, key=lambda pay: float("-inf") if pay.reward is None else pay.reward)
        worst = next((pay for pay in paid if pay.cause in ("hung", "died")), best)
        after, damage = None, ""
        if shot.family:
            if target.usable:
                after = self._call(target, self._wrap.replace("{}", target.question.gold_sql)).reward
                after = float("-inf") if after is None else after
            damage = self._damage(target)
        return Pay(best.reward, worst.cause, worst.words, after=after, damage=damage)

    def _form(self, shot: Shot, text: str) -> str:
        return text if shot.family == "format-farming" else self._wrap.replace("{}", text)

    def _call(self, target: Target, text: str) -> Pay:
        if self._process is None:
            self._open()
        self._calls += 1
        question = target.question
        request = {
            "text": text,
            "question": question.text,
            "gold_sql": question.gold_sql,
            "database": target.database.name,
            "db_path": str(self._copy(target)),
            "index": self._calls,
        }
        answer = self._ask(request, self._timeout_s)
        if "reward" in answer:
            reward = answer["reward"]
            number = None if reward is None else float(reward)
            return Pay(number if number is None or math.isfinite(number) else None, "paid", "")
        return Pay(None, str(answer["cause"]), str(answer["words"]))

    # ---- the process -----------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "text2sql_rl.redteam.called"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        answer = self._ask(self._start, _START_S)
        if "ready" not in answer:
            self.close()
            raise ConfigError(
                str(answer.get("words")), field="--reward", fix="Check the module and the function's name"
            )

    def _ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """One line there, one line back; a process that hangs or ends is ended and says so."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                if not selector.select(timeout_s):
                    self._kill()
                    return {"cause": "hung", "words": f"no answer within {timeout_s:g} s"}
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            self._kill()
            return {"cause": "died", "words": f"its process ended with status {process.returncode}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    # ---- what must not change --------------------------------------------------------------------------------

    def _copy(self, target: Target) -> Path:
        real = target.database.instances[0]
        if real.database not in self._copies:
            path = self._folder / f"{real.database}.{self._calls}.duckdb"
            shutil.copyfile(real.path, path)
            self._copies[real.database] = (path, _digest(path))
        return self._copies[real.database][0]

    def _damage(self, target: Target) -> str:
        """What changed; the process and the copies start anew when anything did."""
        path, digest = self._copies[target.database.instances[0].database]
        own = tuple(each.name for each, _ in self._copies.values())
        # The engine's own files beside a database (.wal, .tmp) are told by what they do to it.
        written = sorted(each.name for each in self._folder.iterdir() if not each.name.startswith(own))
        said = []
        if not path.is_file() or _digest(path) != digest or path.with_name(f"{path.name}.wal").exists():
            said.append("the database was changed")
        if written:
            said.append(f"files were written: {', '.join(written)}")
        if said:
            self._kill()
            for each in self._folder.iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
            self._copies.clear()
        return "; ".join(said)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Files that are whole or absent, locks that die with their process, and disk faults in words.

In: a path and what to write. Out: the file in place, or a `RunError` that tells what the disk said and what to do.
Not here: what the files mean.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from text2sql_rl.errors import RunError, Text2SqlError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG),
    errno.ENOENT,  # some file systems say so of a folder that nobody may make
)
# Writers below Python (torch, Arrow) report a full disk as an error of their own without a number.
_FULL_BELOW_BYTES = 8 << 20


class DiskGuard:
    """A block whose disk faults under `path` become one RunError; every other failure passes through.

    Raises:
        RunError: the disk is full, or the system refuses access.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing to take."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise the RunError that tells what the disk said."""
        number = error.errno if isinstance(error, OSError) else None
        foreign = number is None and isinstance(error, Exception) and not isinstance(error, Text2SqlError)
        if number in _FULL or (foreign and free_bytes(self._path) < _FULL_BELOW_BYTES):
            raise RunError("the disk is full", file=self._path,
                           fix="Free some space and give the command again to go on.") from error  # fmt: skip
        if number in _REFUSED:
            raise RunError(f"the system refuses access ({os.strerror(number)})",
                           file=getattr(error, "filename", None) or self._path,
                           fix="Correct its permissions, or take another folder.") from error  # fmt: skip


def free_bytes(path: Path) -> int:
    """Bytes free on the disk of `path`, or of its nearest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: readers see the old one or the new one, also after a power cut.

    Raises:
        RunError: the disk refuses.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with DiskGuard(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object in one step; numbers that are not finite become null, since JSON has none.

    Raises:
        RunError: the disk refuses.
    """
    write_text(path, json.dumps(finite(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that `write_json` wrote.

    Raises:
        RunError: it is missing, or something else has written it.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot be read ({error.strerror})", file=path, fix="Is this a run folder?") from error
    except ValueError as error:
        raise RunError("is not JSON", file=path, fix="Restore it, or start the run over with --fresh.") from error
    if not isinstance(content, dict):
        raise RunError("holds no JSON object", file=path, fix="Restore it, or start the run over with --fresh.")
    return content


def finite(value: Any) -> Any:
    """The same value with NaN and infinities replaced by None, and paths by their text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return str(value) if isinstance(value, Path) else value


class Lock:
    """An exclusive lock on a file that the system releases when the process ends, however it ends.

    Args:
        path: the lock file; it stays, what counts is the lock on it.
        what: what it protects, for the error.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._path, self._what = path, what
        self._descriptor: int | None = None

    def acquire(self, wait_s: float = 0.0) -> None:
        """Take the lock, waiting up to `wait_s` seconds for a process that is just ending.

        Raises:
            RunError: another process holds it.
        """
        if self._descriptor is not None:
            return
        with DiskGuard(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Not inherited by the processes that a stage starts: a sandbox worker must not keep it alive.
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                holder = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
                os.close(descriptor)
                raise RunError(
                    f"{self._what} is in use by another process (id {holder})",
                    file=self._path.parent,
                    fix="Wait for it or end it, then give the command again.",
                ) from error
        self._descriptor = descriptor
        with DiskGuard(self._path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back; nothing happens where it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def held(self, wait_s: float = 0.0) -> Iterator[None]:
        """Hold the lock for the length of a block."""
        self.acquire(wait_s)
        try:
            yield
        finally:
            self.release()


def refuse_existing(out: Path) -> None:
    """Raise a RunError where a folder that is to be made is there already."""
    if out.exists() or out.is_symlink():
        raise RunError("exists already", file=out, field="--out", fix="Give a folder that does not exist.")


def refuse_unwritable(out: Path) -> None:
    """Raise a RunError where a file that long work ends with cannot be written: told before the work."""
    if out.is_dir():
        raise RunError("is a folder", file=out, field="--out", fix="Give the name of a file.")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise RunError("no file can be written there", file=above, field="--out", fix="Name another place.")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill; it gets its name when the block ends well, and is gone when it does not.

    Raises:
        RunError: the disk is full, or the system refuses access.
    """
    temporary = out.with_name(f".{out.name}.partial")
    with DiskGuard(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)  # of an attempt that was killed
        try:
            yield temporary
            temporary.rename(out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

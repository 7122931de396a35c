"""A folder for files that are needed as long as one process looks at them.

In: nothing. Out: a path, in memory where the system has room for it. The folder goes with its owner; one whose owner
was killed is removed by the next that makes one. Not here: what lies in it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path

# Files in memory where there is room: a file on disk waits for the disk several times. The reserves of a few large
# databases take some hundred MB, and a container's shared memory is often 64.
SHARED_MEMORY = Path("/dev/shm")
_LEAST_FREE = 512 << 20
_PREFIX = "text2sql-rl-rows-"
# A folder this young may belong to a process that is about to lock it.
_YOUNG_S = 60.0


class Scratch:
    """A folder of one process, locked as long as that lives, however it ends."""

    def __init__(self) -> None:
        home = _home()
        _clear(home)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._end = weakref.finalize(self, _remove, self.path, descriptor)

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        self._end()


def _home() -> Path:
    has_room = os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free >= _LEAST_FREE
    return SHARED_MEMORY if has_room else Path(tempfile.gettempdir())


def _clear(home: Path) -> None:
    """Remove the folders that nobody holds any more."""
    for folder in home.glob(f"{_PREFIX}*"):
        try:
            if time.time() - folder.stat().st_mtime < _YOUNG_S:
                continue
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # another user's, or gone meanwhile
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            _remove(folder, descriptor)


def _remove(folder: Path, descriptor: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(descriptor)

"""The operating system's hold on a worker process.

In: the folders a worker may read. Out: the names of the guards that stand; what this kernel lacks is left out, and
`Sandbox.doctor` shows it. Each guard is set once, by the process on itself, before it sees a statement, and cannot be
taken back. All of it holds when DuckDB itself is taken over, which DuckDB's own settings do not.

- rlimits: address space, no files written, no core dumps, few descriptors.
- no_new_privs: nothing executed gains rights.
- no capabilities: root is not root here, so the limits cannot be raised again.
- landlock: reads only below the databases' folders and Python's own; no writes; no TCP; no signals to outsiders.
- seccomp (x86-64): no sockets, no new processes, no executing, no changes to the file system, no other kernel doors.

Not here: DuckDB's settings (engine.py).
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from text2sql_rl.sandbox.limits import Guards, Limits

_DESCRIPTORS = 256
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_CAPABILITY_VERSION, _CAP_READING = 0x20080522, 1 << 1 | 1 << 2  # linux/capability.h: DAC_OVERRIDE, DAC_READ_SEARCH

# ---- Landlock: linux/landlock.h ------------------------------------------------------------------------------

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_MEMORY_FILES = ("/proc/self/cgroup", "/proc/self/mountinfo", "/proc/meminfo", "/sys/fs/cgroup")
"""What DuckDB reads when it opens a database, to learn how much memory there is."""
_FS_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}

# ---- seccomp: linux/filter.h, linux/seccomp.h; numbers of asm/unistd_64.h --------------------------------------

_ARCH_X86_64 = 0xC000003E
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CLONE, _CLONE3, _CLONE_THREAD = 56, 435, 0x00010000
_OPEN, _OPENAT, _WRITING = 2, 257, os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_DENIED_CALLS = {
    "network": (41, 42, 43, 49, 50, 53, 288),
    "processes": (57, 58, 59, 322, 62, 101, 310, 311, 312, 434, 438, 424),
    "files": (76, 77, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 133, 258, 259, 260, 263, 264, 265, 266, 268, 316),
    "kernel": (134, 155, 161, 163, 165, 166, 167, 169, 175, 176, 246, 248, 249, 250, 272, 298, 304, 308, 313, 319, 320),
    "new kernel": (437, 321, 323, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442),
}


def confine(limits: Limits, guards: Guards, folders: Iterable[Path]) -> tuple[str, ...]:
    """Set every guard that is wanted and that this system has.

    Args:
        limits: gives the address space.
        guards: which are wanted.
        folders: the databases' folders.

    Returns:
        The names of the guards that stand.
    """
    active = []
    if guards.rlimits:
        active += _limit_resources(limits)
    if sys.platform != "linux":
        return tuple(active)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        active.append("no_new_privs")
        if _drop_capabilities(libc):
            active.append("no capabilities")
        if guards.landlock and (abi := _landlock(libc, folders)):
            active.append(f"landlock (version {abi})")
        if guards.seccomp and _seccomp(libc):
            active.append("seccomp")
    return tuple(active)


def limit_cpu(seconds: float) -> None:
    """End this process once it has used `seconds` more of processor time, whatever it is doing.

    The last resort for a worker that hangs after its parent has died.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _limit_resources(limits: Limits) -> list[str]:
    wanted = {
        "core dumps": (resource.RLIMIT_CORE, 0),
        "file size": (resource.RLIMIT_FSIZE, 0),
        "descriptors": (resource.RLIMIT_NOFILE, _DESCRIPTORS),
    }
    statm = Path("/proc/self/statm")
    if statm.exists():
        now = int(statm.read_text().split()[0]) * resource.getpagesize()
        wanted["address space"] = (resource.RLIMIT_AS, now + limits.address_space_bytes)
    for kind, value in wanted.values():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    return [f"rlimit {name}" for name in wanted]


def _drop_capabilities(libc: ctypes.CDLL) -> bool:
    """Give up root's powers, e.g. to raise limits, but for reading files that belong to others."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(24)
    if libc.capget(header, held) != 0:
        return False
    effective, permitted, _, *_rest = struct.unpack("=6I", held.raw)
    keep = _CAP_READING
    return bool(libc.capset(header, struct.pack("=6I", effective & keep, permitted & keep, 0, 0, 0, 0)) == 0)


def _landlock(libc: ctypes.CDLL, folders: Iterable[Path]) -> int:
    """Restrict this thread and those it starts; the version of Landlock, or 0 where there is none."""
    abi = int(libc.syscall(_LANDLOCK_CREATE, None, 0, 1))
    if abi < 1:
        return 0
    rights = (1 << _FS_RIGHTS_BY_ABI.get(abi, 16)) - 1
    network = 0b11 if abi >= 4 else 0
    scopes = 0b11 if abi >= 6 else 0
    attributes = struct.pack("=QQQ", rights, network, scopes)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = int(libc.syscall(_LANDLOCK_CREATE, attributes, size, 0))
    if ruleset < 0:
        return 0
    try:
        for path in [*folders, *_python_folders(), *map(Path, _MEMORY_FILES)]:
            if path.exists():
                _allow_reading(libc, ruleset, path)
        return abi if libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)


def _python_folders() -> list[Path]:
    """What the interpreter may still have to import or read: its libraries, this package, the time zones."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {Path(sysconfig.get_path(name)).resolve() for name in names}
    package = Path(__file__).resolve().parents[1]
    return [*folders, package, Path("/usr/share/zoneinfo")]


def _allow_reading(libc: ctypes.CDLL, ruleset: int, path: Path) -> None:
    rights = _READ_FILE | _READ_DIR if path.is_dir() else _READ_FILE
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        libc.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)


def _seccomp(libc: ctypes.CDLL) -> bool:
    """Install the filter on this thread and those it starts; false where it is not available."""
    if platform.machine() != "x86_64":
        return False
    denied = sorted({call for calls in _DENIED_CALLS.values() for call in calls})
    program = [
        _op(_LOAD, 4),  # the architecture
        _op(_EQUAL, _ARCH_X86_64, yes=1),
        _op(_RETURN, _EPERM),
        _op(_LOAD, 0),  # the call's number
        _op(_AT_LEAST, 0x40000000, no=1),  # the x32 calls
        _op(_RETURN, _EPERM),
        _op(_EQUAL, _CLONE3, no=1),
        _op(_RETURN, _ENOSYS),  # so that the C library starts threads with clone
        *_only_if(_CLONE, argument=0, bits=_CLONE_THREAD, wanted=True),
        *_only_if(_OPEN, argument=1, bits=_WRITING, wanted=False),
        *_only_if(_OPENAT, argument=2, bits=_WRITING, wanted=False),
    ]
    for call in denied:
        program += [_op(_EQUAL, call, no=1), _op(_RETURN, _EPERM)]
    program.append(_op(_RETURN, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    return bool(libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0) == 0)


def _only_if(call: int, *, argument: int, bits: int, wanted: bool) -> list[bytes]:
    """Allow a call only if any of the bits of its argument is set (`wanted`), or only if none is."""
    return [
        _op(_EQUAL, call, no=4),
        _op(_LOAD, 16 + 8 * argument),
        _op(_ANY_BIT, bits, yes=int(wanted), no=int(not wanted)),
        _op(_RETURN, _EPERM),
        _op(_RETURN, _ALLOW),
    ]


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One instruction: code, jump if true, jump if false, operand."""
    return struct.pack("=HBBI", code, yes, no, value)

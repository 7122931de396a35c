"""What a sandbox is asked for: its limits, its jobs, and the guards that stand.

In: nothing. Out: frozen dataclasses that parent and worker share. Not here: any enforcement.
"""

from __future__ import annotations

from dataclasses import dataclass

from text2sql_rl.records import Instance


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may use.

    Args:
        timeout_s: wall-clock seconds from parsing to the last fetched row; then it is interrupted. On a machine so busy
            that the worker got less than half of them in processor time, it is given more, up to `patience_s`.
        grace_s: seconds after the deadline until a worker that ignores the interrupt is killed.
        memory_mb: megabytes (10^6 bytes) DuckDB's operators may hold. The address space of the worker, which also
            bounds scalar functions and planning, is capped at what it has when ready plus twice this plus 512 MB.
        max_rows: rows of a result; one more is TOO_LARGE.
        max_bytes: bytes of an encoded result; one more is TOO_LARGE.
        max_sql_chars: characters of a statement; one more is REFUSED.
    """

    timeout_s: float = 2.0
    grace_s: float = 0.5
    memory_mb: int = 512
    max_rows: int = 20_000
    max_bytes: int = 16 << 20
    max_sql_chars: int = 20_000

    @property
    def processor_s(self) -> float:
        """Processor seconds without which a statement is not ended at `timeout_s`."""
        return self.timeout_s / 2

    @property
    def patience_s(self) -> float:
        """Wall-clock seconds after which a statement is ended however little the machine let it run."""
        return 5 * self.timeout_s

    @property
    def address_space_bytes(self) -> int:
        """What a worker may take beyond what it has when ready: room for operators, values and Python's rows."""
        return 2 * self.memory_mb * 10**6 + (512 << 20)


@dataclass(frozen=True, slots=True)
class Job:
    """One statement to run on one instance."""

    instance: Instance
    sql: str


@dataclass(frozen=True, slots=True)
class Guards:
    """Which layers stand. All of them, always, except in the tests that prove each layer alone.

    Args:
        gate: DuckDB's own parse tree decides what may run.
        second_look: sqlglot's tree may refuse as well.
        engine: external access off, file systems disabled, configuration locked, no spilling, read-only.
        interrupt: the worker interrupts at the deadline (off: it hangs until the parent kills it).
        rlimits: the operating system's limits on address space, files, core dumps.
        landlock: the kernel lets the worker read only the databases' folders and write nowhere.
        seccomp: the kernel refuses network, new processes and changes to files.
    """

    gate: bool = True
    second_look: bool = True
    engine: bool = True
    interrupt: bool = True
    rlimits: bool = True
    landlock: bool = True
    seccomp: bool = True


ONE_THREAD: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "async_threads": 0, "pin_threads": "off"}
"""DuckDB's settings for one thread in all: the order of rows is reproducible, and no stacks fill the address space."""

DEFAULT_LIMITS = Limits()
ALL_GUARDS = Guards()

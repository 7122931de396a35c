"""Everything this package raises on purpose.

    Text2SqlError                 one line for the user: what is wrong, where, and the fix
    ├── ConfigError               a config or rule file: unknown key, wrong value, missing file
    ├── DataError                 a question set or a database: malformed, missing, in two splits
    │   └── LeakError             held-out material where training would touch it
    ├── GoldError                 a gold that does not run or cannot judge
    ├── SandboxError              the verifier itself cannot work (not a candidate's failure)
    ├── PolicyError               a model that cannot be loaded or does not fit its prompts
    └── RunError                  a run folder: unwritable, of another config, corrupt; too little disk

In: nothing. Out: exceptions whose text is complete for a user. A candidate that fails is never an exception:
it is an `Execution` with a named outcome.
"""

from __future__ import annotations

from pathlib import Path


class Text2SqlError(Exception):
    """One clear line: the file, the field, the problem and the fix.

    Args:
        problem: what is wrong, in words.
        file: the file concerned, when there is one.
        field: the key, line or column in that file.
        fix: what the user can do about it.
    """

    def __init__(self, problem: str, *, file: str | Path | None = None, field: str = "", fix: str = "") -> None:
        place = ": ".join(str(part) for part in (file, field) if part)
        text = f"{place}: {problem}" if place else problem
        super().__init__(f"{text}. {fix}" if fix else text)
        self.problem, self.file, self.field, self.fix = problem, file, field, fix


class ConfigError(Text2SqlError):
    """A config or rule file cannot be used."""


class DataError(Text2SqlError):
    """A question set or a database cannot be used."""


class LeakError(DataError):
    """Held-out material stands where training would touch it."""


class GoldError(Text2SqlError):
    """A gold does not run, or cannot judge anything."""


class SandboxError(Text2SqlError):
    """The verifier itself cannot work."""


class PolicyError(Text2SqlError):
    """A model cannot be loaded, or does not fit its prompts."""


class RunError(Text2SqlError):
    """A run folder cannot be used."""

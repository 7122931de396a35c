"""The door of rewards/rules: a rule's name or path -> a checked `Rule`.

In: NAME of rewards/rules/NAME.yaml, or the path of any rule file. Out: a `Rule` that holds its invariants, or a
`ConfigError` that names the file, the field and the fix. Not here: computing rewards (total.py).
A file that rewards/rules/LOCK lists is released: it loads only while its bytes are those that were released.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import yaml
from pydantic import ValidationError

from text2sql_rl.config import YAML_FAULTS, UniqueKeys, content_root
from text2sql_rl.errors import ConfigError
from text2sql_rl.scoring.invariants import broken
from text2sql_rl.scoring.model import Rule

DEFAULT_RULE = "bound-v1"


class State(StrEnum):
    """Whether a rule file is released: LOCK lists it, and it still has those bytes."""

    RELEASED = "released"
    CHANGED = "changed"
    UNRELEASED = "unreleased"


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A rule as its file says it, not yet held against the invariants."""

    path: Path
    state: State
    rule: Rule


def rules_folder() -> Path:
    """Where the rule files lie."""
    return content_root() / "rewards" / "rules"


def rule_names() -> tuple[str, ...]:
    """Names of all rule files of rewards/rules, in order."""
    return tuple(sorted(path.stem for path in rules_folder().glob("*.yaml")))


def load_rule(name_or_path: str) -> Rule:
    """Load and check a rule.

    A rule that breaks invariants loads only where its file says `deliberately_bad` and names in `breaks` exactly the
    invariants it breaks; that is logged as a warning, which without a handler goes to stderr. A released file without
    `breaks` is from before that key.

    Args:
        name_or_path: a name such as bound-v1, or the path of a YAML file.

    Raises:
        ConfigError: no such rule; not YAML; an unknown, missing or wrong key; a released file that was changed; or
            an invariant that the rule breaks and does not name, with the outcomes that show it.
    """
    file = read_rule(name_or_path)
    if file.state is State.CHANGED:
        fix = "Restore the file, and write the change as a new version"
        raise ConfigError("a released rule was changed", file=file.path, fix=fix)
    _refuse_breaches(file)
    if file.rule.deliberately_bad:
        warn_once(file.rule.name, file.rule.breaks)
    return file.rule


def read_rule(name_or_path: str) -> RuleFile:
    """Read a rule as its file says it, changed or unsound as it may be: for checking and replaying, not for judging.

    Raises:
        ConfigError: no such rule; not YAML; an unknown, missing or wrong key.
    """
    path = _path(name_or_path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the rule cannot be read: {error.strerror}", file=path) from error
    sha256 = hashlib.sha256(content).hexdigest()
    locked = _lock(path.parent / "LOCK").get(path.name)
    state = State.UNRELEASED if locked is None else State.RELEASED if locked == sha256 else State.CHANGED
    return RuleFile(path, state, _parsed(path, content, sha256))


def released() -> dict[str, str]:
    """File name -> sha256 of every released rule, as rewards/rules/LOCK lists them."""
    return _lock(rules_folder() / "LOCK")


def _path(name_or_path: str) -> Path:
    given = Path(name_or_path)
    if given.suffix in (".yaml", ".yml") or len(given.parts) > 1:
        return given
    path = rules_folder() / f"{name_or_path}.yaml"
    if name_or_path not in rule_names():
        fix = f"Use one of {', '.join(rule_names())}, or the path of a rule file"
        raise ConfigError(f"no rule named {name_or_path!r}", file=path, fix=fix)
    return path


def _lock(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        if len(line) != 2:
            raise ConfigError("not a sha256 and a file name", file=path, field=f"line {number}")
    return {name: sha256 for sha256, name in lines}


def _refuse_breaches(file: RuleFile) -> None:
    rule, found = file.rule, broken(file.rule)
    if not rule.deliberately_bad:
        for counterexample in found:
            fix = "Change the weights, or declare deliberately_bad, what it breaks and the reason"
            raise ConfigError(str(counterexample), file=file.path, fix=fix)
    elif rule.breaks or file.state is not State.RELEASED:
        broke, said = {one.invariant for one in found}, {str(name) for name in rule.breaks}
        if broke != said:
            problem = f"the rule breaks {_listed(broke)}, and its file says {_listed(said)}"
            raise ConfigError(problem, file=file.path, field="breaks", fix="Name exactly what it breaks")


@cache
def warn_once(name: str, breaks: tuple[str, ...]) -> None:
    """Tell that a rule is bad on purpose, once a process: a stage may load it several times."""
    what = ", ".join(breaks) or "what rules must hold"
    logging.getLogger(__name__).warning("warning: rule %s is deliberately bad: it breaks %s", name, what)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _parsed(path: Path, content: bytes, sha256: str) -> Rule:
    try:
        keys = yaml.load(content, UniqueKeys)
    except YAML_FAULTS as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}", file=path) from error
    if not isinstance(keys, dict):
        raise ConfigError("not a mapping of keys", file=path, fix="See rewards/README.md for the keys")
    for key in ("name", "sha256"):
        if key in keys:
            raise ConfigError("unknown key", file=path, field=key, fix=f"Remove it: the file itself gives the {key}")
    try:
        return Rule.model_validate({**keys, "name": path.stem, "sha256": sha256})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise ConfigError("unknown key", file=path, field=field, fix="Remove it, or correct its name") from error
        if first["type"] == "missing":
            raise ConfigError("the key is missing", file=path, field=field, fix="Add it") from error
        problem = first["msg"].removeprefix("Value error, ")
        raise ConfigError(problem, file=path, field=field, fix="See rewards/README.md for what it may hold") from error

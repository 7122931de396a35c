"""The door of rewards/rules: a rule's name or path -> a checked `Rule`.

In: NAME of rewards/rules/NAME.yaml, or the path of any rule file. Out: a `Rule` that holds its invariants, or a
`ConfigError` that names the file, the field and the fix. Not here: computing rewards (total.py).
A file that rewards/rules/LOCK lists is released: it loads only while its bytes are those that were released.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml
from pydantic import ValidationError

from text2sql_rl.config import UniqueKeys, content_root
from text2sql_rl.errors import ConfigError
from text2sql_rl.scoring.invariants import broken
from text2sql_rl.scoring.model import Rule

DEFAULT_RULE = "bound-v1"


def rules_folder() -> Path:
    """Where the rule files lie."""
    return content_root() / "rewards" / "rules"


def rule_names() -> tuple[str, ...]:
    """Names of all rule files of rewards/rules, in order."""
    return tuple(sorted(path.stem for path in rules_folder().glob("*.yaml")))


def load_rule(name_or_path: str) -> Rule:
    """Load and check a rule.

    Args:
        name_or_path: a name such as bound-v1, or the path of a YAML file.

    Raises:
        ConfigError: no such rule; not YAML; an unknown, missing or wrong key; a released file that was changed; or
            an invariant that the rule breaks, with the two outcomes that show it.
    """
    path = _path(name_or_path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the rule cannot be read: {error.strerror}", file=path) from error
    sha256 = hashlib.sha256(content).hexdigest()
    _refuse_changed(path, sha256)
    rule = _parsed(path, content, sha256)
    if not rule.deliberately_bad:
        for counterexample in broken(rule):
            fix = "Change the weights, or declare deliberately_bad with a reason"
            raise ConfigError(counterexample, file=path, fix=fix)
    return rule


def released() -> dict[str, str]:
    """File name -> sha256 of every released rule, as rewards/rules/LOCK lists them."""
    return _lock(rules_folder() / "LOCK")


def _path(name_or_path: str) -> Path:
    given = Path(name_or_path)
    if given.suffix in (".yaml", ".yml") or len(given.parts) > 1:
        return given
    path = rules_folder() / f"{name_or_path}.yaml"
    if not path.is_file():
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


def _refuse_changed(path: Path, sha256: str) -> None:
    if _lock(path.parent / "LOCK").get(path.name, sha256) != sha256:
        fix = "Restore the file, and write the change as a new version"
        raise ConfigError("a released rule was changed", file=path, fix=fix)


def _parsed(path: Path, content: bytes, sha256: str) -> Rule:
    try:
        keys = yaml.load(content, UniqueKeys)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
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

"""Configs: the shipped ones load, and every way to get one wrong is one line that names file, field and fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_config import CONTENT, write_config
from text2sql_rl.config import PretrainedPolicy, RunConfig, ScratchPolicy, load_config
from text2sql_rl.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = sorted((ROOT / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_config_loads_and_is_named_as_its_file(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    # The stage base refuses any other pair of policy and style.
    assert (config.prompt_style == "slot") == isinstance(config.policy, ScratchPolicy)
    assert load_config(path, ("seed=99",)) == config.model_copy(update={"seed": 99})


def test_a_resolved_config_reads_back_as_itself() -> None:
    for path in SHIPPED:
        config = load_config(path)
        assert RunConfig.model_validate(config.model_dump(mode="json")) == config


def test_both_kinds_of_policy_ship() -> None:
    assert {type(load_config(path).policy) for path in SHIPPED} == {ScratchPolicy, PretrainedPolicy}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sede": 3}, "tiny.yaml: sede: unknown key. Remove it or correct its spelling."),
        ({"control": {"stepz": 1, "learning_rate": 0.1}}, "tiny.yaml: control.stepz: unknown key. Is it steps?"),
        ({"control": {"steps": 1}}, "control.learning_rate: the key is missing. Add it; configs/demo.yaml shows one."),
        ({"seed": "many"}, "tiny.yaml: seed: input should be a valid integer"),
        ({"seed": -1}, "tiny.yaml: seed: input should be greater than or equal to 0"),
        ({"policy": {"kind": "moon"}}, "policy.kind: is neither scratch nor pretrained. Set it to one of them."),
        ({"policy": {"model": "x"}}, "policy.kind: is neither scratch nor pretrained. Set it to one of them."),
        ({"policy": {**CONTENT["policy"], "heads": 3}}, "policy.heads: hidden_size 16 is no even multiple of 3 heads"),
        ({"policy": {**CONTENT["policy"], "heads": 16}}, "policy.heads: hidden_size 16 is no even multiple of 16"),
        ({"seed": 2**32}, "tiny.yaml: seed: input should be less than 4294967296"),
        ({"name": "a" * 101}, ".yaml: name: string should have at most 100 characters"),
        ({"evaluate": {**CONTENT["evaluate"], "limit": 0}}, "evaluate.limit: input should be greater than or equal"),
        ({"evaluate": {**CONTENT["evaluate"], "roles": []}}, "evaluate.roles: tuple should have at least 1 item"),
        ({"evaluate": {**CONTENT["evaluate"], "roles": ["dev", "dev"]}}, "roles: a question set is named twice"),
        ({"judge": {"rule": "bound-v1", "timeout_s": float("inf")}}, "timeout_s: input should be a finite number"),
        ({"difficulty": {**CONTENT["difficulty"], "high": 0}}, "high: no rate lies between low 0 and high 0"),
    ],
)  # fmt: skip
def test_a_wrong_value_names_file_field_and_fix(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write_config(tmp_path, **changes))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no keys. Start from configs/demo.yaml."),
        ("- 1\n", "holds no keys"),
        ("name: [x\n", "is not YAML"),
        ("note: 2020-13-45\n", "is not YAML (month must be in 1..12"),
        (f"a: {'[' * 3000}", "is not YAML"),
        ("name: a\nname: b\n", "the key 'name' is there twice"),
        ("sft:\n  steps: 1\n  steps: 2\n", "the key 'steps' is there twice"),
    ],
)
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"c\.yaml") as caught:
        load_config(path)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("seed", "override 'seed' has no '='. Write it as key.key=value."),
        ("seed=[1", "seed: override 'seed=[1' is not YAML"),
        ("moon.phase=1", "moon.phase: there is no such section to override"),
        ("sft.stepz=1", "sft.stepz: unknown key"),
        ("name=A/b", "name: string should match pattern"),
    ],
)
def test_a_wrong_override_is_refused(tmp_path: Path, override: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write_config(tmp_path), (override,))
    assert told in str(caught.value)

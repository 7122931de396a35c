"""Export: a merged adapter answers as the adapter does, other checkpoints stay as they are, nothing is left half."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
from typer.testing import CliRunner

from tests.learn import tiny
from tests.learn.test_lora import write_pretrained
from tests.learn.tiny import same, weights
from text2sql_rl.cli import app
from text2sql_rl.errors import PolicyError, RunError
from text2sql_rl.learn.checkpoints import load, load_style, save_model
from text2sql_rl.learn.export import export, find_checkpoint
from text2sql_rl.policy.hf import Policy
from text2sql_rl.prompts.ddl import DdlStyle

pytestmark = tiny.THIRD_PARTY


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_pretrained(folder, ["CREATE TABLE horse (id INTEGER, name VARCHAR)", "SELECT name FROM horse"])
    return folder


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter that has learned something: its second matrices are no longer zero."""
    policy = Policy(base)
    model: Any = get_peft_model(policy.model, LoraConfig(r=2, lora_alpha=8, task_type="CAUSAL_LM"))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.5)
    folder = tmp_path_factory.mktemp("run") / "stages" / "grpo" / "checkpoint"
    folder.parent.mkdir(parents=True)
    save_model(model, policy.tokenizer, DdlStyle(), folder)
    return folder


def scores(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found = model(input_ids=torch.arange(3, 40)[None]).logits
    assert isinstance(found, torch.Tensor)
    return found


def test_a_merged_adapter_is_a_plain_model_that_scores_as_the_adapter_does(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    done = export(adapter, tmp_path / "new" / "plain")
    plain: Any = AutoModelForCausalLM.from_pretrained(done.folder)
    assert type(plain) is LlamaForCausalLM
    assert (done.merged, done.dtype, done.weights) == (True, "float32", sum(p.numel() for p in plain.parameters()))
    expected, untrained = scores(load(adapter, "float32")[0].model), scores(Policy(base).model)
    assert torch.allclose(scores(plain), expected, atol=1e-5)
    assert not torch.allclose(expected, untrained, atol=1e-2)
    names = {path.name for path in done.folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "prompt_style.json"} <= names
    assert not any("adapter" in name for name in names)


def test_the_tokenizer_template_and_style_go_along(adapter: Path, base: Path, tmp_path: Path) -> None:
    export(adapter, tmp_path / "plain")
    chat = [{"role": "user", "content": "SELECT name FROM horse"}]
    one, other = (AutoTokenizer.from_pretrained(folder) for folder in (tmp_path / "plain", base))
    assert one.apply_chat_template(chat, tokenize=False) == other.apply_chat_template(chat, tokenize=False)
    assert one("SELECT name")["input_ids"] == other("SELECT name")["input_ids"]
    assert load_style(tmp_path / "plain").name == "ddl"
    policy, _ = load(tmp_path / "plain", "float32")  # what `score --model` does
    assert policy.tokenizer.pad_token_id is not None


def test_a_base_model_in_half_precision_gives_a_model_in_half_precision(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    half = tmp_path / "half"
    Policy(base, "bfloat16").model.save_pretrained(half)
    Policy(base).tokenizer.save_pretrained(half)
    moved = Path(shutil.copytree(adapter, tmp_path / "adapter"))
    settings = moved / "adapter_config.json"
    settings.write_text(settings.read_text().replace(str(base), str(half)))
    assert export(moved, tmp_path / "plain").dtype == "bfloat16"
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "plain").dtype is torch.bfloat16


def test_a_checkpoint_with_all_weights_stays_as_it_is(model_folder: Path, tmp_path: Path) -> None:
    done = export(model_folder, tmp_path / "plain")
    assert not done.merged
    assert same(weights(Policy(tmp_path / "plain").model), weights(Policy(model_folder).model))


def test_a_base_that_is_only_a_name_is_the_named_model(base: Path, tmp_path: Path) -> None:
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "model_name.txt").write_text(str(base))
    export(tmp_path / "named", tmp_path / "plain")
    assert same(weights(Policy(tmp_path / "plain").model), weights(Policy(base).model))


def test_what_exists_is_not_touched(adapter: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    (tmp_path / "empty").mkdir()
    for name in ("kept", "empty"):
        with pytest.raises(RunError, match="exists already"):
            export(adapter, tmp_path / name)
    assert (tmp_path / "kept").read_text() == "mine"


def test_a_failure_leaves_nothing_and_a_killed_attempt_is_cleared(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise tiny.Killed

    monkeypatch.setattr("text2sql_rl.learn.export.save_style", fail)
    with pytest.raises(tiny.Killed):
        export(adapter, tmp_path / "plain")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    (tmp_path / ".plain.partial").mkdir()
    (tmp_path / ".plain.partial" / "rest").write_text("of a killed attempt")
    export(adapter, tmp_path / "plain")
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]
    assert not (tmp_path / "plain" / "rest").exists()


def test_a_lost_base_model_and_broken_weights_are_told(adapter: Path, base: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(adapter, tmp_path / "adapter"))
    settings = moved / "adapter_config.json"
    settings.write_text(settings.read_text().replace(str(base), str(tmp_path / "gone")))
    with pytest.raises(PolicyError, match="gone"):
        export(moved, tmp_path / "plain")
    settings.write_text("{}")
    with pytest.raises(PolicyError, match="names no base model"):
        export(moved, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


def test_a_run_or_a_stage_names_its_checkpoint(adapter: Path, tmp_path: Path) -> None:
    run = adapter.parent.parent.parent
    for name in (str(run), f"{run}:grpo", str(adapter.parent), str(adapter)):
        assert find_checkpoint(name) == adapter
    with pytest.raises(RunError, match="holds no checkpoint"):
        find_checkpoint(f"{run}:sft")
    told = CliRunner().invoke(app, ["export", str(run), "--out", str(tmp_path / "plain")])
    assert told.exit_code == 0
    assert f"from {adapter}, its adapter merged" in told.output

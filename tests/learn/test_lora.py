"""A pretrained model by its folder, a chat, adapters: base, sft, and what continues them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import torch
from peft import PeftModel
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.learn import tiny
from tests.learn.test_stages import CONFIG, open_run
from tests.learn.tiny import Killed, ScriptedJudge, same, weights
from text2sql_rl.config import RunConfig
from text2sql_rl.content import Content
from text2sql_rl.errors import PolicyError
from text2sql_rl.group import AdvantageRule
from text2sql_rl.learn import pairs, reinforce, stages, trainer
from text2sql_rl.learn.asking import GroupJudge
from text2sql_rl.learn.checkpoints import load
from text2sql_rl.learn.grpo import make_trainer
from text2sql_rl.policy.hf import Policy, encode
from text2sql_rl.prompts.ddl import DdlStyle
from text2sql_rl.rollout_log import read_rollouts, write_groups
from text2sql_rl.runs import RunFolder

pytestmark = tiny.THIRD_PARTY
TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
SPECIAL = ("<|pad|>", "<|start|>", "<|end|>")
CHAIN = ("base", "sft", "difficulty", "warmup", "difficulty_warm", "grpo", "control")


def write_pretrained(folder: Path, texts: list[str]) -> None:
    """A tiny chat model with random weights and byte-pair tokens."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    words.train_from_iterator(texts, trainer)
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<|pad|>", eos_token="<|end|>")  # type: ignore[no-untyped-call]
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=512,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=2,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def pretrained(content: Content, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, style = tmp_path_factory.mktemp("pretrained"), DdlStyle()
    write_pretrained(folder, [style.prompt(*pair).text for pair in tiny.items(content, "rl")])
    return folder


@pytest.fixture(scope="module")
def asked() -> Iterator[list[list[int]]]:
    """The prompts that GRPO sampled from; right and wrong are given by chance, so that groups teach."""
    seen: list[list[int]] = []
    sample_ids = trainer.sample_ids

    def note(model: Any, tokenizer: Any, prompts: Any, **how: Any) -> Any:
        seen.extend(list(ids) for ids in prompts)
        return sample_ids(model, tokenizer, prompts, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "sample_ids", note)
        patch.setattr(stages, "open_judge", lambda _: ScriptedJudge())
        yield seen


@pytest.fixture(scope="module")
def run(root: Path, pretrained: Path, asked: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    lora = {"rank": 2, "alpha": 4}
    policy = {"kind": "pretrained", "model": str(pretrained), "dtype": "float32", "lora": lora}
    sampling = {"max_prompt_tokens": 300, "max_completion_tokens": 8, "batch": 64}
    # A scripted judge pays canaries as it pays anything.
    often = {"steps": 4, "save_every": 2, "canaries": None}
    settings = {**CONFIG["grpo"], "generations": 4, "learning_rate": 0.01, "beta": 0.1, **often}
    config, folder = open_run(
        root, tmp_path_factory.mktemp("runs"), prompt_style="ddl", policy=policy, sampling=sampling, grpo=settings
    )
    for name in CHAIN:
        getattr(stages, name)(config, folder)
    return folder


def adapters(policy: Policy) -> dict[str, Any]:
    return {name: value for name, value in weights(policy.model).items() if "lora_" in name and ".ref." not in name}


def others(policy: Policy) -> dict[str, Any]:
    return {name: value for name, value in weights(policy.model).items() if "lora_" not in name}


def test_the_base_is_the_model_by_its_name(run: RunFolder, pretrained: Path) -> None:
    policy, style = load(run.stage("base").path / "checkpoint", "float32")
    assert style.name == "ddl"
    assert same(weights(policy.model), weights(Policy(pretrained).model))


@pytest.mark.parametrize("name", ["sft", "warmup", "grpo", "control"])
def test_a_checkpoint_is_an_adapter_that_loads_again(run: RunFolder, pretrained: Path, name: str) -> None:
    folder = run.stage(name).path / "checkpoint"
    assert not (folder / "model.safetensors").exists()
    assert not (folder / "ref").exists()  # what GRPO's penalty refers to is no part of the policy
    policy, style = load(folder, "float32")
    assert style.name == "ddl"
    assert isinstance(policy.model, PeftModel)
    trainable = {key for key, weight in policy.model.named_parameters() if weight.requires_grad}
    assert trainable == set(adapters(policy))
    base = {f"base_model.model.{key}": value for key, value in weights(Policy(pretrained).model).items()}
    kept = {key.replace(".base_layer", ""): value for key, value in others(policy).items()}
    assert same(base, kept)


@pytest.mark.parametrize(("name", "before"), [("warmup", "sft"), ("grpo", "warmup"), ("control", "sft")])
def test_each_stage_goes_on_with_the_adapter_of_the_one_before(run: RunFolder, name: str, before: str) -> None:
    old, new = (adapters(load(run.stage(one).path / "checkpoint", "float32")[0]) for one in (before, name))
    assert old.keys() == new.keys()
    assert not same(old, new)
    assert any(value.abs().max() > 0 for key, value in old.items() if "lora_B" in key)


def test_grpos_reference_is_the_adapter_it_started_from(run: RunFolder) -> None:
    penalties = [(row["kl"], row["kl_k3"]) for row in run.stage("grpo").metrics() if "kl" in row]
    assert penalties[0] == pytest.approx((0.0, 0.0), abs=1e-6)  # not the base model, which SFT has left behind
    assert min(penalties[-1]) > 0


def test_a_frozen_policy_is_refused(content: Content, pretrained: Path, tmp_path: Path) -> None:
    policy, tasks = Policy(pretrained), tiny.tasks(content, 8)
    policy.model.requires_grad_(False)
    judge: Any = ScriptedJudge()
    grouped = GroupJudge(tasks, judge, policy, tiny.style(), AdvantageRule(), 4)
    with pytest.raises(PolicyError, match="nothing of the policy is trainable"):
        make_trainer(policy, tasks, grouped, tiny.grpo_settings(), tiny.LIMITS, tmp_path, seed=1)


def test_grpo_asks_exactly_what_sampling_and_fine_tuning_ask(
    run: RunFolder, asked: list[list[int]], content: Content, pretrained: Path
) -> None:
    tokenizer, style = Policy(pretrained).tokenizer, DdlStyle()
    prompts = encode(tokenizer, [style.prompt(*pair) for pair in tiny.items(content, "rl")], 300)
    assert len(asked) >= 4 * 2
    assert all(ids in prompts for ids in asked)
    assert tokenizer.decode(prompts[0]).startswith("<|start|>user\nCREATE TABLE horse")
    assert tokenizer.decode(prompts[0]).endswith("<|end|>\n<|start|>assistant\n")


def test_a_fine_tuned_answer_ends_the_turn(content: Content, pretrained: Path) -> None:
    tokenizer, style = Policy(pretrained).tokenizer, DdlStyle()
    question, database = tiny.items(content, "sft")[0]
    given = pairs.Pair(question, database, question.gold_sql)
    (row,) = pairs.build_rows(
        [given], style, tokenizer, rows=1, batch=1, longest=300, seed=1, augment=True, curriculum=True
    ).to_list()
    answer = [token for token in row["labels"] if token != -100]
    assert tokenizer.decode(answer) == "```sql\nSELECT COUNT(*) FROM horse\n```<|end|>"
    chat = [
        {"role": "user", "content": style.prompt(question, database).text},
        {"role": "assistant", "content": "```sql\nSELECT COUNT(*) FROM horse\n```"},
    ]
    assert tokenizer.decode(row["input_ids"]) == tokenizer.apply_chat_template(chat, tokenize=False).rstrip("\n")


def test_a_model_without_a_template_reads_plain_text(content: Content, pretrained: Path) -> None:
    tokenizer, style = Policy(pretrained).tokenizer, DdlStyle()
    tokenizer.chat_template = None
    prompt = style.prompt(*tiny.items(content, "sft")[0])
    assert tokenizer.decode(encode(tokenizer, [prompt], 300)[0]) == f"{prompt.text}\n"


def test_a_killed_run_goes_on_with_its_adapter(run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig.model_validate(run.read()["config"])
    other = RunFolder(tmp_path / run.name)
    shutil.copytree(run.path, other.path)
    folder = other.stage("grpo").path
    shutil.rmtree(folder)

    def write(path: Path, groups: Any, lineage: Any, *, step: int, updates: Any) -> None:
        if step == 4:
            raise Killed
        write_groups(path, groups, lineage, step=step, updates=updates)

    monkeypatch.setattr(reinforce, "write_groups", write)
    with pytest.raises(Killed):
        stages.grpo(config, other)
    monkeypatch.undo()
    (folder / "lock").unlink()  # the system frees it when a process ends
    assert (folder / "trainer" / "checkpoint-2").is_dir()
    stages.grpo(config, other)
    assert other.stage("grpo").result() == run.stage("grpo").result()
    logs = [read_rollouts(one.stage("grpo").path / "rollouts") for one in (run, other)]
    assert len(logs[0]) == 4 * 2 * 4
    assert [(row.step, row.raw) for row in logs[0]] == [(row.step, row.raw) for row in logs[1]]
    ours, theirs = (adapters(load(one.stage("grpo").path / "checkpoint", "float32")[0]) for one in (run, other))
    assert same(ours, theirs)

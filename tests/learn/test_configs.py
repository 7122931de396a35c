"""The shipped configs of pretrained models: they agree with each other, and their whole chain runs on a tiny Qwen2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the [train] extra is not installed")

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.learn import tiny
from tests.learn.test_lora import write_pretrained
from tests.learn.tiny import REPOSITORY, ScriptedJudge
from text2sql_rl.config import PretrainedPolicy, RunConfig, load_config
from text2sql_rl.content import Content
from text2sql_rl.errors import ConfigError, DataError, PolicyError
from text2sql_rl.learn import stages
from text2sql_rl.learn.checkpoints import load
from text2sql_rl.learn.equipment import refuse_misfit
from text2sql_rl.learn.material import fitting
from text2sql_rl.policy.hf import Loading, Policy, token_counter, token_ids
from text2sql_rl.prompts import SchemaStyle, make_style
from text2sql_rl.runs import RunFolder

# trl 1.16 switches activation checkpointing off and on around sampling by the old names.
OLD_NAMES = "ignore:`gradient_checkpointing_(en|dis)able` is deprecated:FutureWarning"
pytestmark = [*tiny.THIRD_PARTY, pytest.mark.filterwarnings(OLD_NAMES)]
SIZES = ("0.5b", "1.5b", "7b")
# What a machine of eight GPUs may do otherwise than one GPU.
OF_THE_MACHINE = {
    "name",
    "note",
    "policy.dtype",
    "policy.attention",
    "sampling.batch",
    "grpo.questions_per_step",
    "grpo.micro_batch",
}
# Few and small steps, on a machine without a GPU; everything else is as shipped.
SMALL = (
    "sampling.max_completion_tokens=8",
    "sampling.batch=16",
    "judge.workers=1",
    "sft.steps=2",
    "sft.batch=2",
    "sft.eval_every=1",
    "difficulty.questions=3",
    "difficulty.samples=2",
    "difficulty.low=-1",
    "difficulty.high=1",
    "grpo.steps=2",
    "grpo.questions_per_step=2",
    "grpo.generations=4",
    "grpo.save_every=1",
    "grpo.canaries=null",
    "evaluate.roles=[heldout]",
)


def shipped(name: str, *overrides: str) -> RunConfig:
    return load_config(REPOSITORY / "configs" / f"{name}.yaml", overrides)


def fields(config: RunConfig) -> dict[str, Any]:
    """Its fields by dotted name."""
    found: dict[str, Any] = {}
    for key, value in config.model_dump(mode="json").items():
        found |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return found


def differing(one: RunConfig, other: RunConfig) -> set[str]:
    first, second = fields(one), fields(other)
    return {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}


@pytest.mark.parametrize("size", SIZES)
def test_eight_gpus_train_what_one_trains(size: str) -> None:
    one, eight = (shipped(f"qwen2.5-coder-{size}{suffix}") for suffix in ("", "-8gpu"))
    stages_of_one = {key for key in differing(one, eight) if key.startswith(("warmup", "control"))}
    assert differing(one, eight) - stages_of_one <= OF_THE_MACHINE
    assert eight.grpo.questions_per_step % 8 == 0


def test_all_sizes_are_asked_and_judged_alike() -> None:
    configs = [shipped(f"qwen2.5-coder-{size}") for size in SIZES]
    assert len({(c.prompt_style, c.sampling.max_prompt_tokens, c.sampling.max_completion_tokens) for c in configs}) == 1
    assert len({(c.judge, c.evaluate, c.grpo.advantage, c.difficulty) for c in configs}) == 1
    policies = [config.policy for config in configs if isinstance(config.policy, PretrainedPolicy)]
    assert [policy.model.lower() for policy in policies] == [f"qwen/qwen2.5-coder-{size}-instruct" for size in SIZES]
    assert [policy.dtype for policy in policies] == ["bfloat16", "bfloat16", "nf4"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_this_machine_lacks_is_told_before_anything_is_loaded() -> None:
    with pytest.raises(PolicyError, match=r"policy\.dtype: nf4 needs a GPU that torch can use.*bfloat16"):
        refuse_misfit(shipped("qwen2.5-coder-7b"))
    with pytest.raises(PolicyError, match=r"policy\.attention: flash_attention_2 needs a GPU.*sdpa"):
        refuse_misfit(shipped("qwen2.5-coder-7b-8gpu"))
    with pytest.raises(ConfigError, match=r"policy\.dtype: weights of 4 bits cannot be trained; add lora"):
        shipped("qwen2.5-coder-7b", "policy.lora=null")
    with pytest.raises(ConfigError, match=r"cannot read prompt style slot\. Set it to ddl or compact"):
        refuse_misfit(shipped("smollm2-cpu", "prompt_style=slot"))


@pytest.fixture(scope="module")
def qwen(content: Content, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2 of two layers with random weights, the tokenizer and chat template of the tiny Llama."""
    folder, style = tmp_path_factory.mktemp("qwen"), make_style("ddl")
    write_pretrained(folder, [style.prompt(*pair).text for pair in tiny.items(content, "rl")])
    torch.manual_seed(0)
    Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=400,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=2048,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=2,
        )
    ).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("qwen2.5-coder-1.5b", ("policy.attention=eager",)),
        ("smollm2-cpu", ("sampling.max_prompt_tokens=160",)),
    ],
)
def test_the_chain_of_a_shipped_config_runs_on_a_tiny_model(
    root: Path, qwen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, more: tuple[str, ...]
) -> None:
    config = shipped(name, *SMALL, f"policy.model={qwen}", *more)
    assert isinstance(config.policy, PretrainedPolicy)
    run = RunFolder(tmp_path / config.name)
    run.create_or_open(config.model_dump(mode="json"))
    recomputed: list[bool] = []
    monkeypatch.setattr(stages, "open_judge", lambda _: ScriptedJudge())
    fine_tune = stages.fine_tune

    def note(policy: Any, *args: Any, **kwargs: Any) -> Any:
        result = fine_tune(policy, *args, **kwargs)
        recomputed.append(bool(policy.model.is_gradient_checkpointing))
        return result

    monkeypatch.setattr(stages, "fine_tune", note)
    for stage in ("base", "sft", "difficulty", "grpo"):
        getattr(stages, stage)(config, run)
    assert recomputed == [config.policy.gradient_checkpointing]
    policy, style = load(run.stage("grpo").path / "checkpoint", Loading("bfloat16", config.policy.attention))
    assert policy.model.dtype is torch.bfloat16
    assert policy.model.config._attn_implementation == config.policy.attention
    assert isinstance(style, SchemaStyle)
    assert (style.name, style.max_tokens) == (config.prompt_style, config.sampling.max_prompt_tokens)
    assert run.stage("grpo").result()["steps"] == 2


def test_recomputing_activations_changes_no_gradient(qwen: Path) -> None:
    grads = []
    for recompute in (False, True):
        policy = Policy(qwen, Loading("float32", "sdpa", recompute))
        policy.model.train()
        ids = torch.arange(3, 60).unsqueeze(0)
        policy.model(input_ids=ids, labels=ids).loss.backward()
        grads.append([weight.grad.clone() for weight in policy.model.parameters()])
    assert all(torch.allclose(one, other) for one, other in zip(*grads, strict=True))


def test_a_question_whose_prompt_does_not_fit_is_left_out_and_named(content: Content, qwen: Path) -> None:
    tokenizer, items = Policy(qwen).tokenizer, tiny.items(content, "rl")

    def limited(tokens: int) -> SchemaStyle:
        style = make_style("compact", max_tokens=tokens)
        assert isinstance(style, SchemaStyle)
        style.bind(token_counter(tokenizer))
        return style

    least = [len(ids) for ids in token_ids(tokenizer, [limited(16).prompt(*pair) for pair in items])]
    limit = min(least)
    kept, left = fitting(items, limited(limit), tokenizer, limit)
    assert left == [question.id for (question, _), length in zip(items, least, strict=True) if length > limit]
    assert [question.id for question, _ in kept] + left == sorted(
        [question.id for question, _ in items], key=left.count
    )
    assert left
    with pytest.raises(DataError, match=rf"no prompt fits: the shortest of 4 has {limit} tokens.*Raise it above 20"):
        fitting(items, limited(20), tokenizer, 20)

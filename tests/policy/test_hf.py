"""Sampling from a causal language model: shared prompts, greedy equality, finish reasons, errors."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the [train] extra is not installed")

from text2sql_rl.config import Sampling, ScratchPolicy  # noqa: E402
from text2sql_rl.errors import PolicyError  # noqa: E402
from text2sql_rl.extract import extract  # noqa: E402
from text2sql_rl.policy import hf  # noqa: E402
from text2sql_rl.policy.hf import Loading, Policy, encode, make_scratch, sample_ids  # noqa: E402
from text2sql_rl.prompts.slot import SlotStyle, placeholders  # noqa: E402
from text2sql_rl.records import Finish, Prompt  # noqa: E402

WORDS = ("how", "many", "SELECT", "FROM")
LIMITS = Sampling(max_prompt_tokens=30, max_completion_tokens=8, temperature=1.0, batch=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    size = ScratchPolicy(kind="scratch", hidden_size=32, layers=2, heads=2)
    make_scratch(size, [*placeholders(), *WORDS], 38, 3, path)
    return path


@pytest.fixture(scope="module")
def policy(folder: Path) -> Policy:
    return Policy(folder)


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt(question_id=str(number), style="slot", text=text) for number, text in enumerate(texts)]


TEXTS = ("how many W1 <sql>", "W1 C1 <i> <ask> how many how many W1 <sql>", "how W2 <sql>", "<sql>")


def test_greedy_with_a_shared_prompt_equals_plain_generate(policy: Policy) -> None:
    ids = [policy.tokenizer(text)["input_ids"] for text in TEXTS]
    shared = list(sample_ids(policy.model, policy.tokenizer, ids, samples=3, temperature=0.0, max_new_tokens=6))
    for alone, group in zip(ids, shared, strict=True):
        plain = policy.model.generate(torch.tensor([alone]), max_new_tokens=6, do_sample=False)[0, len(alone) :]
        assert group == [plain.tolist()] * 3


def test_sampling_frequencies_are_the_models(policy: Policy) -> None:
    ids = policy.tokenizer(TEXTS[0])["input_ids"]
    torch.manual_seed(0)
    (group,) = sample_ids(policy.model, policy.tokenizer, [ids], samples=4000, temperature=0.5, max_new_tokens=1)
    with torch.no_grad():
        expected = (policy.model(torch.tensor([ids])).logits[0, -1] / 0.5).softmax(-1)
    counts = torch.bincount(torch.tensor([tokens[0] for tokens in group]), minlength=len(expected)) / 4000
    assert (counts - expected).abs().max() < 0.02


def test_a_seed_repeats_and_order_is_kept(policy: Policy) -> None:
    style = SlotStyle(["how", "many"])
    first = policy.sample(prompts(*TEXTS), style, LIMITS, samples=2, seed=5)
    assert first == policy.sample(prompts(*TEXTS), style, LIMITS, samples=2, seed=5)
    assert first != policy.sample(prompts(*TEXTS), style, LIMITS, samples=2, seed=6)
    assert [[one.question_id for one in group] for group in first] == [["0"] * 2, ["1"] * 2, ["2"] * 2, ["3"] * 2]
    assert all(
        one.finish is Finish.LENGTH and one.tokens == 8 for group in first for one in group if "<eos>" not in one.raw
    )


def test_a_long_prompt_is_not_asked_and_not_cut(policy: Policy) -> None:
    sampled = policy.sample(prompts("how " * 31, "how"), SlotStyle([]), LIMITS, samples=2, seed=0)
    told = "not asked: the prompt has 31 tokens, more than max_prompt_tokens = 30"
    assert {one.text for one in sampled[0]} == {told}
    assert {(one.raw, one.tokens, one.finish) for one in sampled[0]} == {("", 0, Finish.STOP)}
    assert sampled[1][0].tokens > 0
    assert extract(sampled[0][0].text).sql is None
    with pytest.raises(PolicyError, match=r"question 0: the prompt has 31 tokens.*max_prompt_tokens = 30"):
        encode(policy.tokenizer, prompts("how " * 31), 30)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("loading", "told"),
    [
        (Loading("nf4"), "policy.dtype: nf4 needs a GPU that torch can use, and there is none. Set it to bfloat16."),
        (Loading(attention="flash_attention_2"), "policy.attention: flash_attention_2 needs a GPU"),
    ],
)
def test_what_this_machine_cannot_do_is_one_clear_error(folder: Path, loading: Loading, told: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy(folder, loading)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("loading", "package"),
    [(Loading("nf4"), "bitsandbytes"), (Loading(attention="flash_attention_2"), "flash-attn")],
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, loading: Loading, package: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(hf, "find_spec", lambda name: None)
    with pytest.raises(PolicyError, match=f"needs the package {package}"):
        loading.check()


def test_a_missing_model_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be loaded"):
        Policy(tmp_path / "nothing")


def test_a_turns_end_that_the_model_declares_ends_a_completion(folder: Path) -> None:
    policy = Policy(folder)
    many = policy.tokenizer.convert_tokens_to_ids("many")
    policy.model.generation_config.eos_token_id = [policy.tokenizer.eos_token_id, many]
    sampled = policy.sample(prompts(TEXTS[1]), SlotStyle(["how", "many"]), LIMITS, samples=200, seed=1)[0]
    ended = [one for one in sampled if "many" in one.raw.split()]
    assert ended
    assert all(one.raw.split().index("many") == len(one.raw.split()) - 1 for one in ended)
    assert {one.finish for one in ended} == {Finish.STOP}


def test_a_model_that_has_blown_up_is_one_clear_error(folder: Path) -> None:
    policy = Policy(folder)
    with torch.no_grad():
        policy.model.model.norm.weight[0] = float("nan")
    with pytest.raises(PolicyError, match="no numbers any more"):
        policy.sample(prompts(TEXTS[0]), SlotStyle([]), LIMITS, samples=1, seed=0)

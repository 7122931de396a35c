"""Causal language models: make one from scratch, load one by name or folder, sample from it.

In: prompts. Out: completions, each with its finish reason. All samples of one prompt share the prompt's pass through
the model. A prompt that does not fit is answered with nothing but the reason. Not here: training, judging, cutting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    DynamicCache,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from text2sql_rl.config import Sampling, ScratchPolicy
from text2sql_rl.errors import PolicyError
from text2sql_rl.policy.unasked import unasked
from text2sql_rl.prompts import Style
from text2sql_rl.records import Completion, Finish, Prompt

_SPECIAL = ("<pad>", "<eos>", "<unk>")
# Copying needs tokens that stay apart in the residual stream; with the usual 0.02 it is not learned (docs/lab-log.md).
_EMBEDDING_STD = 0.5
_NF4 = "nf4"


@dataclass(frozen=True, slots=True)
class Loading:
    """How a model is loaded: its weights' precision (or nf4), how it attends, whether activations are recomputed."""

    dtype: str = "float32"
    attention: str = "sdpa"
    gradient_checkpointing: bool = False

    def check(self) -> None:
        """Refuse what this machine cannot do.

        Raises:
            PolicyError: names the field and what is missing.
        """
        cuda = torch.cuda.is_available()
        needs = {"policy.dtype": (self.dtype == _NF4, self.dtype, "bitsandbytes"),
                 "policy.attention": (self.attention == "flash_attention_2", self.attention, "flash_attn")}  # fmt: skip
        for field, (asked, value, package) in needs.items():
            if asked and not cuda:
                raise PolicyError(f"{value} needs a GPU that torch can use, and there is none", field=field,
                                  fix=f"Set it to {'bfloat16' if value == _NF4 else 'sdpa'}.")  # fmt: skip
            if asked and find_spec(package) is None:
                raise PolicyError(f"{value} needs the package {package.replace('_', '-')}", field=field,
                                  fix="Install it with pip, or choose another value.")  # fmt: skip


def make_scratch(size: ScratchPolicy, tokens: Sequence[str], longest: int, seed: int, folder: Path) -> None:
    """Write a new, untrained Llama and its word-level tokenizer to `folder`, loadable like any other model.

    Args:
        size: width, depth and heads.
        tokens: the vocabulary beside the special tokens, without repeats.
        longest: most tokens of prompt and completion together.
        seed: of the initial weights.
        folder: where to write.
    """
    ids = {token: number for number, token in enumerate((*_SPECIAL, *tokens))}
    words = Tokenizer(WordLevel(ids, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(ids),
        hidden_size=size.hidden_size,
        intermediate_size=3 * size.hidden_size,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        max_position_embeddings=longest,
        tie_word_embeddings=True,
        initializer_range=size.hidden_size**-0.5,
        pad_token_id=ids["<pad>"],
        eos_token_id=ids["<eos>"],
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    embedding: Any = model.get_input_embeddings()
    torch.nn.init.normal_(embedding.weight, std=_EMBEDDING_STD)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Policy:
    """A model with its tokenizer.

    Args:
        name: Hugging Face name, or a folder that holds a model or a LoRA adapter.
        loading: how; or only the precision of the weights.

    Raises:
        PolicyError: it cannot be loaded, or not so on this machine.
    """

    def __init__(self, name: str | Path, loading: Loading | str = "float32") -> None:
        how = Loading(loading) if isinstance(loading, str) else loading
        how.check()
        cuda = torch.cuda.is_available()
        if cuda and "LOCAL_RANK" in os.environ:  # one process a GPU
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(str(name), padding_side="left")
            self.model: Any = _load(str(name), how)
        except (OSError, ValueError) as error:
            line = str(error).strip().splitlines()[0]
            raise PolicyError(f"the model cannot be loaded ({line})", file=name, fix="Check policy.model.") from error
        if cuda and how.dtype != _NF4:
            self.model = self.model.to("cuda")
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if how.gradient_checkpointing:
            self.model.activation_checkpointing_enable()
        self.model.eval()

    def sample(
        self,
        prompts: Sequence[Prompt],
        style: Style,
        limits: Sampling,
        *,
        samples: int,
        seed: int,
        temperature: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Completion]]:
        """Sample completions.

        Args:
            prompts: P prompts.
            style: their style; gives each completion its way back to SQL.
            limits: token limits, temperature and batch size.
            samples: G completions a prompt.
            seed: of the sampling; the same seed and batch give the same completions.
            temperature: overrides the limits' one; 0 is greedy.
            progress: called with the number of prompts done so far.

        Returns:
            P lists of G completions, in the order of `prompts`. A prompt longer than `limits.max_prompt_tokens` is not
            shown to the model: its completions hold no SQL, only the reason.
        """
        ids = token_ids(self.tokenizer, prompts)
        ends = end_ids(self.model, self.tokenizer)
        out: list[list[Completion]] = [
            [unasked(prompt, len(tokens), limits.max_prompt_tokens)] * samples
            for prompt, tokens in zip(prompts, ids, strict=True)
        ]
        order = sorted(
            (index for index, tokens in enumerate(ids) if len(tokens) <= limits.max_prompt_tokens),
            key=lambda index: (len(ids[index]), index),
        )
        size = max(1, limits.batch // samples)
        torch.manual_seed(seed)
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            sampled = sample_ids(
                self.model,
                self.tokenizer,
                [ids[index] for index in chunk],
                samples=samples,
                temperature=limits.temperature if temperature is None else temperature,
                max_new_tokens=limits.max_completion_tokens,
            )
            for index, group in zip(chunk, sampled, strict=True):
                out[index] = [completion(self.tokenizer, prompts[index], style, tokens, ends) for tokens in group]
            if progress is not None:
                progress(start + len(chunk))
        return out


def _load(name: str, how: Loading) -> Any:
    options: dict[str, Any] = {"dtype": torch.bfloat16 if how.dtype == _NF4 else getattr(torch, how.dtype)}
    if how.attention != "sdpa":  # the default of every model that has it; others keep their own
        options["attn_implementation"] = how.attention
    if how.dtype == _NF4:
        options["device_map"] = {"": torch.cuda.current_device()}
        options["quantization_config"] = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    if not (Path(name) / "adapter_config.json").is_file():
        return AutoModelForCausalLM.from_pretrained(name, **options)
    from peft import AutoPeftModelForCausalLM  # slow to import, and only adapters need it

    return AutoPeftModelForCausalLM.from_pretrained(name, is_trainable=True, **options)


def token_ids(tokenizer: Any, prompts: Sequence[Prompt]) -> list[list[int]]:
    """The prompts' token ids, through the chat template where a prompt is a chat and the model has one."""
    if not prompts:
        return []
    chat = prompts[0].chat
    if chat and tokenizer.chat_template:
        messages = [[{"role": "user", "content": prompt.text}] for prompt in prompts]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    else:
        texts = [f"{prompt.text}\n" if chat else prompt.text for prompt in prompts]
        ids = tokenizer(texts, add_special_tokens=chat)["input_ids"]
    return [list(tokens) for tokens in ids]


def encode(tokenizer: Any, prompts: Sequence[Prompt], longest: int) -> list[list[int]]:
    """The same for prompts that must fit.

    Raises:
        PolicyError: one has more than `longest` tokens.
    """
    ids = token_ids(tokenizer, prompts)
    for prompt, tokens in zip(prompts, ids, strict=True):
        if len(tokens) > longest:
            raise PolicyError(
                f"the prompt has {len(tokens)} tokens, more than sampling.max_prompt_tokens = {longest}",
                field=f"question {prompt.question_id}",
                fix="Raise the limit or leave the question out; prompts are never cut.",
            )
    return ids


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a model, without its weights.

    Raises:
        PolicyError: there is none of that name.
    """
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        line = str(error).strip().splitlines()[0]
        raise PolicyError(f"the tokenizer cannot be loaded ({line})", file=name, fix="Check the name.") from error


def token_counter(tokenizer: Any) -> Callable[[str], int]:
    """What counts the tokens of a chat prompt's text, the chat template's own included."""

    def count(text: str) -> int:
        return len(token_ids(tokenizer, [Prompt(question_id="", style="", text=text, chat=True)])[0])

    return count


def end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end a completion: the tokenizer's, and those the model declares, such as an end of turn."""
    declared = model.generation_config.eos_token_id
    more = declared if isinstance(declared, list) else [declared]
    return tuple(dict.fromkeys(one for one in (tokenizer.eos_token_id, *more) if one is not None))


def completion(tokenizer: Any, prompt: Prompt, style: Style, tokens: Sequence[int], ends: Sequence[int]) -> Completion:
    """One sampled token sequence -> Completion; it ended by itself when its last token is one of `ends`."""
    stopped = bool(tokens) and tokens[-1] in ends
    raw = tokenizer.decode(tokens, skip_special_tokens=True)
    return Completion(
        question_id=prompt.question_id,
        text=style.restore(prompt, raw),
        raw=raw,
        finish=Finish.STOP if stopped else Finish.LENGTH,
        tokens=len(tokens),
        prompt_sha256=prompt.sha256,
    )


def sample_ids(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    *,
    samples: int,
    temperature: float,
    max_new_tokens: int,
) -> Iterator[list[list[int]]]:
    """Sample token ids with `model.generate`; the prompt is passed once for all its samples.

    Args:
        model: a causal language model.
        tokenizer: gives the ids of padding and of the end of a turn.
        prompts: P token id lists.
        samples: G, completions a prompt.
        temperature: 0 is greedy.
        max_new_tokens: the limit of a completion.

    Yields:
        For each prompt, G token id lists without padding, each up to and with the token that ends it.

    Raises:
        PolicyError: the model's scores are no numbers any more.
    """
    width = max(len(ids) for ids in prompts)
    pad, ends = tokenizer.pad_token_id, end_ids(model, tokenizer)
    device = model.device
    ids = torch.tensor([[pad] * (width - len(p)) + list(p) for p in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
    how: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        how = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    config: Any = GenerationConfig(max_new_tokens=max_new_tokens, pad_token_id=pad, eos_token_id=list(ends), **how)  # type: ignore[no-untyped-call]
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        if width > 1:
            positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, :-1]
            scores = model(
                input_ids=ids[:, :-1],
                attention_mask=mask[:, :-1],
                position_ids=positions,
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits
            if not scores.isfinite().all():
                raise PolicyError("the policy's scores are no numbers any more", fix="Lower the learning rate.")
            cache.batch_repeat_interleave(samples)
        out = model.generate(
            input_ids=ids.repeat_interleave(samples, 0),
            attention_mask=mask.repeat_interleave(samples, 0),
            cache=cache,
            generation_config=config,
        )
    rows = out[:, width:].tolist()
    for start in range(0, len(rows), samples):
        yield [_cut(row, ends) for row in rows[start : start + samples]]


def _cut(row: list[int], ends: Sequence[int]) -> list[int]:
    return next((row[: at + 1] for at, token in enumerate(row) if token in ends), row)

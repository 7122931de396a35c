"""Where answers come from: an endpoint, a model, a file of predictions. One shape for all three.

In: questions with their databases. Out: for each question the completions that `Way` asks for, as they become ready.
Here torch is imported only when a model is loaded. Not here: keeping answers (kept), judging, checkpoints of a run's
own stages (stage).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from text2sql_rl.config import Sampling
from text2sql_rl.errors import ConfigError, PolicyError
from text2sql_rl.evaluate.answers import Pair, Sampler
from text2sql_rl.evaluate.judging import Cost
from text2sql_rl.evaluate.prediction_files import read_predictions
from text2sql_rl.policy.endpoint import Endpoint, EndpointSettings
from text2sql_rl.policy.unasked import unasked
from text2sql_rl.prompts import SchemaStyle, Style, make_style
from text2sql_rl.records import Completion, Finish, Prompt, Question

_STYLE = "ddl"
_MOST_TOKENS = 4096
_CHUNK = 64  # prompts a model answers between two signs of progress; what a killed evaluation loses at most


@dataclass(frozen=True, slots=True)
class Way:
    """One way of asking: how many completions a question, at which temperature."""

    name: str
    samples: int
    temperature: float


class Reply(NamedTuple):
    """One completion and what it took."""

    completion: Completion
    cost: Cost


class Source(Protocol):
    """Who answers."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """How every question is asked; the first completion of the first way is the answer that counts."""

    @property
    def is_slow(self) -> bool:
        """Whether answers are worth keeping for a later attempt."""

    def describe(self) -> dict[str, Any]:
        """What the answers depend on, for results.json and for telling whether kept answers are of this source."""

    def prompts(self, pairs: Sequence[Pair]) -> list[str]:
        """The text each question is asked with; empty where nobody knows."""

    def too_long(self, pairs: Sequence[Pair]) -> list[str]:
        """The ids of questions whose prompt does not fit, however little of the schema it shows; none is ever asked."""

    def ask(self, pairs: Sequence[Pair], way: Way) -> Iterator[tuple[int, list[Reply]]]:
        """(number of the question, its replies), in any order, each question once."""


def ways(samples: int, temperature: float) -> tuple[Way, ...]:
    """Greedy, and beside it `samples` at a temperature where more than one is asked for; as the stages of a run do."""
    greedy = Way("greedy", 1, 0.0)
    return (greedy, Way("sampled", samples, temperature)) if samples > 1 else (greedy,)


class FileSource:
    """A file of predictions, read whole and checked against the questions before anything else happens.

    Raises:
        DataError: the file does not answer exactly these questions.
    """

    is_slow = False

    def __init__(self, path: Path, questions: Sequence[Question]) -> None:
        self._path = path
        self._texts = {one.id: texts for one, texts in zip(questions, read_predictions(path, questions), strict=True)}
        samples = max((len(texts) for texts in self._texts.values()), default=1)
        self.ways: tuple[Way, ...] = (Way("given", samples, 0.0),)

    def describe(self) -> dict[str, Any]:
        """Kind and file."""
        return {"kind": "predictions", "name": self._path.name, "file": str(self._path)}

    def prompts(self, pairs: Sequence[Pair]) -> list[str]:
        """Nobody knows."""
        return ["" for _ in pairs]

    def too_long(self, pairs: Sequence[Pair]) -> list[str]:
        """Nobody knows."""
        return []

    def ask(self, pairs: Sequence[Pair], way: Way) -> Iterator[tuple[int, list[Reply]]]:
        """What the file says."""
        for number, (question, _) in enumerate(pairs):
            completions = (
                Completion(question_id=question.id, text=text, raw=text, finish=Finish.STOP, tokens=0)
                for text in self._texts[question.id]
            )
            yield number, [Reply(one, Cost()) for one in completions]


@dataclass(frozen=True, slots=True)
class Asking:
    """How a policy from elsewhere is asked: prompt style, most tokens of a prompt (the schema filter keeps to them).

    `style` None is a checkpoint's own, else ddl; `max_tokens` None is a checkpoint's own, else 4,096.
    """

    style: str | None = None
    max_tokens: int | None = None


class EndpointSource:
    """An OpenAI-compatible endpoint.

    Args:
        settings: where and how.
        key: sent as a bearer token; empty sends none.
        asking: prompt style and limit.
        count: the tokens of a prompt's text; `counted_by` names what counts.
        ways: greedy, sampled.
        seed: of the samples.
    """

    is_slow = True

    def __init__(
        self, settings: EndpointSettings, key: str, asking: Asking, count: Callable[[str], int], counted_by: str,
        ways: tuple[Way, ...], seed: int,
    ) -> None:  # fmt: skip
        self._settings, self._seed, self.ways = settings, seed, ways
        self._count, self._counted_by = count, counted_by
        self._limit = asking.max_tokens or _MOST_TOKENS
        self._endpoint, self._style = Endpoint(settings, key), make_style(asking.style or _STYLE, (), self._limit)
        if isinstance(self._style, SchemaStyle):
            self._style.bind(count)

    def describe(self) -> dict[str, Any]:
        """Kind, address, model and what else an answer depends on; how it is asked for does not matter."""
        settings = asdict(self._settings)
        kept = {name: settings[name] for name in ("url", "model", "max_tokens", "chat", "extra")}
        prompt = {"style": self._style.name, "max_prompt_tokens": self._limit, "tokens_counted_by": self._counted_by}
        return {"kind": "endpoint", "name": self._settings.model, **kept, **prompt, **_how(self.ways, self._seed)}

    def prompts(self, pairs: Sequence[Pair]) -> list[str]:
        """The text of each question's one message."""
        return [self._style.prompt(question, database).text for question, database in pairs]

    def too_long(self, pairs: Sequence[Pair]) -> list[str]:
        """The questions that are not sent."""
        texts = self.prompts(pairs)
        return [pair[0].id for pair, text in zip(pairs, texts, strict=True) if self._count(text) > self._limit]

    def ask(self, pairs: Sequence[Pair], way: Way) -> Iterator[tuple[int, list[Reply]]]:
        """Requests side by side; what is ready first comes first."""
        prompts = [self._style.prompt(question, database) for question, database in pairs]
        sent = []
        for number, prompt in enumerate(prompts):
            if (tokens := self._count(prompt.text)) > self._limit:
                yield number, [Reply(unasked(prompt, tokens, self._limit), Cost())] * way.samples
            else:
                sent.append(number)
        answers = self._endpoint.answers(
            [prompts[number] for number in sent], self._style, samples=way.samples, temperature=way.temperature,
            seed=self._seed,
        )  # fmt: skip
        for at, replies in answers:
            yield sent[at], [Reply(one.completion, Cost(one.seconds, one.prompt_tokens)) for one in replies]


class ModelSource:
    """A checkpoint or adapter folder, or any causal language model of Hugging Face, in this process.

    Args:
        name: folder or Hugging Face name.
        asking: prompt style and limit; a folder that this project wrote brings its own of both.
        limits: of sampling; `temperature` is that of the sampled way, its `max_prompt_tokens` is not read.
        dtype: precision of the weights.
        ways: greedy, sampled.
        seed: of the samples.

    Raises:
        ConfigError: the packages of the extra `train` are not installed, or the style is not the checkpoint's.
        PolicyError: it cannot be loaded.
    """

    is_slow = True

    def __init__(
        self, name: str, asking: Asking, limits: Sampling, dtype: str, ways: tuple[Way, ...], seed: int
    ) -> None:
        self._name, self._dtype, self._seed, self.ways = name, dtype, seed, ways
        self._policy, self._style, self._lengths, most = _load(name, dtype, asking)
        self._limits = limits.model_copy(update={"max_prompt_tokens": most})

    def describe(self) -> dict[str, Any]:
        """Kind, name, limits and seed."""
        limits = self._limits.model_dump()
        return {"kind": "model", "name": self._name, "style": self._style.name, "dtype": self._dtype, "limits": limits,
                **_how(self.ways, self._seed)}  # fmt: skip

    def prompts(self, pairs: Sequence[Pair]) -> list[str]:
        """The prompts as the style writes them, before a chat template."""
        return [self._style.prompt(question, database).text for question, database in pairs]

    def too_long(self, pairs: Sequence[Pair]) -> list[str]:
        """The questions the model is not shown."""
        lengths = self._lengths([self._style.prompt(question, database) for question, database in pairs])
        return [
            pair[0].id for pair, tokens in zip(pairs, lengths, strict=True) if tokens > self._limits.max_prompt_tokens
        ]

    def ask(self, pairs: Sequence[Pair], way: Way) -> Iterator[tuple[int, list[Reply]]]:
        """In chunks; the seconds of a chunk are shared out among its completions."""
        for start in range(0, len(pairs), _CHUNK):
            chunk = [self._style.prompt(question, database) for question, database in pairs[start : start + _CHUNK]]
            began = time.monotonic()
            groups = self._policy.sample(
                chunk, self._style, self._limits, samples=way.samples, seed=self._seed + start,
                temperature=way.temperature,
            )  # fmt: skip
            seconds = (time.monotonic() - began) / (len(chunk) * way.samples)
            for number, group in enumerate(groups, start):
                yield number, [Reply(one, Cost(seconds)) for one in group]


class _Loaded(NamedTuple):
    """A model ready to be asked: its prompts' style, how their tokens are counted, the most they may have."""

    policy: Sampler
    style: Style
    lengths: Callable[[Sequence[Prompt]], list[int]]
    most: int


def _load(name: str, dtype: str, asking: Asking) -> _Loaded:
    try:
        from text2sql_rl.learn.checkpoints import load
        from text2sql_rl.policy.hf import Policy, token_counter, token_ids
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a model needs the package {error.name}", fix='Install it with: pip install "text2sql-rl[train]".'
        ) from error
    folder = Path(name)
    if (folder / "checkpoint").is_dir():  # a stage's folder was meant
        folder = folder / "checkpoint"
    policy: Policy
    style: Style
    if (folder / "prompt_style.json").is_file():
        policy, style = load(folder, dtype)
        if asking.style not in (None, style.name):
            raise ConfigError(
                f"{asking.style} is not the style that this checkpoint was trained with, which is {style.name}",
                field="--style", fix="Leave the option out.",
            )  # fmt: skip
    else:
        known = ("config.json", "adapter_config.json")
        if folder.exists() and not any((folder / one).is_file() for one in known):
            raise PolicyError("holds no model", file=folder, fix="Give a checkpoint, an adapter or a model's name.")
        policy, style = Policy(name, dtype), make_style(asking.style or _STYLE)
    most = asking.max_tokens or (style.max_tokens if isinstance(style, SchemaStyle) else None) or _MOST_TOKENS
    if isinstance(style, SchemaStyle):
        style.max_tokens = most
        style.bind(token_counter(policy.tokenizer))
    return _Loaded(policy, style, lambda prompts: [len(ids) for ids in token_ids(policy.tokenizer, prompts)], most)


def _how(ways: Sequence[Way], seed: int) -> dict[str, Any]:
    return {"ways": [asdict(way) for way in ways], "seed": seed}

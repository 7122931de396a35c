"""Where answers come from: an endpoint, a model, a file of predictions. One shape for all three.

In: questions with their databases. Out: for each question the completions that `Way` asks for, as they become ready.
Here torch is imported only when a model is loaded. Not here: keeping answers (kept), judging, checkpoints of a run's
own stages (stage).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from text2sql_rl.config import Sampling
from text2sql_rl.errors import ConfigError, PolicyError
from text2sql_rl.evaluate.answers import Pair, Sampler
from text2sql_rl.evaluate.judging import Cost
from text2sql_rl.evaluate.prediction_files import read_predictions
from text2sql_rl.policy.endpoint import Endpoint, EndpointSettings
from text2sql_rl.prompts import Style, make_style
from text2sql_rl.records import Completion, Finish, Question

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

    def ask(self, pairs: Sequence[Pair], way: Way) -> Iterator[tuple[int, list[Reply]]]:
        """What the file says."""
        for number, (question, _) in enumerate(pairs):
            completions = (
                Completion(question_id=question.id, text=text, raw=text, finish=Finish.STOP, tokens=0)
                for text in self._texts[question.id]
            )
            yield number, [Reply(one, Cost()) for one in completions]


class EndpointSource:
    """An OpenAI-compatible endpoint, asked with the ddl prompts."""

    is_slow = True

    def __init__(self, settings: EndpointSettings, key: str, ways: tuple[Way, ...], seed: int) -> None:
        self._settings, self._seed, self.ways = settings, seed, ways
        self._endpoint, self._style = Endpoint(settings, key), make_style("ddl")

    def describe(self) -> dict[str, Any]:
        """Kind, address, model and what else an answer depends on; how it is asked for does not matter."""
        settings = asdict(self._settings)
        kept = {name: settings[name] for name in ("url", "model", "max_tokens", "chat", "extra")}
        return {"kind": "endpoint", "name": self._settings.model, **kept, **_how(self.ways, self._seed)}

    def prompts(self, pairs: Sequence[Pair]) -> list[str]:
        """The text of each question's one message."""
        return [self._style.prompt(question, database).text for question, database in pairs]

    def ask(self, pairs: Sequence[Pair], way: Way) -> Iterator[tuple[int, list[Reply]]]:
        """Requests side by side; what is ready first comes first."""
        prompts = [self._style.prompt(question, database) for question, database in pairs]
        answers = self._endpoint.answers(
            prompts, self._style, samples=way.samples, temperature=way.temperature, seed=self._seed
        )
        for number, replies in answers:
            yield number, [Reply(one.completion, Cost(one.seconds, one.prompt_tokens)) for one in replies]


class ModelSource:
    """A checkpoint or adapter folder, or any causal language model of Hugging Face, in this process.

    A folder that this project wrote brings its prompt style; any other model is asked with the ddl prompts.

    Args:
        name: folder or Hugging Face name.
        limits: of sampling; `temperature` is that of the sampled way.
        dtype: precision of the weights.

    Raises:
        ConfigError: the packages of the extra `train` are not installed.
        PolicyError: it cannot be loaded.
    """

    is_slow = True

    def __init__(self, name: str, limits: Sampling, dtype: str, ways: tuple[Way, ...], seed: int) -> None:
        self._name, self._limits, self._dtype, self._seed, self.ways = name, limits, dtype, seed, ways
        self._policy, self._style = _load(name, dtype)

    def describe(self) -> dict[str, Any]:
        """Kind, name, limits and seed."""
        limits = self._limits.model_dump()
        return {"kind": "model", "name": self._name, "style": self._style.name, "dtype": self._dtype, "limits": limits,
                **_how(self.ways, self._seed)}  # fmt: skip

    def prompts(self, pairs: Sequence[Pair]) -> list[str]:
        """The prompts as the style writes them, before a chat template."""
        return [self._style.prompt(question, database).text for question, database in pairs]

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


def _load(name: str, dtype: str) -> tuple[Sampler, Style]:
    try:
        from text2sql_rl.learn.checkpoints import load
        from text2sql_rl.policy.hf import Policy
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a model needs the package {error.name}", fix='Install it with: pip install "text2sql-rl[train]".'
        ) from error
    folder = Path(name)
    if (folder / "checkpoint").is_dir():  # a stage's folder was meant
        folder = folder / "checkpoint"
    if (folder / "prompt_style.json").is_file():
        return load(folder, dtype)
    if folder.exists() and not (folder / "config.json").is_file() and not (folder / "adapter_config.json").is_file():
        raise PolicyError("holds no model", file=folder, fix="Give a checkpoint, an adapter or a model's name.")
    return Policy(name, dtype), make_style("ddl")


def _how(ways: Sequence[Way], seed: int) -> dict[str, Any]:
    return {"ways": [asdict(way) for way in ways], "seed": seed}

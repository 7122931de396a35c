"""Answers kept while they come in, so that an evaluation that ends early goes on where it stopped.

In: a source and what it is asked. Out: answers.jsonl: a first line that says whose answers these are, then one line a
question and way, written as soon as it is there. A torn last line is dropped. Not here: judging, which is fast and is
done anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from text2sql_rl.errors import RunError
from text2sql_rl.evaluate.answers import Pair
from text2sql_rl.evaluate.judging import Cost
from text2sql_rl.evaluate.sources import Reply, Source, Way
from text2sql_rl.records import Completion, Finish
from text2sql_rl.runs import DiskGuard

_FORMAT = 1

Kept = dict[tuple[str, str], list[Reply]]


def ask_all(
    source: Source, pairs: Sequence[Pair], path: Path, progress: Callable[[int], None]
) -> dict[str, list[list[Reply]]]:
    """Every way's replies to every question, in the order of `pairs`; only what `path` does not hold yet is asked.

    Args:
        source: who answers.
        pairs: questions with their databases; ids are unlike.
        path: the file of kept answers; not touched where the source is not slow.
        progress: called with the number of completions there are, first with those kept.

    Raises:
        RunError: the file holds answers of another source, or the disk refuses.
        PolicyError: the source gives up; what came before is kept.
    """
    prompts = {question.id: prompt for (question, _), prompt in zip(pairs, source.prompts(pairs), strict=True)}
    prints = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in prompts.items()}
    if not source.is_slow:
        return {way.name: _in_order(source, pairs, way, {}, progress, None, prints) for way in source.ways}
    header = {"format": _FORMAT, "source": source.describe()}
    with DiskGuard(path):
        kept = _open(path, header, prints)
        progress(sum(len(replies) for replies in kept.values()))
        with path.open("a", encoding="utf-8") as file:
            return {way.name: _in_order(source, pairs, way, kept, progress, file, prints) for way in source.ways}


def _in_order(
    source: Source, pairs: Sequence[Pair], way: Way, kept: Kept, progress: Callable[[int], None], file: TextIO | None,
    prints: Mapping[str, str],
) -> list[list[Reply]]:  # fmt: skip
    missing = [pair for pair in pairs if (pair[0].id, way.name) not in kept]
    for number, replies in source.ask(missing, way):
        name = missing[number][0].id
        kept[name, way.name] = replies
        if file is not None:
            file.write(json.dumps(_line(name, way, prints[name], replies)) + "\n")
            file.flush()
        progress(sum(len(replies) for replies in kept.values()))
    return [kept[question.id, way.name] for question, _ in pairs]


def _line(name: str, way: Way, prompt: str, replies: Sequence[Reply]) -> dict[str, Any]:
    texts = [
        {
            "text": one.text, "raw": one.raw, "finish": one.finish.value, "tokens": one.tokens,
            "seconds": cost.seconds, "prompt_tokens": cost.prompt_tokens,
        }
        for one, cost in replies
    ]  # fmt: skip
    return {"id": name, "way": way.name, "prompt": prompt, "completions": texts}


def _open(path: Path, header: Mapping[str, Any], prints: Mapping[str, str]) -> Kept:
    """What the file holds for these questions; begins the file where there is none, and cuts a torn last line off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = path.read_bytes() if path.is_file() else b""
    whole, _, torn = content.rpartition(b"\n")
    if not whole:
        path.write_text(json.dumps(header) + "\n", encoding="utf-8")
        return {}
    try:
        first, *lines = [json.loads(line) for line in whole.split(b"\n") if line]
        if first != json.loads(json.dumps(header)):
            raise RunError(
                "holds answers of another model, or asked in another way", file=path,
                fix="Take another folder with --out, or delete this file to ask again.",
            )  # fmt: skip
        kept = {
            (line["id"], line["way"]): [_reply(line["id"], one) for one in line["completions"]]
            for line in lines
            if prints.get(line["id"]) == line["prompt"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            "holds a line that is no kept answer", file=path, fix="Delete this file to ask again."
        ) from error
    if torn:
        with path.open("r+b") as file:
            file.truncate(len(whole) + 1)
    return kept


def _reply(name: str, one: Mapping[str, Any]) -> Reply:
    completion = Completion(
        question_id=name, text=one["text"], raw=one["raw"], finish=Finish(one["finish"]), tokens=one["tokens"]
    )
    return Reply(completion, Cost(one["seconds"], one["prompt_tokens"]))

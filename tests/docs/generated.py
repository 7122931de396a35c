"""Parts of the guides that code gives. `python -m tests.docs.generated` writes them anew; a test compares.

A part stands between `<!-- generated NAME -->` and `<!-- end -->`; all prose around it is written by hand.
"""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from text2sql_rl.config import RunConfig
from text2sql_rl.content import Content, open_content
from text2sql_rl.group import AdvantageRule, advantages
from text2sql_rl.prompts.slot import SlotStyle, placeholders
from text2sql_rl.questions import dump_line
from text2sql_rl.records import Prompt, Question

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
# The question that docs/how-it-works.md follows.
EXAMPLE = "heldout-beekeeping-0031"
_PART = re.compile(r"<!-- generated ([a-z ]+) -->\n.*?<!-- end -->", re.DOTALL)


# ---- the fields of a config --------------------------------------------------------------------------------


def config_fields() -> str:
    """One row a field of RunConfig, nested sections with dotted names."""
    rows = [f"| `{name}` | {values} | {words} |" for name, values, words in _fields(RunConfig, "")]
    return "\n".join(["| field | value | meaning |", "| --- | --- | --- |", *rows])


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        parts = [one for one in _alternatives(field.annotation) if _is_model(one)]
        optional = type(None) in _alternatives(field.annotation)
        if not parts:
            yield f"{prefix}{name}", _values(field), field.description or ""
            continue
        if optional:
            yield f"{prefix}{name}", "section or absent", field.description or _doc(parts[0])
        for part in parts:
            if len(parts) > 1:
                (kind,) = typing.get_args(part.model_fields["kind"].annotation)
                yield f"{prefix}{name}.kind", f"`{kind}`", _doc(part)
            yield from (row for row in _fields(part, f"{prefix}{name}.") if not row[0].endswith(".kind"))


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if union else (annotation,)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _doc(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _values(field: FieldInfo) -> str:
    words = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "folder"}
    said = []
    for one in _alternatives(field.annotation):
        if one is type(None):
            continue
        if typing.get_origin(one) is typing.Literal:
            said.append(" or ".join(f"`{value}`" for value in typing.get_args(one)))
        else:
            said.append(words.get(one, "list of texts"))
    bounds = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    limits = [
        f"{sign} {getattr(each, name):.10g}"
        for each in field.metadata
        for name, sign in bounds.items()
        if getattr(each, name, None) is not None
    ]
    text = ", ".join([" or ".join(said), *limits])
    if field.is_required():
        return text
    return f"{text}, or absent" if field.default is None else f"{text}; default `{_plain(field.default)}`"


def _plain(value: Any) -> str:
    return '""' if value == "" else str(value).lower() if isinstance(value, bool) else str(value)


# ---- one question on its way -------------------------------------------------------------------------------


@cache
def _example() -> tuple[Content, Question]:
    content = open_content(ROOT)
    return content, next(one for one in content.questions.role("heldout") if one.id == EXAMPLE)


def example_line() -> str:
    """The question's line in its file."""
    _, question = _example()
    return f"```json\n{dump_line(question)}\n```"


def example_record() -> str:
    """The same as the record that rooms pass on."""
    _, question = _example()
    shown = ("id", "database", "text", "gold_sql", "split", "role", "shape", "hardness")
    lines = [f"    {name}={getattr(question, name)!r}," for name in shown if name != "split"]
    lines.insert(4, f"    split=Split.{question.split.name},")
    return "\n".join(["```python", "Question(", *lines, ")", "```"])


@cache
def _prompt() -> tuple[SlotStyle, Content, Question, Prompt]:
    content, question = _example()
    # The words that the stage base collects; here without torch and before any run.
    pairs = content.pairs((*content.questions.role("sft"), *content.questions.role("rl")))
    collector = SlotStyle(())
    words = {word for asked, database in pairs for word in collector.words(asked, database)}
    style = SlotStyle(words - set(placeholders()))
    return style, content, question, style.prompt(question, content.database(question))


def example_prompt() -> str:
    """What the policy reads."""
    *_, prompt = _prompt()
    return f"```text\n{_folded(prompt.text)}\n```"


def example_slots() -> str:
    """What the prompt's placeholders stand for, those that the answer uses."""
    style, content, question, prompt = _prompt()
    answer = style.completion(prompt, content.database(question), question.gold_sql) or ""
    tokens = [token for token in prompt.restore if token in answer.split()]
    joins = [token for token in prompt.restore if "+" in token and set(token.split("+")) <= set(tokens)]
    rows = [f"| `{token}` | `{prompt.restore[token]}` |" for token in (*tokens, *joins)]
    return "\n".join(["| placeholder | stands for |", "| --- | --- |", *rows])


def example_answer() -> str:
    """The answer that fine-tuning would show the policy, and the way back."""
    style, content, question, prompt = _prompt()
    answer = style.completion(prompt, content.database(question), question.gold_sql) or ""
    return f"```text\n{answer}\n```\n\n```sql\n{style.restore(prompt, answer)}\n```"


def _folded(text: str) -> str:
    return text.replace(" | ", "\n| ").replace(" <ask>", "\n<ask>")


# ---- a group -----------------------------------------------------------------------------------------------

# What the candidates judged in docs/how-it-works.md earn under bound-v1, and eight of them as a group.
_RIGHT, _CLOSE, _EMPTY, _ERROR = 1.0, 0.0200704, -0.015, -0.02
_GROUPS = {
    "one is right": (_RIGHT, _CLOSE, _CLOSE, _EMPTY, _EMPTY, _ERROR, _ERROR, _ERROR),
    "nobody is right": (_CLOSE, _CLOSE, _CLOSE, _EMPTY, _EMPTY, _ERROR, _ERROR, _ERROR),
}


def example_groups() -> str:
    """Advantages of the distinct rewards of two groups, with and without the floor."""
    rows = ["| group of 8 | reward | advantage, floor 0.25 | advantage, no floor |", "| --- | --- | --- | --- |"]
    for name, rewards in _GROUPS.items():
        floored = advantages(rewards, AdvantageRule("population", 0.25))
        bare = advantages(rewards, AdvantageRule("population", 0.0))
        seen = dict.fromkeys(zip(rewards, floored, bare, strict=True))
        rows += [f"| {name} | {reward:.3f} | {low:+.3f} | {high:+.3f} |" for reward, low, high in seen]
    return "\n".join(rows)


PARTS: dict[str, Callable[[], str]] = {
    "config fields": config_fields,
    "example line": example_line,
    "example record": example_record,
    "example prompt": example_prompt,
    "example slots": example_slots,
    "example answer": example_answer,
    "example groups": example_groups,
}


def render(page: str) -> str:
    """The page with every generated part as the code has it now."""
    return _PART.sub(lambda match: f"<!-- generated {match[1]} -->\n{PARTS[match[1]]()}\n<!-- end -->", page)


def pages() -> list[Path]:
    """The pages that hold a generated part."""
    return [page for page in sorted(DOCS.glob("*.md")) if _PART.search(page.read_text(encoding="utf-8"))]


def used() -> list[str]:
    """The names of the parts in all pages, in order."""
    return [match[1] for page in pages() for match in _PART.finditer(page.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for changed in pages():
        changed.write_text(render(changed.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"{changed}\n")

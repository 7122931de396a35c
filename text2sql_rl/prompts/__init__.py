"""Question + schema -> prompt. One style a file, each with its way back to SQL.

`STYLES` is the list of them; `make_style` gives one ready for use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from text2sql_rl.errors import ConfigError
from text2sql_rl.prompts.compact import CompactStyle
from text2sql_rl.prompts.ddl import DdlStyle
from text2sql_rl.prompts.schema_style import SchemaStyle
from text2sql_rl.prompts.slot import SlotStyle
from text2sql_rl.records import Database, Prompt, Question

__all__ = ["STYLES", "SchemaStyle", "Style", "make_style"]

_SCHEMA: dict[str, type[SchemaStyle]] = {"ddl": DdlStyle, "compact": CompactStyle}
STYLES = ("slot", *_SCHEMA)


class Style(Protocol):
    """What every prompt style can do."""

    name: str

    def prompt(self, question: Question, database: Database, visit: int = 0) -> Prompt:
        """The question's prompt on a visit; the same every time.

        A style that draws something at random draws it anew on each visit, so that no drawing is learned by heart;
        measuring and evaluation use visit 0.
        """

    def completion(self, prompt: Prompt, database: Database, sql: str) -> str | None:
        """The answer the policy should write for this SQL; None where the style cannot express it."""

    def restore(self, prompt: Prompt, raw: str) -> str:
        """The way back: what the policy wrote -> text that holds SQL."""


def make_style(name: str, vocabulary: Iterable[str] = (), max_tokens: int | None = None) -> Style:
    """The style of that name.

    Args:
        name: one of `STYLES`.
        vocabulary: the words a slot policy knows; other styles ignore it.
        max_tokens: of a prompt, once a tokenizer is bound to the style; the slot style ignores it.

    Raises:
        ConfigError: no such style.
    """
    if name == "slot":
        return SlotStyle(vocabulary)
    if name in _SCHEMA:
        return _SCHEMA[name](max_tokens)
    raise ConfigError(f"there is no prompt style {name!r}", fix=f"Use one of {', '.join(STYLES)}.")

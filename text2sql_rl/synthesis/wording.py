"""Sentences from forms: how one meaning gets many wordings.

In: a `Phrase` (forms marked common or rare) and a random source. Out: one sentence. A form is text with three
kinds of holes: `{slot}` is filled by the phrase's slots (a plain text stays verbatim, another phrase is worded in
turn), `<bank>` by a synonym of `BANKS`, `[one|two|]` by one of its options. Not here: SQL, and what a slot means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True, slots=True)
class Phrase:
    """Forms of one meaning. `common` ones are those a learner meets first; `rare` ones come on top."""

    common: tuple[str, ...]
    rare: tuple[str, ...] = ()
    slots: Mapping[str, str | Phrase] = field(default_factory=dict)

    def having(self, **slots: str | Phrase) -> Phrase:
        """The same forms with these slots filled."""
        return Phrase(self.common, self.rare, {**self.slots, **slots})


BANKS: Mapping[str, Phrase] = {
    "show": Phrase(
        ("show", "list", "give me", "find", "return"),
        (
            "display",
            "get",
            "retrieve",
            "print",
            "tell me",
            "report",
            "fetch",
            "look up",
            "I want to see",
            "please list",
        ),
    ),
    "then": Phrase(
        ("show", "list", "give", "return"),
        ("display", "get", "retrieve", "print", "tell me", "report", "fetch", "look up", "name"),
    ),
    "over": Phrase(
        ("more than", "greater than", "over", "above"), ("exceeding", "higher than", "larger than", "beyond")
    ),
    "under": Phrase(("less than", "below", "under"), ("lower than", "smaller than", "beneath")),
    "atleast": Phrase(("at least",), ("no less than", "not below", "a minimum of", "not less than")),
    "atmost": Phrase(("at most",), ("no more than", "not above", "a maximum of", "not exceeding")),
    "after": Phrase(("after", "later than"), ("past", "following", "more recent than")),
    "before": Phrase(("before", "earlier than"), ("prior to", "preceding")),
    "distinct": Phrase(("distinct", "different", "unique"), ("separate", "non-repeating")),
    "each": Phrase(("each", "every"), ("each single", "each and every")),
    "foreach": Phrase(("for each", "for every", "per"), ("by", "broken down by", "grouped by", "split by")),
    "descending": Phrase(
        ("in descending order of", "from highest to lowest"), ("from the top down by", "in decreasing order of")
    ),
    "average": Phrase(("average", "mean"), ("avg", "arithmetic mean")),
    "total": Phrase(("total", "sum of the"), ("combined", "summed", "overall", "aggregate")),
    "highest": Phrase(("highest", "maximum", "largest"), ("greatest", "biggest", "top", "peak")),
    "lowest": Phrase(("lowest", "minimum", "smallest"), ("least", "bottom")),
    "latest": Phrase(("latest", "most recent"), ("last", "newest")),
    "earliest": Phrase(("earliest", "first"), ("oldest", "least recent")),
    "number": Phrase(("number of", "count of"), ("tally of", "quantity of", "total number of")),
    "most": Phrase(("the most", "the highest number of"), ("the largest number of", "the greatest count of")),
}

_HOLE = re.compile(r"<(\w+)>|\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")


def say(phrase: Phrase, r: Random, *, common: bool) -> str:
    """One sentence of the phrase. `common` keeps to common forms and common synonyms everywhere."""
    text = _worded(phrase, r, common)
    text = text[:1].upper() + text[1:]
    if common or text.endswith("?"):
        return text
    if r.random() < 0.25:
        return text[:1].lower() + text[1:] if not text.startswith("I ") else text
    return text + "." if r.random() < 0.3 and text[-1].isalpha() else text


def _worded(phrase: Phrase, r: Random, common: bool) -> str:
    form = r.choice(phrase.common if common or not phrase.rare else phrase.common + phrase.rare)

    def fill(found: re.Match[str]) -> str:
        bank, options = found.groups()
        if bank is not None:
            return _worded(BANKS[bank], r, common)
        return _HOLE.sub(fill, r.choice(options.split("|")))

    # Spaces are tidied before slots are filled: a literal keeps its own spaces.
    form = re.sub(r" +", " ", _HOLE.sub(fill, form)).strip()

    def insert(found: re.Match[str]) -> str:
        value = phrase.slots[found[1]]
        return value if isinstance(value, str) else _worded(value, r, common)

    return _SLOT.sub(insert, form)

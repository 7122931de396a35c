"""English for names: identifiers as words, singular and plural.

In: names of tables and columns as declared. Out: lower-case words. Not here: whole sentences (`wording.py`).
"""

from __future__ import annotations

import re

_INVARIANT = {"species", "series", "staff", "equipment", "aircraft", "sheep", "fish", "information", "data", "news"}
_IRREGULAR = {
    "person": "people",
    "man": "men",
    "woman": "women",
    "child": "children",
    "mouse": "mice",
    "volcano": "volcanoes",
}
_SINGULAR_S = ("ss", "us", "is", "os")


def words_of(name: str) -> str:
    """`race_entry`, `RaceEntry` and `race entry` all become "race entry"; a name without letters stays as it is."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    words = re.findall(r"\w+", parts.replace("_", " "))
    return " ".join(word.lower() for word in words) or name


def singular(words: str) -> str:
    """The words with the last one in the singular."""
    *head, last = words.split(" ")
    return " ".join([*head, _singular_word(last)])


def plural(words: str) -> str:
    """The words with the last one in the plural."""
    *head, last = words.split(" ")
    return " ".join([*head, _plural_word(_singular_word(last))])


def article(words: str) -> str:
    """The words after "a" or "an"."""
    return f"an {words}" if words[:1] in "aeio" else f"a {words}"


def _singular_word(word: str) -> str:
    for one, many in _IRREGULAR.items():
        if word == many:
            return one
    if word in _INVARIANT or not word.endswith("s") or word.endswith(_SINGULAR_S) or len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "zzes", "ches", "shes")):
        return word[:-2]
    return word[:-1]


def _plural_word(word: str) -> str:
    if word in _INVARIANT:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word + "s"

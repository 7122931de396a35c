"""What every rule must hold, checked on one example of every kind of outcome.

In: a rule. Out: the invariants it breaks, each with the outcomes that show it. Not here: loading, the examples.

Totals never fall when an overlap rises and are linear between the corners that archetypes.py lists (overlaps of 0, of
1, and on both sides of "near"), so what holds on the corners holds between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from text2sql_rl.records import Finish
from text2sql_rl.scoring.archetypes import SPOILT, archetypes
from text2sql_rl.scoring.evidence import Evidence, is_right, standing
from text2sql_rl.scoring.model import Rule
from text2sql_rl.scoring.total import score

# Each tier earns less than the one before it.
_TIERS = (
    ("equivalent",),
    ("near",),
    ("wrong",),
    ("empty", "row_count"),
    ("error",),
    ("constant",),
    ("timeout",),
    ("no_answer",),
    ("refused",),
)


@dataclass(frozen=True, slots=True)
class Paid:
    """One outcome in words, where it stands, and what the rule pays for it."""

    words: str
    evidence: Evidence
    place: str
    total: float

    def __str__(self) -> str:
        """The outcome and its reward, as errors and reports show it."""
        return f"{self.words!r} ({self.total:g})"


@dataclass(frozen=True, slots=True)
class Breach:
    """An invariant that a rule breaks: the one or two outcomes that show it, and how."""

    invariant: str
    outcomes: tuple[Paid, ...]
    words: str

    def __str__(self) -> str:
        """The counterexample in one line."""
        return f"{self.invariant}: {self.words}"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A promise every rule makes, in words, and what finds its breaches."""

    name: str
    words: str
    find: Callable[[list[Paid], Rule], Iterator[Breach]]


def broken(rule: Rule) -> tuple[Breach, ...]:
    """The invariants a rule breaks, each with its counterexample; empty for a sound rule."""
    paid = [
        Paid(one.words, one.evidence, standing(one.evidence, rule.ratio), _total(one.evidence, rule))
        for one in archetypes(rule.ratio)
    ]
    return tuple(breach for invariant in INVARIANTS for breach in invariant.find(paid, rule))


def _bounds(paid: list[Paid], rule: Rule) -> Iterator[Breach]:
    for one in paid:
        if not rule.bounds.low <= one.total <= rule.bounds.high:
            yield Breach("bounds", (one,), f"{one} lies outside of [{rule.bounds.low:g}, {rule.bounds.high:g}]")
            return


def _dominance(paid: list[Paid], rule: Rule) -> Iterator[Breach]:
    right = min((one for one in paid if is_right(one.evidence)), key=lambda one: one.total)
    wrong = max((one for one in paid if not is_right(one.evidence)), key=lambda one: one.total)
    # The tolerance is for margins that are exact in decimals and not in binary.
    if right.total <= wrong.total or right.total - wrong.total < rule.dominance_margin - 1e-9:
        yield Breach("dominance", (right, wrong), f"{right} does not beat {wrong} by {rule.dominance_margin:g}")


def _binding(paid: list[Paid], rule: Rule) -> Iterator[Breach]:
    most = rule.binding.shaping_at_most
    for one in paid:
        if not is_right(one.evidence) and one.total > most:
            yield Breach("binding", (one,), f"{one} earns more than the shaping bound {most:g}")
            return


def _order(paid: list[Paid], rule: Rule) -> Iterator[Breach]:
    for finish in Finish:
        alike = [one for one in paid if one.evidence.finish is finish]
        tiers = [[one for one in alike if one.place in tier] for tier in _TIERS]
        for better, worse in itertools.pairwise(tiers):
            low, high = min(better, key=lambda one: one.total), max(worse, key=lambda one: one.total)
            if low.total < high.total or (rule.order == "strict" and low.total == high.total):
                yield Breach("order", (low, high), f"{low} must beat {high}")


def _constants(paid: list[Paid], rule: Rule) -> Iterator[Breach]:
    for finish in Finish:
        alike = [one for one in paid if one.evidence.finish is finish]
        failed = min((one for one in alike if one.place == "error"), key=lambda one: one.total)
        constant = max((one for one in alike if one.place == "constant"), key=lambda one: one.total)
        if constant.total > failed.total:
            yield Breach("constants", (constant, failed), f"{constant} earns more than {failed}")
            return


def _spoilt(paid: list[Paid], rule: Rule) -> Iterator[Breach]:
    by_words = {one.words: one for one in paid}
    for words in SPOILT:
        for one in paid:
            spoilt = by_words.get(f"{one.words}, {words}")
            if spoilt is not None and spoilt.total > one.total:
                yield Breach("spoilt", (spoilt, one), f"{spoilt} earns more than {one}")
                return


INVARIANTS = (
    Invariant("bounds", "no total lies outside of the rule's bounds", _bounds),
    Invariant("dominance", "every right answer beats every wrong one by the rule's margin", _dominance),
    Invariant("binding", "a wrong answer earns at most the shaping bound", _binding),
    Invariant("order", "a worse outcome earns less, or in a weak order not more", _order),
    Invariant("constants", "a query that reads no table earns no more than a failed attempt", _constants),
    Invariant("spoilt", "padding, more answers and running on never pay", _spoilt),
)


def _total(evidence: Evidence, rule: Rule) -> float:
    total = score(evidence, rule).total
    assert total is not None, "archetypes are scorable"
    return total

"""What every rule must hold, checked on one example of every kind of outcome.

In: a rule. Out: the invariants it breaks, each with the outcomes that show it. Not here: loading.

Totals are linear between the corners listed here (overlaps of 0, of 1, and on both sides of "near"), so what holds on
the corners holds between them. The invariants are bounds, dominance, binding, order, that a constant earns no more
than a failed attempt, and that neither padding, nor more answers, nor running on ever pays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from text2sql_rl.records import Candidate, Execution, Finish, Gold, Match, Outcome, Verdict
from text2sql_rl.scoring.evidence import Evidence, RowRatio, is_right, standing
from text2sql_rl.scoring.model import Rule
from text2sql_rl.scoring.total import score

_GOLD_ROWS = 1000
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
class Archetype:
    """One kind of outcome: what a person would call it, and its evidence."""

    words: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class _Paid:
    words: str
    evidence: Evidence
    place: str
    total: float


def archetypes(ratio: RowRatio) -> tuple[Archetype, ...]:
    """One example of every kind of outcome, each as it is and spoilt in every way and combination."""
    kinds = tuple(_plain(ratio))
    for words, spoil in _SPOILT.items():
        kinds = (*kinds, *(Archetype(f"{one.words}, {words}", spoil(one.evidence)) for one in kinds))
    return kinds


def broken(rule: Rule) -> tuple[str, ...]:
    """The invariants a rule breaks, each as one line with its counterexample; empty for a sound rule."""
    paid = [
        _Paid(one.words, one.evidence, standing(one.evidence, rule.ratio), _total(one.evidence, rule))
        for one in archetypes(rule.ratio)
    ]
    checks = (
        _bounds(paid, rule),
        _dominance(paid, rule),
        _binding(paid, rule),
        _order(paid, rule),
        _constants(paid),
        _spoilt(paid),
    )
    return tuple(problem for check in checks for problem in check)


def _bounds(paid: list[_Paid], rule: Rule) -> Iterator[str]:
    for one in paid:
        if not rule.bounds.low <= one.total <= rule.bounds.high:
            yield f"bounds: {_says(one)} lies outside of [{rule.bounds.low:g}, {rule.bounds.high:g}]"
            return


def _dominance(paid: list[_Paid], rule: Rule) -> Iterator[str]:
    right = min((one for one in paid if is_right(one.evidence)), key=lambda one: one.total)
    wrong = max((one for one in paid if not is_right(one.evidence)), key=lambda one: one.total)
    # The tolerance is for margins that are exact in decimals and not in binary.
    if right.total <= wrong.total or right.total - wrong.total < rule.dominance_margin - 1e-9:
        yield f"dominance: {_says(right)} does not beat {_says(wrong)} by {rule.dominance_margin:g}"


def _binding(paid: list[_Paid], rule: Rule) -> Iterator[str]:
    for one in paid:
        if not is_right(one.evidence) and one.total > rule.binding.shaping_at_most:
            yield f"binding: {_says(one)} earns more than the shaping bound {rule.binding.shaping_at_most:g}"
            return


def _order(paid: list[_Paid], rule: Rule) -> Iterator[str]:
    for finish in Finish:
        alike = [one for one in paid if one.evidence.finish is finish]
        tiers = [[one for one in alike if one.place in tier] for tier in _TIERS]
        for better, worse in itertools.pairwise(tiers):
            low, high = min(better, key=lambda one: one.total), max(worse, key=lambda one: one.total)
            if low.total < high.total or (rule.order == "strict" and low.total == high.total):
                yield f"order: {_says(low)} must beat {_says(high)}"


def _constants(paid: list[_Paid]) -> Iterator[str]:
    for finish in Finish:
        alike = [one for one in paid if one.evidence.finish is finish]
        failed = min((one for one in alike if one.place == "error"), key=lambda one: one.total)
        constant = max((one for one in alike if one.place == "constant"), key=lambda one: one.total)
        if constant.total > failed.total:
            yield f"constants: {_says(constant)} earns more than {_says(failed)}"
            return


def _spoilt(paid: list[_Paid]) -> Iterator[str]:
    by_words = {one.words: one for one in paid}
    for words in _SPOILT:
        for one in paid:
            spoilt = by_words.get(f"{one.words}, {words}")
            if spoilt is not None and spoilt.total > one.total:
                yield f"spoilt: {_says(spoilt)} earns more than {_says(one)}"
                return


def _says(one: _Paid) -> str:
    return f"{one.words!r} ({one.total:g})"


def _total(evidence: Evidence, rule: Rule) -> float:
    total = score(evidence, rule).total
    assert total is not None, "archetypes are scorable"
    return total


def _unclean(evidence: Evidence) -> Evidence:
    return replace(evidence, candidate=replace(evidence.candidate, clean=False))


def _several(evidence: Evidence) -> Evidence:
    answers = evidence.candidate.answers and 2
    return replace(evidence, candidate=replace(evidence.candidate, answers=answers, clean=False))


def _cut(evidence: Evidence) -> Evidence:
    return replace(evidence, finish=Finish.LENGTH)


# Ways to spoil a completion that must never pay.
_SPOILT = {"with text beside it": _unclean, "among several answers": _several, "cut off": _cut}


def _plain(ratio: RowRatio) -> Iterator[Archetype]:
    yield Archetype("an equivalent query", _ran(_GOLD_ROWS, overlap=(1.0, 1.0), equivalent=True))
    near = {
        "the gold's rows on the real data only": (1.0, 1.0),
        "all rows, no whole column": (1.0, 0.0),
        "all columns, no whole row": (0.0, 1.0),
        "half of the rows and columns": (0.5, 0.5),
    }
    wrong = {
        "wrong rows": (0.0, 0.0),
        "many of the rows, no whole column": (0.99, 0.0),
        "many of the columns, no whole row": (0.0, 0.99),
        "a few rows and columns": (0.3, 0.3),
    }
    for words, overlap in (near | wrong).items():
        yield Archetype(words, _ran(_GOLD_ROWS, overlap=overlap))
    yield Archetype("an empty result", _ran(0))
    few, many = int(_GOLD_ROWS * ratio.low) - 1, int(_GOLD_ROWS * ratio.high) + 1
    if few > 0:
        yield Archetype("far fewer rows", _ran(few, overlap=(ratio.low, 0.0)))
    yield Archetype("far more rows", _ran(many, overlap=(1.0, 1.0)))
    yield Archetype("a query that reads no table", _ran(_GOLD_ROWS, reads=False))
    yield Archetype("an empty query that reads no table", _ran(0, reads=False))
    for outcome in (Outcome.ERROR, Outcome.TIMEOUT, Outcome.MEMORY, Outcome.TOO_LARGE, Outcome.REFUSED):
        yield Archetype(f"outcome {outcome.value}", _stopped(outcome))
    nothing = Candidate(sql=None, reason="no_sql", clean=False)
    yield Archetype("no answer", Evidence(candidate=nothing, execution=None, gold=_gold(), verdict=None))


def _gold() -> Gold:
    return Gold(sql="SELECT a FROM t", execution=_rows(_GOLD_ROWS, reads=True))


def _rows(count: int, *, reads: bool) -> Execution:
    return Execution(outcome=Outcome.ROWS, columns=("a",), rows=((1,),) * count, reads_tables=reads)


def _ran(
    count: int, *, overlap: tuple[float, float] = (0.0, 0.0), equivalent: bool = False, reads: bool = True
) -> Evidence:
    match = Match.MATCH if equivalent else Match.MISMATCH
    verdict = Verdict(match=match, code="example", words="", row_overlap=overlap[0], column_overlap=overlap[1])
    return Evidence(
        candidate=Candidate(sql="SELECT b FROM t", answers=1),
        execution=_rows(count, reads=reads),
        gold=_gold(),
        verdict=verdict,
        equivalent=equivalent,
    )


def _stopped(outcome: Outcome) -> Evidence:
    return Evidence(
        candidate=Candidate(sql="SELECT b FROM t", answers=1),
        execution=Execution(outcome=outcome),
        gold=_gold(),
        verdict=Verdict(match=Match.MISMATCH, code=outcome.value, words=""),
    )

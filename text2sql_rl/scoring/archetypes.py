"""One example of every kind of outcome, each as it is and spoilt in every way that must never pay.

In: a rule's row ratio. Out: evidence of each kind, as the judge could produce it. Not here: what they must earn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from text2sql_rl.records import Candidate, Execution, Finish, Gold, Match, Outcome, Verdict
from text2sql_rl.scoring.evidence import Evidence, RowRatio

_GOLD_ROWS = 1000
# The largest share short of all: the sandbox gives 20,000 rows at most.
_ALL_BUT_ONE = 1 - 1 / 20_000


@dataclass(frozen=True, slots=True)
class Archetype:
    """One kind of outcome: what a person would call it, and its evidence."""

    words: str
    evidence: Evidence


def archetypes(ratio: RowRatio) -> tuple[Archetype, ...]:
    """One example of every kind of outcome, each as it is and spoilt in every way and combination."""
    kinds = tuple(_plain(ratio))
    for words, spoil in SPOILT.items():
        kinds = (*kinds, *(Archetype(f"{one.words}, {words}", spoil(one.evidence)) for one in kinds))
    return kinds


def _unclean(evidence: Evidence) -> Evidence:
    return replace(evidence, candidate=replace(evidence.candidate, clean=False))


def _several(evidence: Evidence) -> Evidence:
    answers = evidence.candidate.answers and 2
    return replace(evidence, candidate=replace(evidence.candidate, answers=answers, clean=False))


def _cut(evidence: Evidence) -> Evidence:
    return replace(evidence, finish=Finish.LENGTH)


# Ways to spoil a completion that must never pay.
SPOILT = {"with text beside it": _unclean, "among several answers": _several, "cut off": _cut}


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
        "all rows but one, no whole column": (_ALL_BUT_ONE, 0.0),
        "nearly all columns, no whole row": (0.0, _ALL_BUT_ONE),
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

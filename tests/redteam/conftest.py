"""One audit of each kind, shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from tests.conftest import REPOSITORY
from text2sql_rl.content import cache_folder, open_store
from text2sql_rl.judge import Judge
from text2sql_rl.redteam.attacks import Corpus, load_corpus
from text2sql_rl.redteam.audit import Audit, audit
from text2sql_rl.redteam.pay import RulePays
from text2sql_rl.redteam.targets import Target, prepare_targets
from text2sql_rl.sandbox import Sandbox
from text2sql_rl.scoring import load_rule

# Enough of the corpus to see every kind of judging, without the attacks that wait for a timeout.
FAMILIES = ("equality-abuse", "executes-only", "gold-abuse", "state-abuse")


@dataclass(frozen=True)
class Arena:
    """A part of the corpus with its golds, and a sandbox for whoever fires at them."""

    corpus: Corpus
    targets: dict[str, Target]
    sandbox: Sandbox


@cache
def small_corpus() -> Corpus:
    """The families without the golds and attacks that take seconds each."""
    corpus = load_corpus(REPOSITORY / "rewards" / "attacks", FAMILIES)
    families = tuple(
        family.model_copy(
            update={"cases": tuple(attack for attack in family.cases if attack.name != "unusable-timeout")}
        )
        for family in corpus.families
    )
    golds = {name: gold for name, gold in corpus.golds.items() if name != "endless"}
    return corpus.model_copy(update={"families": families, "golds": golds})


@pytest.fixture(scope="session")
def arena() -> Iterator[Arena]:
    with Sandbox() as sandbox:
        judge = Judge(load_rule("bound-v1"), sandbox=sandbox, cache=cache_folder())
        yield Arena(small_corpus(), prepare_targets(small_corpus(), open_store(), judge, cache_folder(), 2), sandbox)


@pytest.fixture(scope="session")
def audits(arena: Arena) -> dict[str, Audit]:
    """An audit of every released rule."""
    found = {}
    judge = Judge(load_rule("bound-v1"), sandbox=arena.sandbox, cache=cache_folder())
    for name in ("bound-v1", "binary-v1", "dense-v1", "dense-v3", "executes-only-v1"):
        # Rules pay for the same judgements, so one judge runs each statement once for all of them.
        judge.rule = rule = load_rule(name)
        bound = rule.binding.shaping_at_most
        found[name] = audit(name, rule.sha256, arena.corpus, arena.targets, RulePays(judge), bound=bound, instances=2)
    return found

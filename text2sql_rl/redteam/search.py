"""The search for new attacks: a budgeted, seeded hunt for candidates that are paid as right and are not.

In: questions with their databases, a rule, a budget, a seed. Out: a `Search` with its finds, each minimised and written
as an attack file. Four kinds of find:

    overpaid   the judge itself calls the candidate wrong, and the rule pays it like the right answer
    lucky      the judge calls it equivalent, and witnesses tell it from the gold: instances of another seed, which the
               judge does not have
    disputed   the judge calls it equivalent, and the engine's own bag difference (EXCEPT ALL both ways) on the real
               rows or on a witness is not empty, although no policy of comparison explains it
    unsafe     a statement with a fragment that must never run gave rows

So "not equivalent" never rests on the real rows, nor on the judge's own instances, nor on its comparison alone.
What a question came to is kept (finds.py), so an interrupted search goes on where it was. Not here: one
gold (hunt.py), making candidates (mutate.py).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from text2sql_rl.errors import ConfigError
from text2sql_rl.judge import Judge
from text2sql_rl.records import Database, Question
from text2sql_rl.redteam.finds import Find, read_journal, write_find, write_journal
from text2sql_rl.redteam.hunt import ROUND, Hunt
from text2sql_rl.redteam.targets import with_rows
from text2sql_rl.sandbox import Sandbox

_WITNESSES = 12
# Far from any seed that a judge's instances are made of.
_WITNESS_SEED = 1000
_FINDS = 100


@dataclass(frozen=True, slots=True)
class Search:
    """A whole search. `counts`: candidates, ran, accepted, unsafe tried, right on the real rows only, and by kind all
    finds, also those that are not kept because their question has enough."""

    finds: tuple[Find, ...]
    counts: Mapping[str, int]
    questions: int
    seed: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Ready for json.dumps; docs/red-team.md tells its keys."""
        finds = [asdict(one) | {"name": one.name} for one in self.finds]
        return {
            "counts": dict(self.counts),
            "questions": self.questions,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "finds": finds,
        }

    def lines(self) -> Iterator[str]:
        """What was tried, and every find."""
        yield ""
        numbers = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        rate = self.counts.get("candidates", 0) / max(self.seconds, 1e-9)
        yield f"4 search over {self.questions} golds, seed {self.seed}: {numbers}"
        yield f"  {self.seconds:.0f} s, {rate:.0f} candidates a second"
        for one in self.finds:
            yield f"  FOUND {one.name} on {one.database} ({one.question}): {one.why}"
            yield f"    gold      {one.gold}"
            yield f"    candidate {one.sql}"
        yield f"{len(self.finds)} finds"


def search(
    pairs: Sequence[tuple[Question, Database]],
    judge: Judge,
    sandbox: Sandbox,
    cache: Path,
    folder: Path,
    *,
    budget: int,
    instances: int,
    attacks: Sequence[str] = (),
    seed: int = 0,
    done: Callable[[int], None] = lambda count: None,
) -> Search:
    """Spend a budget of candidates over questions, evenly.

    Args:
        pairs: questions with their databases; golds that cannot judge are left out.
        judge: with the rule; it owns the sandbox or shares it.
        sandbox: where witnesses and checks run.
        cache: the cache folder: instances, witnesses and what is done.
        folder: where finds are written, one case file each.
        budget: candidates in all.
        instances: how many instances a database gets for the judge.
        attacks: SQL of known attacks to start from.
        seed: of the candidates.
        done: called with the number of candidates done.

    Raises:
        ConfigError: no gold can judge, or the folder cannot be written.
    """
    started = time.perf_counter()
    ready = _hunts(pairs, judge, cache, instances)
    if not ready:
        raise ConfigError("no gold can judge", field="--data", fix="Give questions whose golds run")
    # A small budget goes to some questions in full rounds rather than to all of them in crumbs.
    chosen = random.Random(seed).sample(ready, min(len(ready), max(1, budget // ROUND)))
    finds: list[Find] = []
    counts: Counter[str] = Counter()
    for at, hunt in enumerate(chosen):
        share = budget * (at + 1) // len(chosen) - budget * at // len(chosen)
        key = hunt.key(judge, share, instances, seed)
        journal = cache / "search" / f"{key}.json"
        found = read_journal(journal)
        if found is None:
            found = hunt.run(judge, sandbox, share, attacks, random.Random(f"{seed}:{hunt.question.id}"))
            write_journal(journal, found)
        for find in found.finds:
            write_find(folder, find)
        finds += found.finds
        counts.update(found.counts)
        done(counts["candidates"])
        if len(finds) >= _FINDS:
            break
    return Search(tuple(finds), counts, len(chosen), seed, time.perf_counter() - started)


def _hunts(pairs: Sequence[tuple[Question, Database]], judge: Judge, cache: Path, instances: int) -> list[Hunt]:
    golds = judge.prepare(pairs)
    usable = [(question, database) for question, database in pairs if not golds[question.id].unverifiable]
    ready = []
    for name in sorted({database.name for _, database in usable}):
        asked = [question for question, database in usable if database.name == name]
        plain = next(database for _, database in usable if database.name == name)
        judged = with_rows(plain, asked, cache, instances)
        witnesses = with_rows(plain, asked, cache, _WITNESSES, first_seed=_WITNESS_SEED)
        others = [question.gold_sql for question in asked]
        ready += [Hunt(question, judged, witnesses, golds[question.id], others) for question in asked]
    return ready

"""Which candidate column answers which gold column.

In: names and types of both results. Out: at most two assignments to try, so the cost never depends on how many
permutations there are. Not here: values (rows.py).

Policy. Names never matter while the columns stand in the gold's order. Out of that order, a column is known by
its name where that name is unique on both sides, otherwise by its family (text, number, ...) in the order given:
`salary, name` answers `name, salary`, and `away, home` answers `home, away` because the names say so, but two
unnamed numbers that changed places do not, since nobody reading the answer could tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from text2sql_rl.compare.cells import Family, family

Assignment = tuple[int, ...]  # assignment[i] is the candidate column that answers gold column i


def assignments(
    gold_names: Sequence[str], gold_types: Sequence[str], names: Sequence[str], types: Sequence[str]
) -> tuple[Assignment, ...]:
    """The gold's own order first, then the order that names and families tell, when it is another one."""
    identity = tuple(range(len(names)))
    told = _told(gold_names, gold_types, names, types)
    return (identity,) if told == identity else (identity, told)


def contradicts(assignment: Assignment, gold_names: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a column is given to one gold column while it bears the name of another."""
    gold = [name.casefold() for name in gold_names]
    own = [names[at].casefold() for at in assignment]
    return any(mine != theirs and mine in gold for mine, theirs in zip(own, gold, strict=True))


def _told(
    gold_names: Sequence[str], gold_types: Sequence[str], names: Sequence[str], types: Sequence[str]
) -> Assignment:
    gold, own = [n.casefold() for n in gold_names], [n.casefold() for n in names]
    unique = {n for n, count in Counter(gold).items() if count == 1} & {n for n, c in Counter(own).items() if c == 1}
    chosen: dict[int, int] = {at: own.index(name) for at, name in enumerate(gold) if name in unique}
    free = [at for at in range(len(own)) if at not in set(chosen.values())]
    for wanted in (*Family, None):
        left = [at for at in range(len(gold)) if at not in chosen and wanted in (None, family(gold_types[at]))]
        fits = [at for at in free if wanted in (None, family(types[at]))]
        # A family that does not occur equally often cannot be paired by itself; the last round pairs what is left.
        if wanted is None or len(left) == len(fits):
            chosen.update(zip(left, fits, strict=True))
            free = [at for at in free if at not in set(fits)]
    return tuple(chosen[at] for at in range(len(gold)))

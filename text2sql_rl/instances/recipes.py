"""How made rows differ from the real ones, as numbers.

In: nothing. Out: `Recipe` and those of the instances that are chosen for one question. shared.py, reserve.py and
aimed.py hold their own. Not here: making rows (rows.py).
"""

from __future__ import annotations

from dataclasses import dataclass

# No table gets longer than this, however long the real one is.
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Recipe:
    """How rows are changed; every share is a probability in [0, 1] a row and column.

    `mix` takes the cell of another row, `fresh` a value near the column's own, `border` a value around a literal,
    `tie` the cell of the row before, `twin` all cells of the row before (keys aside), `met` a value of a column that a
    statement compares this one with. `nulls` names the (table, column)s that get NULLs in a share `null` of their rows.

    `rows` bounds the size of a table; `grown` is the least size as a multiple of the real one, up to `longest` rows;
    `leaves` bounds the size of tables that no other refers to, where it is another. `blocks` makes these tables of
    blocks of twins: so many rows each, in turn.

    `lacks` is the turn of the value that a column of three or more does without, unless a gold speaks of it; -1 keeps
    all. `narrow` leaves a column that many of its values (0: all), unless its name in small letters is in `wide`; with
    `apart` a twin has values of its own in these.
    `turn` is the border that a column begins with; -1 draws it. `whole` gives a row whose key is made of references
    other parents rather than leaving it out.
    """

    name: str
    mix: float = 0.0
    fresh: float = 0.0
    border: float = 0.0
    tie: float = 0.0
    twin: float = 0.0
    nulls: frozenset[tuple[str, str]] = frozenset()
    null: float = 0.4
    rows: tuple[int, int] = (5, 14)
    grown: float = 0.0
    longest: int = _LONGEST
    leaves: tuple[int, int] | None = None
    lacks: int = -1
    narrow: int = 0
    wide: frozenset[str] = frozenset()
    apart: bool = False
    blocks: tuple[int, ...] = ()
    met: float = 0.0
    turn: int = -1
    whole: bool = False


# Gentle first: an instance that changes less is preferred when it tells as much.
RECIPES = (
    Recipe("mixed", mix=0.4, fresh=0.2, border=0.2, rows=(6, 16)),
    Recipe("borders", mix=0.2, fresh=0.1, border=0.6, rows=(8, 18)),
    Recipe("fresh", mix=0.3, fresh=0.6, border=0.1, rows=(5, 12)),
    Recipe("scrambled", mix=0.9, border=0.1, rows=(10, 24)),
    Recipe("ties", mix=0.3, border=0.2, tie=0.5, rows=(8, 18)),
    Recipe("large", mix=0.5, fresh=0.3, border=0.3, rows=(30, 45)),
    Recipe("sparse", mix=0.5, fresh=0.3, border=0.2, rows=(2, 5)),
)
# Small tables leave little room for luck; made when a mutant is still not told.
MORE_RECIPES = (
    Recipe("few", mix=0.7, fresh=0.3, border=0.2, rows=(2, 4)),
    Recipe("some", mix=0.7, fresh=0.4, border=0.1, rows=(3, 7)),
    Recipe("odd", mix=0.5, fresh=0.8, border=0.3, rows=(4, 9)),
    # Parents without children: what an outer join and an inner one differ in.
    Recipe("lonely", mix=0.5, border=0.2, rows=(8, 16), leaves=(2, 5)),
)

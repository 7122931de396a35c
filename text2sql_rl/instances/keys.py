"""Keys of one table while its rows are made: no value twice, in whatever order rows come.

In: groups of columns that are unique together, the real rows, and rows one at a time. Out: each row with keys that are
free, or refused. Not here: references to other tables (rows.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from text2sql_rl.instances.values import unused

Group = tuple[int, ...]


@dataclass(slots=True)
class Keys:
    """What is in use.

    Args:
        groups: sets of column positions, each unique together.
        bound: positions of references; their cells are not changed here.
        real: the real rows: a new number is none of theirs.
    """

    groups: tuple[Group, ...]
    bound: frozenset[int]
    real: Sequence[Sequence[Any]]
    _used: dict[Group, set[tuple[Any, ...]]] = field(default_factory=dict)
    _cells: dict[Group, set[Any]] = field(default_factory=dict)
    _tops: dict[Group, Any] = field(default_factory=dict)

    def take(self, row: list[Any]) -> bool:
        """Give the row unused keys and keep them; False where a key is made of references that are all in use."""
        for group in self.groups:
            used = self._used.setdefault(group, set())
            if tuple(row[at] for at in group) in used:
                free = self._free(group)
                if free is None:
                    return False
                row[free] = unused(row[free], self._cells[group], self._tops[group])
        if any(tuple(row[at] for at in group) in self._used[group] for group in self.groups):
            return False
        for group in self.groups:
            self._keep(group, row)
        return True

    def _keep(self, group: Group, row: list[Any]) -> None:
        self._used[group].add(tuple(row[at] for at in group))
        free = self._free(group)
        if free is None:
            return
        cell = row[free]
        if group not in self._cells:
            self._cells[group] = set()
            self._tops[group] = _top(real[free] for real in self.real)
        self._cells[group].add(cell)
        self._tops[group] = _top((self._tops[group], cell))

    def _free(self, group: Group) -> int | None:
        return next((at for at in group if at not in self.bound), None)


def _top(cells: Any) -> Any:
    """The highest of cells that have an order; None without any."""
    ordered = [cell for cell in cells if cell is not None]
    try:
        return max(ordered, default=None)
    except TypeError:
        return None

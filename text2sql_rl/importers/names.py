"""Names that DuckDB can tell apart.

In: names of tables or columns as a source has them. Out: the same names, changed only where one is empty or equals
another without regard to case. Not here: quoting.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Names:
    """The names given so far."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, name: str, fallback: str) -> str:
        """The name itself where it is free, else with a number; `fallback` where it is empty."""
        chosen = base = name.replace("\0", "") or fallback
        number = 1
        while chosen.lower() in self.taken:
            number += 1
            chosen = f"{base}_{number}"
        self.taken.add(chosen.lower())
        return chosen

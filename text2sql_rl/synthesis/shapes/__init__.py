"""All shapes of SQL, family by family, as one literal tuple; a shape's name is in the data and stays."""

from __future__ import annotations

from text2sql_rl.synthesis.shape import Shape
from text2sql_rl.synthesis.shapes import (
    aggregates,
    chains,
    filters,
    grouping,
    joins,
    nested,
    ordering,
    projection,
    sets,
)

SHAPES: tuple[Shape, ...] = (
    *projection.SHAPES,
    *filters.SHAPES,
    *aggregates.SHAPES,
    *grouping.SHAPES,
    *ordering.SHAPES,
    *joins.SHAPES,
    *chains.SHAPES,
    *nested.SHAPES,
    *sets.SHAPES,
)

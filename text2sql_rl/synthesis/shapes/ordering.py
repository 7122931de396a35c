"""Shapes that sort the rows of one table, and those that keep the first few."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from text2sql_rl.synthesis import conditions as on
from text2sql_rl.synthesis.profile import ColumnProfile, Profile, TableProfile
from text2sql_rl.synthesis.shape import Draft, Shape, a_table, shown, table_slots
from text2sql_rl.synthesis.wording import Phrase

_SORTED = Phrase(
    (
        "<show> the {c} of all {many} ordered by {k}, {how}",
        "<show> the {c} of the {many}, sorted by {k}, {how}",
        "what are the {c} of all {many}, sorted by {k}, {how}?",
        "sort the {many} by {k}, {how}, and <then> the {c}",
        "{c} of all {many} by {k}, {how}",
        "<show> the {c} of <each> {one} in order of {k}, {how}",
    ),
    (
        "order the {many} by {k} ({how}) and <then> their {c}",
        "arrange all {many} by {k}, {how}, and <then> the {c}",
        "I want the {c} of <each> {one}, ranked by {k}, {how}",
        "going by {k}, {how}, what is the {c} of <each> {one}?",
        "all {many} sorted on {k}, {how}: {c}",
        "the {c} of the {many} listed by {k}, {how}, please",
    ),
)
_SORTED_THAT = Phrase(
    (
        "<show> the {c} of {many} {that}, ordered by {k}, {how}",
        "<show> the {c} of the {many} {that}, sorted by {k}, {how}",
        "what are the {c} of {many} {that}, sorted by {k}, {how}?",
        "for {many} {that}, <then> the {c} sorted by {k}, {how}",
    ),
    (
        "take the {many} {that}, order them by {k} ({how}) and <then> the {c}",
        "considering only {many} {that}, <then> the {c} arranged by {k}, {how}",
        "{many} {that}, by {k}, {how}: {c}",
        "among {many} {that}, what is the {c} of each, ranked by {k}, {how}?",
    ),
)
_ASCENDING = Phrase(
    ("lowest first", "ascending", "from lowest to highest", "in ascending order"),
    ("smallest first", "increasing", "going up", "starting with the lowest"),
)
_DESCENDING = Phrase(
    ("highest first", "descending", "from highest to lowest", "in descending order"),
    ("largest first", "decreasing", "going down", "starting with the highest"),
)
_OLD_FIRST = Phrase(
    ("earliest first", "ascending", "in ascending order", "from earliest to latest"),
    ("oldest first", "in chronological order", "starting with the earliest"),
)
_NEW_FIRST = Phrase(
    ("latest first", "descending", "in descending order", "from latest to earliest"),
    ("newest first", "in reverse chronological order", "starting with the latest"),
)
_FIRST = Phrase(
    (
        "<show> the {c} of the {one} with the {best} {k}",
        "what is the {c} of the {one} with the {best} {k}?",
        "which {c} does the {one} with the {best} {k} have?",
        "for the {one} with the {best} {k}, <then> the {c}",
        "{c} of the {one} with the {best} {k}",
        "<show> the {c} of the {one} that has the {best} {k}",
    ),
    (
        "of all {many}, which one has the {best} {k}? <then> its {c}",
        "the {one} whose {k} is the {best}: what is its {c}?",
        "tell me the {c} of the {one} having the {best} {k}",
        "find the {one} with the {best} {k} and give its {c}",
        "looking at {k}, the {best} belongs to a {one} with which {c}?",
        "no {one} has {a_best} {k}: what is the {c} of the one with the {best}?",
    ),
)
_FIRST_THAT = Phrase(
    (
        "among {many} {that}, <then> the {c} of the one with the {best} {k}",
        "for {many} {that}, what is the {c} of the {one} with the {best} {k}?",
        "<show> the {c} of the {one} with the {best} {k} among {many} {that}",
        "what is the {c} of the {one} with the {best} {k} among {many} {that}?",
    ),
    (
        "considering only {many} {that}, which {c} goes with the {best} {k}?",
        "of the {many} {that}, take the one with the {best} {k} and <then> its {c}",
        "looking only at {many} {that}, the {one} with the {best} {k} has which {c}?",
        "<show> the {c} of whichever {one} has the {best} {k} of all {many} {that}",
    ),
)
_FIRST_FEW = Phrase(
    (
        "<show> the {c} of the {n} {many} with the {best} {k}",
        "what are the {c} of the {n} {many} with the {best} {k}?",
        "<show> the {c} of the {n} {many} that have the {best} {k}",
        "for the {n} {many} with the {best} {k}, <then> the {c}",
        "{c} of the {n} {many} with the {best} {k}",
    ),
    (
        "which {n} {many} have the {best} {k}? <then> the {c}, starting with the {best}",
        "rank the {many} by {k}, the {best} on top, and <then> the {c} of the leading {n}",
        "I only want the {n} {many} with the {best} {k}: <then> their {c}",
        "take {n} {many}, those with the {best} {k}, and <then> the {c}",
        "sort by {k}, the {best} at the start, and <then> the {c} of {n} {many}",
    ),
)
_BEST = {
    ("number", "DESC"): Phrase(("<highest>",)),
    ("number", "ASC"): Phrase(("<lowest>",)),
    ("date", "DESC"): Phrase(("<latest>",)),
    ("date", "ASC"): Phrase(("<earliest>",)),
}
_BETTER = {
    ("number", "DESC"): "a higher",
    ("number", "ASC"): "a lower",
    ("date", "DESC"): "a later",
    ("date", "ASC"): "an earlier",
}

Draw = Callable[[Profile, Random], Draft | None]


def _kind(column: ColumnProfile) -> str:
    return "date" if column.kind in ("date", "timestamp") else "number"


def _key(table: TableProfile, r: Random) -> ColumnProfile | None:
    """A column to sort by, with no unknown values: their place in the order is the engine's choice."""

    def fits(column: ColumnProfile) -> bool:
        ordered = column.kind in ("number", "date", "timestamp")
        return ordered and not column.key and column.nulls == 0 and column.distinct > 3

    return table.pick(r, fits)


def _sorted(direction: str, *, filtered: bool = False) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        key, chosen = _key(table, r), shown(table, r)
        where = on.condition(table, r, avoid=key.name, rows=True) if filtered and key else None
        if key is None or chosen is None or chosen[0] is key or (filtered and where is None):
            return None
        how = {("number", "ASC"): _ASCENDING, ("number", "DESC"): _DESCENDING, ("date", "ASC"): _OLD_FIRST}
        slots: dict[str, str | Phrase] = {
            **table_slots(table),
            "c": chosen[0].words,
            "k": key.words,
            "how": how.get((_kind(key), direction), _NEW_FIRST),
        }
        kept = ""
        if where is not None:
            slots["that"], kept = where.that, f" WHERE {where.sql()}"
        return Draft(f"SELECT {chosen[0].sql} FROM {table.sql}{kept} ORDER BY {key.sql} {direction}", slots)

    return draw


def _first(direction: str, *, columns: int = 1, few: bool = False, filtered: bool = False) -> Draw:
    def draw(profile: Profile, r: Random) -> Draft | None:
        table = a_table(profile, r)
        key, chosen = _key(table, r), shown(table, r, columns)
        where = on.condition(table, r, avoid=key.name, rows=True) if filtered and key else None
        if key is None or chosen is None or (columns == 1 and key in chosen) or (filtered and where is None):
            return None
        count = r.choice((2, 3, 3, 4, 5, 5, 6)) if few else 1
        slots: dict[str, str | Phrase] = {
            **table_slots(table),
            "c": " and ".join(c.words for c in chosen),
            "k": key.words,
            "n": str(count),
            "best": _BEST[_kind(key), direction],
            "a_best": _BETTER[_kind(key), direction],
        }
        kept = ""
        if where is not None:
            slots["that"], kept = where.that, f" WHERE {where.sql()}"
        names = ", ".join(c.sql for c in chosen)
        sql = f"SELECT {names} FROM {table.sql}{kept} ORDER BY {key.sql} {direction} LIMIT {count}"
        return Draft(sql, slots)

    return draw


SHAPES = (
    Shape("order_ascending", "easy", _SORTED, _sorted("ASC")),
    Shape("order_descending", "easy", _SORTED, _sorted("DESC")),
    Shape("order_filter", "medium", _SORTED_THAT, _sorted("DESC", filtered=True), rare=True),
    Shape("top_one", "medium", _FIRST, _first("DESC")),
    Shape("bottom_one", "medium", _FIRST, _first("ASC")),
    Shape("top_one_two_columns", "medium", _FIRST, _first("DESC", columns=2)),
    Shape("top_few", "medium", _FIRST_FEW, _first("DESC", few=True)),
    Shape("bottom_few", "medium", _FIRST_FEW, _first("ASC", few=True)),
    Shape("top_filter", "hard", _FIRST_THAT, _first("DESC", filtered=True)),
)

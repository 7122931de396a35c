"""Shapes that show columns of all rows of one table."""

from __future__ import annotations

from random import Random

from text2sql_rl.synthesis.conditions import condition
from text2sql_rl.synthesis.profile import Profile
from text2sql_rl.synthesis.shape import Draft, Shape, a_table, shown, table_slots
from text2sql_rl.synthesis.wording import Phrase

_ALL = Phrase(
    (
        "<show> the {c} of all {many}",
        "<show> the {c} of <each> {one}",
        "what is the {c} of <each> {one}?",
        "what are the {c} of all {many}?",
        "for <each> {one}, <then> the {c}",
        "<show> the {c} for all {many}",
        "{c} of all {many}",
    ),
    (
        "I need the {c} for <each> {one}",
        "go through all {many} and <then> their {c}",
        "[could you|can you|would you] give me the {c} of all {many}?",
        "all {many}: {c}",
        "<each> {one} with just its {c}",
        "the {c} recorded for <each> {one}, please",
        "take the {many} and <then> the {c} of each",
        "for all the {many} we have, what is the {c}?",
    ),
)
_DISTINCT = Phrase(
    (
        "<show> the <distinct> {c} of all {many}",
        "what are the <distinct> {c} of {many}?",
        "<show> all <distinct> {c} of the {many}",
        "which <distinct> {c} do {many} have?",
        "<distinct> {c} of {many}",
        "<show> each <distinct> {c} of the {many}",
    ),
    (
        "<show> the {c} of the {many} without duplicates",
        "<show> the {c} of the {many}, each only once",
        "what {c} values occur among the {many}, without repeats?",
        "which different values does {c} take in {many}?",
        "across all {many}, what are the <distinct> {c}?",
        "the set of {c} over all {many}",
    ),
)
_DISTINCT_PAIRS = Phrase(
    (
        "<show> the <distinct> combinations of {c} and {d} of all {many}",
        "what are the <distinct> combinations of {c} and {d} of {many}?",
        "<show> all <distinct> pairs of {c} and {d} of the {many}",
        "which <distinct> combinations of {c} and {d} do {many} have?",
    ),
    (
        "<show> the {c} and {d} of the {many} without duplicates",
        "<show> each combination of {c} and {d} of the {many} only once",
        "across all {many}, which <distinct> pairs of {c} and {d} occur?",
        "the set of {c} and {d} pairs over all {many}",
    ),
)
_DISTINCT_THAT = Phrase(
    (
        "<show> the <distinct> {c} of {many} {that}",
        "what are the <distinct> {c} of {many} {that}?",
        "which <distinct> {c} do {many} {that} have?",
        "for {many} {that}, <then> the <distinct> {c}",
        "<distinct> {c} of {many} {that}",
    ),
    (
        "<show> the {c} of {many} {that}, without duplicates",
        "<show> the {c}, each only once, of {many} {that}",
        "among {many} {that}, which different {c} occur?",
        "considering only {many} {that}, what are the <distinct> {c}?",
        "the set of {c} over {many} {that}",
    ),
)


def _one(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    columns = shown(table, r)
    if columns is None:
        return None
    return Draft(f"SELECT {columns[0].sql} FROM {table.sql}", {**table_slots(table), "c": columns[0].words})


def _two(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    columns = shown(table, r, 2)
    if columns is None:
        return None
    one, two = columns
    words = f"{one.words} and {two.words}"
    return Draft(f"SELECT {one.sql}, {two.sql} FROM {table.sql}", {**table_slots(table), "c": words})


def _distinct(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    column = table.pick(r, lambda c: not c.unique and c.nulls == 0 and not c.key and 1 < c.distinct < c.rows)
    if column is None:
        return None
    return Draft(f"SELECT DISTINCT {column.sql} FROM {table.sql}", {**table_slots(table), "c": column.words})


def _distinct_two(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    fit = [c for c in table.columns if not c.unique and c.nulls == 0 and not c.key and 1 < c.distinct < c.rows / 2]
    if len(fit) < 2:
        return None
    one, two = r.sample(fit, 2)
    sql = f"SELECT DISTINCT {one.sql}, {two.sql} FROM {table.sql}"
    return Draft(sql, {**table_slots(table), "c": one.words, "d": two.words})


def _distinct_that(profile: Profile, r: Random) -> Draft | None:
    table = a_table(profile, r)
    column = table.pick(r, lambda c: not c.unique and c.nulls == 0 and not c.key and 1 < c.distinct < c.rows)
    where = condition(table, r, avoid=column.name, rows=True) if column else None
    if column is None or where is None:
        return None
    sql = f"SELECT DISTINCT {column.sql} FROM {table.sql} WHERE {where.sql()}"
    return Draft(sql, {**table_slots(table), "c": column.words, "that": where.that})


SHAPES = (
    Shape("project_one", "easy", _ALL, _one),
    Shape("project_two", "easy", _ALL, _two),
    Shape("distinct", "easy", _DISTINCT, _distinct),
    Shape("distinct_two", "medium", _DISTINCT_PAIRS, _distinct_two, rare=True),
    Shape("distinct_filter", "medium", _DISTINCT_THAT, _distinct_that),
)

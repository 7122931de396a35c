from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.synthesis.literals import literal, spoken
from text2sql_rl.synthesis.shapes import SHAPES
from text2sql_rl.synthesis.wording import BANKS, Phrase, say
from text2sql_rl.synthesis.words import article, plural, singular, words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("race_entry", "race entry"),
        ("RaceEntry", "race entry"),
        ("Race  Entry", "race entry"),
        ("distance_m", "distance m"),
        ("wörter", "wörter"),
        ("9lives", "9lives"),
        ("€", "€"),
    ],
)
def test_names_become_words(name: str, words: str) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("horse", "horses"),
        ("race entry", "race entries"),
        ("match", "matches"),
        ("box", "boxes"),
        ("glass", "glasses"),
        ("species", "species"),
        ("person", "people"),
        ("day", "days"),
        ("volcano", "volcanoes"),
        ("bus", "buses"),
    ],
)
def test_singular_and_plural(one: str, many: str) -> None:
    assert plural(one) == many
    assert singular(one) == one
    assert plural(many) == many


def test_article() -> None:
    assert [article(w) for w in ("entry", "horse")] == ["an entry", "a horse"]


values = (
    st.integers(-(10**12), 10**12)
    | st.booleans()
    | st.text(max_size=12).filter(lambda t: "\0" not in t and t.isprintable())
    | st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
    | st.decimals(-1000, 1000, places=2)
    | st.floats(-1e6, 1e6).map(lambda x: round(x, 4))
)


@settings(max_examples=80, deadline=None)
@given(values)
def test_a_literal_means_its_value(value: object) -> None:
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {literal(value)}").fetchone()
    assert found is not None
    if isinstance(value, dt.date):
        assert found[0] == value.isoformat()
    elif isinstance(value, float | Decimal):
        assert float(found[0]) == pytest.approx(float(value))
    else:
        assert found[0] == value


def test_words_keep_texts_verbatim_and_numbers_in_digits() -> None:
    said = {spoken("O'Shea  x", Random(seed)) for seed in range(40)}
    assert said == {"O'Shea  x", '"O\'Shea  x"'}
    assert [spoken(v, Random(0)) for v in (Decimal("7.50"), 14.0, 2.5, True, dt.date(2020, 1, 2))] == [
        "7.5",
        "14",
        "2.5",
        "true",
        "2020-01-02",
    ]


def test_common_wording_stays_in_common_forms_and_synonyms() -> None:
    phrase = Phrase(("<show> a {x}",), ("RARE {x}",), {"x": Phrase(("one",), ("RARE",))})
    common = {say(phrase, Random(seed), common=True) for seed in range(60)}
    assert common == {f"{verb[:1].upper()}{verb[1:]} a one" for verb in BANKS["show"].common}
    mixed = {say(phrase, Random(seed), common=False) for seed in range(60)}
    assert any("RARE" in text for text in mixed)
    assert len(mixed) > len(common)


def test_literals_are_not_read_as_forms() -> None:
    phrase = Phrase(("is [a|b] {v}",), (), {"v": "<show>  [x|y] {z}"})
    assert {say(phrase, Random(s), common=True) for s in range(9)} == {
        "Is a <show>  [x|y] {z}",
        "Is b <show>  [x|y] {z}",
    }


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_shape_has_many_different_forms_of_both_kinds(shape: object) -> None:
    forms = shape.forms  # type: ignore[attr-defined]
    assert len(forms.common) >= 4
    assert len(forms.rare) >= 4
    assert len(set(forms.common + forms.rare)) == len(forms.common) + len(forms.rare)


def test_shapes_are_many_and_have_names_of_their_own() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 45
    assert {shape.hardness for shape in SHAPES} == {"easy", "medium", "hard"}
    assert 10 < sum(shape.rare for shape in SHAPES) < len(SHAPES) / 2

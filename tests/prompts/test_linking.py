"""Lexical linking: what a question's words name."""

import pytest

from text2sql_rl.prompts.linking import Lexicon, build_lexicon, lemma, link, name_key
from text2sql_rl.records import Column, Database, Table

WORDS = frozenset(["how", "many", "the", "with", "which", "are", "of", "by", "show", "over"])


@pytest.fixture
def lexicon() -> Lexicon:
    table = Table(
        name="race_entry",
        columns=(Column(name="horse_name", type="VARCHAR"), Column(name="prize", type="INTEGER")),
    )
    values = [("race_entry", "horse_name", "Desert Wind"), ("race_entry", "horse_name", "Show")]
    return build_lexicon(Database(name="d", tables=(table,), instances=()), values)


def kinds(text: str, lexicon: Lexicon) -> list[tuple[str, str]]:
    return [(mention.kind, mention.text) for mention in link(text, lexicon, WORDS)]


def test_names_are_found_in_the_plural_and_in_any_case(lexicon: Lexicon) -> None:
    assert kinds("Show the Race Entries by PRIZE", lexicon) == [
        ("value", "Show"),
        ("word", "the"),
        ("name", "Race Entries"),
        ("word", "by"),
        ("name", "PRIZE"),
    ]


def test_a_common_word_is_a_value_only_as_it_is_stored(lexicon: Lexicon) -> None:
    assert kinds("show prizes", lexicon) == [("word", "show"), ("name", "prizes")]


def test_a_name_written_in_part(lexicon: Lexicon) -> None:
    mentions = link("which horses", lexicon, WORDS)
    assert [(m.kind, m.key) for m in mentions] == [("word", ()), ("part", ("horse", "name"))]


def test_values_numbers_dates_and_quotes_are_literals(lexicon: Lexicon) -> None:
    mentions = link("desert wind over 1,250.5 by 2021-03-04 with 'no one' of O'Neil", lexicon, WORDS)
    found = [(m.kind, m.literal) for m in mentions if m.literal]
    assert found == [
        ("value", "'Desert Wind'"),
        ("number", "1250.5"),
        ("date", "'2021-03-04'"),
        ("text", "'no one'"),
        ("text", "'O''Neil'"),
    ]


def test_neighbouring_unknown_names_are_one(lexicon: Lexicon) -> None:
    assert kinds("the Old Mill, Norwich", lexicon) == [("word", "the"), ("text", "Old Mill"), ("text", "Norwich")]


@pytest.mark.parametrize(
    ("word", "stem"),
    [("entries", "entry"), ("dishes", "dish"), ("classes", "class"), ("status", "status"), ("gas", "ga"), ("Is", "is")],
)
def test_lemma(word: str, stem: str) -> None:
    assert lemma(word) == stem


def test_names_split_at_case_and_underscores() -> None:
    assert name_key("raceEntry") == name_key("race_entries") == ("race", "entry")

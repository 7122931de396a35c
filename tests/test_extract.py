"""Extraction: golden forms, properties over padding, and hostile texts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.extract import extract

SQL = "SELECT name FROM singer WHERE age > 35"

FORMS = {
    "bare": SQL,
    "bare with semicolon": f"  {SQL};\n",
    "fence": f"```sql\n{SQL}\n```",
    "fence without language": f"```\n{SQL};\n```",
    "fence on one line": f"```sql {SQL}```",
    "answer tag": f"<answer>{SQL}</answer>",
    "sql tag": f"<SQL>\n{SQL}\n</SQL>",
    "tag around fence": f"<answer>\n```sql\n{SQL}\n```\n</answer>",
    "after a thought": f"<think>Is it age? I'd say so: SELECT 1</think>\n{SQL}",
    "after an open thought": f"I don't know `age` ... ```sql\nSELECT 2\n```\n</think>\n```sql\n{SQL}\n```",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_accepted_forms_give_the_same_clean_candidate(text: str) -> None:
    candidate = extract(text)
    assert (candidate.sql, candidate.answers, candidate.clean, candidate.reason) == (SQL, 1, True, "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("```sql\n```", "empty"),
        ("<answer> </answer>", "empty"),
        ("<think>hm</think>", "empty"),
        ("I cannot answer that.", "no_sql"),
        ("<answer>42</answer>", "no_sql"),
        ("-- only a comment", "no_sql"),
        ("The answer is `SELECT 1`.", "no_sql"),
        ("```python\nprint('SELECT 1')\n```", "no_sql"),
        (f"```sql\n{SQL}", "unclosed"),
        (f"<answer>{SQL}", "unclosed"),
        (f"<think>maybe {SQL}", "unclosed"),
        (f"Well <think>maybe\n```sql\n{SQL}\n```", "unclosed"),
    ],
)
def test_no_candidate_has_a_named_reason(text: str, reason: str) -> None:
    candidate = extract(text)
    assert (candidate.sql, candidate.reason, candidate.answers, candidate.clean) == (None, reason, 0, False)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ';' FROM t",
        "SELECT 'a;b', \"c;d\" FROM t",
        "SELECT 'it''s; fine' FROM t",
        "SELECT E'it\\'s; fine' FROM t",
        "SELECT $$a;b$$ FROM t",
        "SELECT $tag$a;$$b$tag$ FROM t",
        "SELECT a -- one; two\nFROM t",
        "SELECT a /* one; /* two; */ three; */ FROM t",
        "SELECT `a;b` FROM `t`",
        "SELECT '</think>' AS a, '<answer>' AS b, '```' AS c FROM t",
        "SELECT '<think>' FROM t",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "(SELECT a FROM t) UNION (SELECT b FROM t)",
        "/* why */ SELECT a FROM t",
        "FROM t SELECT a",
        "DROP TABLE t",
        "COPY t TO 'x.csv'",
    ],
)
@pytest.mark.parametrize("wrap", ["{}", "{};", "```sql\n{}\n```", "<answer>{}</answer>", "<sql>\n{}\n</sql>"])
def test_literals_comments_and_quotes_are_never_cut(sql: str, wrap: str) -> None:
    candidate = extract(wrap.format(sql))
    assert (candidate.sql, candidate.answers, candidate.clean) == (sql, 1, True)


@pytest.mark.parametrize(
    ("text", "sql", "answers"),
    [
        ("SELECT 1; SELECT 2", "SELECT 1; SELECT 2", 2),
        ("```sql\nSELECT 1\n```\n```sql\nSELECT 2\n```", "SELECT 1", 2),
        ("<answer>SELECT 1</answer><answer>SELECT 2</answer>", "SELECT 1", 2),
        ("SELECT 1;\n```sql\nSELECT 2\n```", "SELECT 1", 2),
        ("```sql\nSELECT 1\n```\nor\n```sql\nSELECT 2", "SELECT 1", 2),
        ("```sql\nSELECT 1; DROP TABLE t\n```", "SELECT 1; DROP TABLE t", 2),
        ("```sql\nSELECT 1\n```\n```sql\nselect  1 -- again\n```", "SELECT 1", 1),
        ("SELECT 1; SELECT 1;", "SELECT 1", 1),
        ("SELECT 1;\n\nQuestion: how many?", "SELECT 1", 1),
        ("SELECT 1; -- done", "SELECT 1", 1),
        ("Here's the SQL:\n```sql\nSELECT 1\n```\nIt's good.", "SELECT 1", 1),
        ("With this in mind, here's it:\n```sql\nSELECT 'x'\n```", "SELECT 'x'", 1),
        ("I put it in <sql> tags: <sql>SELECT 1</sql>", "SELECT 1", 1),
        ("```python\nx\n```\n```sql\nSELECT 1\n```", "SELECT 1", 1),
        ("```sql\nSELECT 1 FROM t WHERE a = 'odd\n```", "SELECT 1 FROM t WHERE a = 'odd", 1),
        ("<answer>SELECT 1 -- note</answer>", "SELECT 1 -- note", 1),
    ],
)
def test_counts_distinct_answers(text: str, sql: str, answers: int) -> None:
    candidate = extract(text)
    assert (candidate.sql, candidate.answers) == (sql, answers)
    clean_texts = ("SELECT 1; -- done", "<answer>SELECT 1 -- note</answer>")
    assert candidate.clean is (text in clean_texts or "'odd" in text)


words = st.text(alphabet="abc XYZ.,:\n", max_size=30)


@given(before=words, after=words)
@settings(max_examples=60, deadline=None)
def test_padding_around_a_block_changes_nothing_but_cleanness(before: str, after: str) -> None:
    candidate = extract(f"{before}\n```sql\n{SQL}\n```\n{after}")
    assert (candidate.sql, candidate.answers) == (SQL, 1)
    assert candidate.clean is not bool((before + after).strip())


@given(st.integers(min_value=2, max_value=8))
@settings(max_examples=10, deadline=None)
def test_repeating_the_answer_never_makes_another_one(times: int) -> None:
    candidate = extract(f"```sql\n{SQL}\n```\n" * times)
    assert (candidate.sql, candidate.answers, candidate.clean) == (SQL, 1, False)


@given(
    st.lists(st.sampled_from((" ", "\n", "\t", " /* a; b */ ", " -- c; 'd\n")), min_size=3, max_size=3),
    st.sampled_from((str.upper, str.lower, str.title)),
)
@settings(max_examples=60, deadline=None)
def test_case_space_and_comments_do_not_make_another_answer(gaps: list[str], case: Callable[[str], str]) -> None:
    again = gaps[0].join((case("select"), "*", case("from"))) + f"{gaps[1]}t {case('where')} a = 'X;y'{gaps[2]}"
    candidate = extract(f"```sql\nSELECT * FROM t WHERE a = 'X;y'\n```\n```sql\n{again}\n```")
    assert (candidate.sql, candidate.answers, candidate.clean) == ("SELECT * FROM t WHERE a = 'X;y'", 1, False)
    other = extract(f"```sql\nSELECT * FROM t WHERE a = 'x;y'\n```\n```sql\n{again}\n```")
    assert other.answers == 2


@given(st.text(alphabet="`'\"$;-/*<>\\ \nEesqlanwrthik/SELECT1,", max_size=120))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_a_candidate_or_a_reason(text: str) -> None:
    candidate = extract(text)
    if candidate.sql is None:
        assert candidate.reason in ("empty", "no_sql", "unclosed")
        assert candidate.answers == 0
    else:
        assert candidate.reason == ""
        assert candidate.answers >= 1
        assert candidate.sql.strip() == candidate.sql != ""
        assert candidate.sql in text


HOSTILE = {
    "backticks": "`",
    "fences": "``` ",
    "fences with SQL": "```\nSELECT 1 /* /* */\n",
    "open tags": "<sql>",
    "answers": "<answer>SELECT 1</answer>",
    "quotes": "SELECT '",
    "escaped quotes": "SELECT E'\\'",
    "dollars": "$a$b",
    "long dollar": "$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "comments": "/*",
    "line comments": "SELECT 1 -- <sql>```",
    "statements": "SELECT 1;",
    "parentheses": "(",
    "thoughts": "<think>",
    "closed thoughts": "</think>SELECT '",
    "mixture": "SELECT '`$$\"/*<sql>```",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_takes_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        start = time.process_time()
        extract(text)
        extract("SELECT " + text)
        extract("<sql>SELECT " + text + "</sql>")
        return time.process_time() - start

    seconds(1_000)
    assert seconds(100_000) < 2.0

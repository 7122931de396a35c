"""Writing the same answer differently earns the same, and padding earns nothing: through the real judge, on real rows.

Each example is judged once and then scored under every released rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text2sql_rl.content import open_store
from text2sql_rl.judge import Judge
from text2sql_rl.records import Completion, Database, Finish, Question, Rollout, Split
from text2sql_rl.scoring import load_rule, rejudge, rule_names

RULES = [load_rule(name) for name in rule_names()]
GOLD = "SELECT species, weight_kg FROM animal WHERE diet = 'carnivore' ORDER BY 2, 1"
QUESTION = Question(id="q", database="aquarium", text="", gold_sql=GOLD, split=Split.TRAIN, role="rl")
# {a}, {b}: aliases of the answer's columns; {t} and {T}: of the table.
ANSWERS = {
    "equivalent": "SELECT {t}species{a}, {t}weight_kg{b} FROM animal{T} WHERE {t}diet = 'carnivore' ORDER BY 2, 1",
    "near": "SELECT {t}species{a}, {t}weight_kg{b} FROM animal{T} WHERE {t}diet = 'carnivore' ORDER BY 1 DESC",
    "wrong": "SELECT {t}nickname{a}, {t}weight_kg{b} FROM animal{T} WHERE {t}diet = 'carnivore'",
    "empty": "SELECT {t}species{a}, {t}weight_kg{b} FROM animal{T} WHERE {t}diet = 'Carnivore'",
    "constant": "SELECT 'moray eel'{a}, 3.6{b}",
    "error": "SELECT {t}specie{a}, {t}weight_kg{b} FROM animal{T} WHERE {t}diet = 'carnivore'",
    "refused": "DELETE FROM animal{T} WHERE {t}diet = 'carnivore'",
}


class Bench:
    """One open judge, and what each plain answer earns under every rule."""

    def __init__(self, judge: Judge, database: Database) -> None:
        self._judge, self._database = judge, database
        self.plain = {place: self.totals(self.judged(written(text))) for place, text in ANSWERS.items()}

    def judged(self, text: str, finish: Finish = Finish.STOP) -> Rollout:
        completion = Completion(question_id="q", text=text, raw=text, finish=finish, tokens=0)
        return self._judge.judge([(QUESTION, self._database, completion)])[0]

    @staticmethod
    def totals(rollout: Rollout) -> list[float]:
        found = [rejudge(rollout, rule).reward.total for rule in RULES]
        assert all(total is not None for total in found)
        return [total for total in found if total is not None]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Judge(RULES[0]) as judge:
        yield Bench(judge, open_store().get("aquarium"))


def written(template: str, a: str = "", b: str = "", table: str = "") -> str:
    return template.format(
        a=f" AS {a}" if a else "",
        b=f" AS {b}" if b else "",
        t=f"{table}." if table else "",
        T=f" {table}" * bool(table),
    )


def outside_literals(sql: str, change: st.DrawFn, alter: object) -> str:
    assert callable(alter)
    parts = re.split(r"('[^']*')", sql)
    return "".join(part if part.startswith("'") else alter(change, part) for part in parts)


def recased(draw: st.DrawFn, part: str) -> str:
    return draw(st.sampled_from((str.upper, str.lower, str.title)))(part)


def spaced(draw: st.DrawFn, part: str) -> str:
    gaps = (" ", "  ", "\n", "\t", " /* so */ ", " -- so\n", " /* SELECT 1 */ ", "/**/ ")
    return re.sub(" ", lambda _: draw(st.sampled_from(gaps)), part)


ALIASES = st.sampled_from(("", "a", "answer", '"the answer"', "x1"))


@st.composite
def rewritten(draw: st.DrawFn) -> tuple[str, str]:
    """A place of `ANSWERS`, and its answer with other aliases, case, white space and comments."""
    place = draw(st.sampled_from(sorted(ANSWERS)))
    table = "" if place == "refused" else draw(st.sampled_from(("", "t", "animal_1")))
    text = written(ANSWERS[place], draw(ALIASES), draw(ALIASES), table)
    for alter in (recased, spaced):
        if draw(st.booleans()):
            text = outside_literals(text, draw, alter)
    return place, text + draw(st.sampled_from(("", ";", " ; ", "\n", " -- done")))


def test_the_plain_answers_stand_where_they_are_meant_to(bench: Bench) -> None:
    for place, text in ANSWERS.items():
        assert bench.judged(written(text)).cause == place


@given(answer=rewritten())
@settings(max_examples=80, deadline=None)
def test_aliases_case_white_space_and_comments_change_no_reward(bench: Bench, answer: tuple[str, str]) -> None:
    place, text = answer
    rollout = bench.judged(text)
    assert rollout.cause == place, text
    assert bench.totals(rollout) == bench.plain[place], text


WORDS = st.text(alphabet="abc XYZ.,:'\"`;<>/*-\n{}()$", max_size=30)


@given(
    answer=rewritten(),
    before=WORDS,
    after=WORDS,
    times=st.integers(1, 4),
    wrap=st.sampled_from(("{}", "```sql\n{}\n```", "<answer>{}</answer>")),
)
@settings(max_examples=80, deadline=None)
def test_padding_and_repeats_never_earn_more(
    bench: Bench, answer: tuple[str, str], before: str, after: str, times: int, wrap: str
) -> None:
    place, text = answer
    padded = before + "\n".join([wrap.replace("{}", text)] * times) + after
    rollout = bench.judged(padded)
    for total, plain, rule in zip(bench.totals(rollout), bench.plain[place], RULES, strict=True):
        # Padding can break what it pads: a statement that was worse than an error is then one.
        failed = bench.plain["error"][RULES.index(rule)]
        assert total <= max(plain, failed), (rule.name, padded)


@given(answer=rewritten())
@settings(max_examples=20, deadline=None)
def test_running_on_never_earns_more(bench: Bench, answer: tuple[str, str]) -> None:
    place, text = answer
    rollout = bench.judged(text)
    cut = replace(rollout, completion=replace(rollout.completion, finish=Finish.LENGTH))
    assert all(total <= plain for total, plain in zip(bench.totals(cut), bench.plain[place], strict=True))

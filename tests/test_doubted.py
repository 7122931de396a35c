"""A second look at candidates that match on the real rows: luck of every kind ends there, and right answers pass.

The rows come from files and run on the engine alone, without a sandbox.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import duckdb
import pytest

from text2sql_rl.databases import read_schema
from text2sql_rl.gold import prepare_golds
from text2sql_rl.instances import doubted
from text2sql_rl.instances.compared import column_meets, group_sizes, ordering_columns
from text2sql_rl.instances.keys import Keys
from text2sql_rl.instances.otherwise import says_otherwise
from text2sql_rl.instances.recipes import Recipe
from text2sql_rl.instances.reserve import Reserve
from text2sql_rl.instances.rows import Maker, Source
from text2sql_rl.records import Column, Database, Execution, ForeignKey, Instance, Outcome, Table
from text2sql_rl.sandbox import Job, Limits

TOWNS, GUILDS = ("Bath", "Chard", "Frome", "Wells", "Yeovil"), ("baker", "cooper", "dyer")
NAMES = ("Fisher", "Anstey", "Bower", "Carne", "Drake", "Elworthy", "Gale", "Hole", "Ivey", "Jory", "Keen", "Lake")
# No key says so, but `stall.holder` and `trader.name` are compared in golds; in the real rows none meets.
SETUP = """
CREATE TABLE trader(id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, town VARCHAR, guild VARCHAR NOT NULL,
                    wage INTEGER NOT NULL, since DATE NOT NULL);
CREATE TABLE sale(id INTEGER PRIMARY KEY, trader_id INTEGER NOT NULL REFERENCES trader(id), goods VARCHAR NOT NULL,
                  price INTEGER, paid_on DATE NOT NULL);
CREATE TABLE stall(code VARCHAR NOT NULL, holder VARCHAR NOT NULL, street VARCHAR NOT NULL);
CREATE TABLE badge(bearer VARCHAR NOT NULL, colour VARCHAR NOT NULL);
"""


@dataclass(slots=True)
class Engine:
    """Runs jobs in this process; nothing of the real file stays open, since the room opens it as well."""

    limits: Limits
    made: dict[str, duckdb.DuckDBPyConnection] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> tuple[Execution, ...]:
        return tuple(self._one(job) for job in jobs)

    def _one(self, job: Job) -> Execution:
        if not job.instance.index:
            with duckdb.connect(str(job.instance.path), read_only=True) as connection:
                return executed(connection, job.sql)
        if job.instance.sha256 not in self.made:
            self.made[job.instance.sha256] = duckdb.connect(str(job.instance.path), read_only=True)
        return executed(self.made[job.instance.sha256], job.sql)


def executed(connection: duckdb.DuckDBPyConnection, sql: str) -> Execution:
    try:
        rows = connection.execute(sql).fetchall()
    except duckdb.Error as error:
        return Execution(outcome=Outcome.ERROR, reason=str(error))
    columns = connection.description or []
    return Execution(
        outcome=Outcome.ROWS,
        columns=tuple(str(column[0]) for column in columns),
        types=tuple(str(column[1]) for column in columns),
        rows=tuple(rows),
    )


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Database:
    path, draw = tmp_path_factory.mktemp("market") / "market.duckdb", random.Random(4)
    with duckdb.connect(str(path)) as connection:
        connection.execute(SETUP)
        for at in range(1, 25):
            values = [at, f"{NAMES[at % len(NAMES)]} {at}", draw.choice(TOWNS), draw.choice(GUILDS), 100 + 7 * at]
            connection.execute("INSERT INTO trader VALUES (?, ?, ?, ?, ?, DATE '2001-01-01' + ?)", [*values, 31 * at])
        for at in range(1, 91):
            trader = min(24, 1 + at // 3 % 9 * (1 + at % 3))
            values = [at, trader, draw.choice(("bread", "cask", "cloth")), 3 + at % 11, at]
            connection.execute("INSERT INTO sale VALUES (?, ?, ?, ?, DATE '2020-01-01' + ?)", values)
        for at in range(1, 16):
            connection.execute("INSERT INTO stall VALUES (?, ?, ?)", [f"S{at}", f" Anstey {at}", draw.choice(TOWNS)])
        connection.execute("INSERT INTO badge SELECT CAST(1 + n % 9 AS VARCHAR), 'red' FROM range(20) AS _(n)")
        connection.execute("UPDATE trader SET town = NULL WHERE id = 2")
        connection.execute("UPDATE sale SET price = NULL WHERE id = 7")
    real = Instance(database="market", index=0, path=path, sha256="market")
    return Database(name="market", tables=read_schema(path), instances=(real,))


@pytest.fixture(scope="module")
def aim() -> Iterator[doubted.Doubts]:
    one = doubted.Doubts()
    yield one
    one.close()


JOINED = "FROM sale JOIN trader ON sale.trader_id = trader.id"
# gold, what is lucky on the real rows: each is a kind that a search has found.
LUCKY = {
    "a limit that fits": (
        f"SELECT sale.goods {JOINED} WHERE trader.guild = 'dyer'",
        f"SELECT sale.goods {JOINED} WHERE trader.guild = 'dyer' LIMIT 90",
    ),
    "a limit on groups joined through text": (
        "SELECT name, count(*) FROM badge JOIN trader ON trader.id = TRY_CAST(badge.bearer AS INTEGER) GROUP BY name",
        "SELECT name, count(*) FROM badge JOIN trader ON trader.id = badge.bearer GROUP BY name LIMIT 9",
    ),
    "one of equal rows kept, and another one first": (
        "SELECT town FROM trader ORDER BY since LIMIT 1",
        "SELECT DISTINCT town FROM trader ORDER BY since LIMIT 1",
    ),
    "one of two conditions that the same group meets": (
        "SELECT town FROM trader WHERE wage < 130 INTERSECT SELECT town FROM trader WHERE wage > 200",
        "SELECT town FROM trader WHERE wage <= 130 INTERSECT SELECT town FROM trader WHERE wage > 200",
    ),
    "a value of its own for one row": (
        "SELECT wage FROM trader WHERE name IN ('Anstey 1', 'Bower 2')",
        "SELECT CASE WHEN id = 1 THEN 107 ELSE wage END FROM trader WHERE name IN ('Anstey 1', 'Bower 2')",
    ),
    "a limit on different values": (
        "SELECT DISTINCT name FROM trader WHERE town = 'Bath'",
        "SELECT DISTINCT name FROM trader WHERE town = 'Bath' LIMIT 24",
    ),
    "duplicates by ALL": (
        "SELECT town FROM trader WHERE guild = 'dyer' INTERSECT SELECT town FROM trader WHERE guild = 'baker'",
        "SELECT town FROM trader WHERE guild = 'dyer' INTERSECT ALL SELECT town FROM trader WHERE guild = 'baker'",
    ),
    "duplicates lost in a union": (
        "SELECT name FROM trader ORDER BY wage DESC LIMIT 3",
        "(SELECT name FROM trader ORDER BY wage DESC LIMIT 3) UNION"
        " (SELECT name FROM trader ORDER BY wage DESC LIMIT 3)",
    ),
    "another column counted where the first group wins": (
        f"SELECT trader.guild {JOINED} GROUP BY trader.guild ORDER BY count(*) DESC LIMIT 1",
        f"SELECT trader.guild {JOINED} GROUP BY trader.guild ORDER BY count(trader.town) DESC LIMIT 1",
    ),
    "another join where the first group wins": (
        f"SELECT trader.name {JOINED} GROUP BY trader.name ORDER BY count(*) DESC LIMIT 1",
        "SELECT trader.name FROM sale RIGHT JOIN trader ON sale.trader_id = trader.id GROUP BY trader.name"
        " ORDER BY count(*) DESC LIMIT 1",
    ),
    "a threshold beside the gold's": (
        "SELECT trader_id FROM sale GROUP BY trader_id HAVING count(*) > 12",
        "SELECT trader_id FROM sale GROUP BY trader_id HAVING count(*) > 11",
    ),
    "a threshold beside the gold's, in a join": (
        f"SELECT trader.name {JOINED} GROUP BY trader.name HAVING count(*) >= 17",
        f"SELECT trader.name {JOINED} GROUP BY trader.name HAVING count(*) >= 18",
    ),
    "a condition that the first row meets": (
        "SELECT guild FROM trader ORDER BY wage DESC LIMIT 1",
        "SELECT guild FROM trader WHERE name <= 'Keen' OR name > 'L' ORDER BY wage DESC LIMIT 1",
    ),
    "a condition that only few rows fail": (
        "SELECT sum(price) FROM sale WHERE goods = 'bread'",
        "SELECT sum(price) FROM sale WHERE goods = 'bread' AND paid_on <> '2019-12-31'",
    ),
    "NULL left out": (
        "SELECT town FROM trader ORDER BY wage DESC LIMIT 1",
        "SELECT town FROM trader WHERE town IS NOT NULL ORDER BY wage DESC LIMIT 1",
    ),
    "names that no real row compares equal": (
        "SELECT count(*) FROM stall JOIN trader ON stall.holder = trader.name WHERE trader.town = 'Bath'",
        "SELECT count(*) FROM stall JOIN trader ON stall.holder = trader.name WHERE trader.town = 'bATH'",
    ),
    "a join on another name": (
        "SELECT count(*) FROM stall JOIN trader ON stall.holder = trader.name",
        "SELECT count(*) FROM stall JOIN trader ON stall.holder = trader.guild",
    ),
    "a table that happens to be long enough": (
        "SELECT avg(wage) FROM trader",
        "SELECT avg(wage) FROM trader WHERE (SELECT count(*) FROM stall) >= 5",
    ),
}  # fmt: skip
# gold, the same said otherwise.
RIGHT = (
    (f"SELECT trader.name {JOINED} GROUP BY trader.id, trader.name HAVING count(*) > 12",
     "SELECT name FROM trader WHERE id IN (SELECT trader_id FROM sale GROUP BY trader_id HAVING count(*) >= 13)"),
    (f"SELECT DISTINCT trader.guild {JOINED} WHERE sale.goods = 'bread'",
     "SELECT guild FROM trader t WHERE EXISTS (SELECT 1 FROM sale s WHERE s.trader_id = t.id AND s.goods = 'bread')"
     " GROUP BY guild"),
    ("SELECT count(*) FROM stall JOIN trader ON stall.holder = trader.name",
     "SELECT coalesce(sum(n), 0) FROM (SELECT (SELECT count(*) FROM trader WHERE name = holder) AS n FROM stall)"),
    ("SELECT name FROM trader EXCEPT SELECT holder FROM stall",
     "SELECT DISTINCT name FROM trader t WHERE NOT EXISTS (SELECT 1 FROM stall s WHERE s.holder = t.name)"),
    ("SELECT town FROM trader ORDER BY wage DESC LIMIT 1",
     "SELECT town FROM trader QUALIFY row_number() OVER (ORDER BY wage DESC) = 1"),
)  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Limits())


def told(aim: doubted.Doubts, engine: Engine, market: Database, gold: str, sql: str) -> bool:
    prepared = prepare_golds([(market.instances[0], gold)], engine)[0]
    assert not prepared.unverifiable
    return aim.told([(market, prepared, sql)], engine)[0] is not None


@pytest.mark.parametrize("kind", LUCKY)
def test_luck_ends(aim: doubted.Doubts, engine: Engine, market: Database, kind: str) -> None:
    assert told(aim, engine, market, *LUCKY[kind])


@pytest.mark.parametrize(("gold", "right"), RIGHT)
def test_the_same_said_otherwise_passes(
    aim: doubted.Doubts, engine: Engine, market: Database, gold: str, right: str
) -> None:
    assert not told(aim, engine, market, gold, right)


def test_what_is_told_once_is_not_run_again(aim: doubted.Doubts, engine: Engine, market: Database) -> None:
    gold, sql = LUCKY["NULL left out"]
    assert told(aim, engine, market, gold, sql)
    prepared = prepare_golds([(market.instances[0], gold)], engine)[0]
    seen = aim.told([(market, prepared, sql)], engine)
    again = Engine(Limits())
    assert aim.told([(market, prepared, sql)], again) == seen
    assert not again.made


def test_more_databases_than_are_kept_are_looked_at_together(
    engine: Engine, market: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubted, "_KEPT_DATABASES", 1)
    twins = [replace(market, instances=(replace(market.instances[0], sha256=f"twin {at}"),)) for at in range(2)]
    gold, right = RIGHT[4]
    prepared = prepare_golds([(market.instances[0], gold)], engine)[0]
    with contextlib.closing(doubted.Doubts()) as aim:
        assert aim.told([(twin, prepared, right) for twin in twins], engine) == [None] * 2
        assert len(aim._known) == 1
        assert {path.name for path in aim._scratch.path.iterdir()} == {one.path.name for one in _reserve(aim)}


def _reserve(aim: doubted.Doubts) -> Sequence[Instance]:
    return [one for known in aim._known.values() for one in known.reserve or ()]


@dataclass(slots=True)
class Failing(Engine):
    """Gives one statement's runs another outcome."""

    sql: str = ""
    outcome: Outcome = Outcome.FAULT

    def _one(self, job: Job) -> Execution:
        return Execution(outcome=self.outcome) if job.sql == self.sql else Engine._one(self, job)


def test_slow_on_made_rows_is_not_wrong(aim: doubted.Doubts, market: Database) -> None:
    gold, right = RIGHT[0]
    slow = f"{right} AND id > 0"
    assert not told(aim, Failing(Limits(), sql=slow, outcome=Outcome.TIMEOUT), market, gold, slow)


def test_a_gold_that_the_verifier_failed_on_is_run_again(market: Database, engine: Engine) -> None:
    reserve, pair = Reserve(), (market.instances[0], "SELECT count(*) FROM stall")
    assert reserve.golds([pair], Failing(Limits(), sql=pair[1]))[0].unverifiable
    assert not reserve.golds([pair], engine)[0].unverifiable


def test_and_for_or_is_another_statement_and_a_condition_said_twice_is_not() -> None:
    one, other = "SELECT a FROM t WHERE a = 1 AND b = 2", "SELECT a FROM t WHERE a = 1 OR b = 2"
    assert says_otherwise(one, other, ())
    assert says_otherwise(f"{one} OR b = 2", one, ())
    assert not says_otherwise(f"{one} AND a = 1", one, ())
    assert not says_otherwise("SELECT a FROM t WHERE a = 1 AND a = 1", "SELECT a FROM t WHERE a = 1", ())


def test_what_statements_compare() -> None:
    tables = (
        Table(name="stall", columns=(Column(name="holder", type="VARCHAR"), Column(name="code", type="VARCHAR"))),
        Table(name="trader", columns=(Column(name="name", type="VARCHAR"), Column(name="id", type="INTEGER"))),
    )
    meets = column_meets(["SELECT 1 FROM stall s JOIN trader AS t ON lower(s.Holder) = t.name"], tables)
    assert meets == {("stall", "holder"): (("trader", "name"),), ("trader", "name"): (("stall", "holder"),)}
    assert column_meets(["SELECT holder FROM stall EXCEPT SELECT name FROM trader"], tables) == meets
    assert column_meets(["SELECT 1 FROM stall WHERE holder IN (SELECT name FROM trader)", "not SQL ("], tables) == meets
    assert group_sizes(["SELECT a FROM t GROUP BY a HAVING count(*) > 10"]) == (9, 10, 11)
    assert group_sizes(["SELECT a, count(*) AS n FROM t GROUP BY a HAVING n = 1 OR n > 900"]) == (1, 2)
    assert group_sizes(["SELECT a FROM t WHERE b > 10"]) == ()
    assert group_sizes([f"SELECT a FROM t GROUP BY a HAVING count(*) > '{'0' * 5000}5'"]) == ()
    assert ordering_columns(["SELECT a FROM t GROUP BY a, c ORDER BY count(b), lower(C)"]) == {"c"}


def rows(recipe: Recipe, source: Source, parents: Source) -> list[list[object]]:
    maker = Maker(random.Random(1), recipe, {}, referred=frozenset([parents.table.name]))
    maker.make(parents)
    return maker.make(source)


def test_blocks_are_groups_of_their_size_and_whole_rows_find_other_parents() -> None:
    key = Column(name="id", type="INTEGER", nullable=False, primary_key=True)
    parents = Source(Table(name="p", columns=(key,), rows=6), [[at] for at in range(6)], ((0,),))
    link = ForeignKey(columns=("p_id",), table="p", references=("id",))
    columns = (Column(name="p_id", type="INTEGER"), Column(name="kind", type="VARCHAR"))
    free = Source(Table(name="c", columns=columns, foreign_keys=(link,), rows=3), [[0, "a"], [1, "b"], [2, "c"]])
    made = rows(Recipe("blocks", blocks=(2, 3), rows=(5, 5)), free, parents)
    assert sorted(sum(row[0] == one for row in made) for one in {row[0] for row in made}) == [2, 3]
    tight = Source(free.table, free.rows, ((0,),))
    whole, gaps = (rows(Recipe("x", rows=(6, 6), whole=whole), tight, parents) for whole in (True, False))
    assert len(whole) > len(gaps)
    assert len({row[0] for row in whole}) == len(whole)


def test_whole_rows_without_references_stay_where_their_key_cannot_be_another() -> None:
    key = Column(name="code", type="DECIMAL(4,1)", nullable=False, primary_key=True)
    source = Source(Table(name="t", columns=(key,), rows=3), [[Decimal(at)] for at in range(3)], ((0,),))
    made = Maker(random.Random(1), Recipe("whole", rows=(9, 9), whole=True), {}).make(source)
    assert sorted(made) == [[Decimal(at)] for at in range(3)]


def test_keys_are_new_and_never_used_twice() -> None:
    keys = Keys(((0,), (1, 2)), {1}, [[4, 0, 0], [9, 0, 0]])
    made: list[list[object]] = [[4, 1, "a"], [4, 1, "a"], [4, 1, "b"]]
    assert [keys.take(row) for row in made] == [True, True, True]
    assert made == [[4, 1, "a"], [10, 1, "a2"], [11, 1, "b"]]
    bound = Keys(((0,),), {0}, [])
    assert [bound.take([1]), bound.take([1])] == [True, False]

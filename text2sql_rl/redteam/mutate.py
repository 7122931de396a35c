"""Candidates for the search: golds and attacks, changed and spliced.

In: parents (SQL), other golds of the same database, its schema, dice. Out: one new text each time, and the unsafe
fragment in it where one was put in. Half of the changes are those of instances/mutants.py, one to four on top of each
other; the others are cheats (cheats.py); some get what must never run (unsafe.py). Not here: running or judging
them (hunt.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from text2sql_rl.instances.mutants import OPERATORS
from text2sql_rl.records import Table
from text2sql_rl.redteam.cheats import CHEATS, Stock
from text2sql_rl.redteam.unsafe import with_unsafe


@dataclass(frozen=True, slots=True)
class Made:
    """A candidate; `fragment` is the unsafe part in it, empty when there is none."""

    sql: str
    fragment: str = ""


class Maker:
    """Makes candidates for one gold."""

    def __init__(
        self,
        dice: random.Random,
        gold: str,
        others: Sequence[str],
        attacks: Sequence[str],
        tables: Sequence[Table],
        rows: Sequence[Sequence[object]],
    ) -> None:
        """Take what to make them of.

        Args:
            dice: every choice comes from it.
            gold: the gold's SQL.
            others: golds of the same database, for splices.
            attacks: SQL of attacks on this gold.
            tables: the schema.
            rows: the gold's rows on the real data.
        """
        self.dice, self.tables = dice, tables
        self._trees: dict[str, exp.Expr | None] = {}
        trees = [tree for sql in others if (tree := self._parsed(sql)) is not None]
        self._stock = Stock(dice, tables, rows, trees)
        self._attacks = [sql for sql in attacks if self._parsed(sql) is not None]
        self._gold = gold

    def make(self, parents: Sequence[str]) -> Made | None:
        """One candidate from the gold, an attack or one of `parents`; None where the change came to nothing."""
        draw = self.dice.random()
        start = self._gold
        if parents and draw < 0.4:
            start = self.dice.choice(parents)
        elif self._attacks and draw > 0.9:
            start = self.dice.choice(self._attacks)
        tree = self._parsed(start)
        if tree is None:
            return None
        tree = tree.copy()
        try:
            for _ in range(self.dice.choice((1, 1, 2, 2, 3, 4))):
                tree = self._mutated(tree) if self.dice.random() < 0.5 else self.dice.choice(CHEATS)(self._stock, tree)
            sql = tree.sql("duckdb")
        except (sqlglot.errors.SqlglotError, AttributeError, KeyError, RecursionError, ValueError):
            return None  # a change that makes no tree
        if self.dice.random() < 0.15:
            return Made(*with_unsafe(sql, self.tables, self.dice))
        return None if sql == self._gold else Made(sql)

    def _parsed(self, sql: str) -> exp.Expr | None:
        if sql not in self._trees:
            try:
                self._trees[sql] = sqlglot.parse_one(sql, dialect="duckdb")
            except (sqlglot.errors.SqlglotError, RecursionError):
                self._trees[sql] = None
        return self._trees[sql]

    def _mutated(self, tree: exp.Expr) -> exp.Expr:
        nodes = list(tree.walk())
        for _ in range(12):
            node, operator = self.dice.choice(nodes), self.dice.choice(OPERATORS)
            found = list(operator(node, self.tables))
            if found:
                other = self.dice.choice(found)
                if node is tree:
                    return tree if other is None else other
                if other is None:
                    node.pop()
                else:
                    node.replace(other)
                return tree
        return tree

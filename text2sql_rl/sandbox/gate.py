"""The door: DuckDB's own parse of a statement decides whether it may run.

In: SQL text and the names a database has. Out: a `Passage`: the outcome REFUSED or ERROR with a reason, or the way
on with whether the statement reads a table. Nothing is bound or executed here, and the text that passes is the text
that runs.

DuckDB gives its parse tree as JSON for SELECT only; every other statement is refused by that alone. In the tree
every query node, table reference and expression must be of a known kind (an unknown kind is refused: fail closed),
every table must be a table of this database or a CTE in scope, every known function must be an allowed one. A name
that nobody knows is an error, not a refusal: the model has made it up.

PIVOT without a list of values is the one form of query that DuckDB cannot give as JSON (it makes several statements
of it); its tree is that of the same text with lists (pivot.py).

Not here: limits, execution, sqlglot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb

from text2sql_rl.records import Outcome
from text2sql_rl.sandbox import pivot, second_look
from text2sql_rl.sandbox.limits import ONE_THREAD
from text2sql_rl.sandbox.names import (
    VALUE_FUNCTIONS,
    FunctionNames,
    refused_table,
    split_functions,
    words,
)

_PREPARE = "PREPARE tree AS SELECT json_serialize_sql($1, skip_default := true, skip_empty := true, skip_null := true)"
_FUNCTIONS = "SELECT function_name, function_type, coalesce(stability = 'VOLATILE', false) FROM duckdb_functions()"

_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLE_REFS = words("BASE_TABLE SUBQUERY JOIN TABLE_FUNCTION EXPRESSION_LIST EMPTY EMPTY_FROM PIVOT COLUMN_DATA CTE")
_PLAIN_TYPES = words(
    "ORDER_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER DISTINCT_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING"
    " ORDER_ASCENDING ORDER_DESCENDING"
)
_EXPRESSIONS = words(
    "CASE CAST COLUMN_REF COMPARISON CONJUNCTION CONSTANT DEFAULT FUNCTION OPERATOR STAR SUBQUERY WINDOW PARAMETER"
    " COLLATE LAMBDA LAMBDA_REF POSITIONAL_REFERENCE BETWEEN TYPE"
)


@dataclass(frozen=True, slots=True)
class Names:
    """What a database has: its catalogue name, schemas, tables and views, columns; all lower-cased."""

    catalog: str
    schemas: frozenset[str]
    tables: frozenset[str]
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class Passage:
    """The gate's answer. `outcome` is ROWS when the statement may run, else REFUSED or ERROR with the reason."""

    outcome: Outcome
    reason: str = ""
    reads_tables: bool = True


class Refusal(Exception):
    """A statement must not run; the text says why."""


@dataclass(slots=True)
class _Tree:
    """One walk over a parse tree. `unknown` collects names that nobody knows, `words` possible value functions."""

    names: Names
    functions: FunctionNames
    unknown: list[str] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    aliases: set[str] = field(default_factory=set)

    def visit(self, item: Any, scope: Mapping[str, bool]) -> bool:
        """Check `item` and all below it; true when it reads a table. `scope`: CTE name -> whether that one reads."""
        if isinstance(item, list):
            reads = False
            for part in item:
                reads |= self.visit(part, scope)
            return reads
        if not isinstance(item, dict):
            return False
        if isinstance(alias := item.get("alias"), str) and item.get("column_names") != [alias]:
            self.aliases.add(alias.lower())
        if isinstance(sample := item.get("sample"), dict) and not sample.get("repeatable"):
            raise Refusal("samples at random (REPEATABLE is missing)")
        if "class" in item:
            self._expression(item)
        elif isinstance(kind := item.get("type"), str):
            if kind in _QUERY_NODES:
                return self._query(item, scope)
            if kind == "BASE_TABLE":
                return self._table(item, scope)
            if kind == "TABLE_FUNCTION":
                return self._table_function(item, scope)
            if kind not in _TABLE_REFS and kind not in _PLAIN_TYPES:
                raise Refusal(_form(kind))
        return self._below(item, scope)

    def _below(self, item: Mapping[str, Any], scope: Mapping[str, bool], skip: str = "") -> bool:
        reads = False
        for key, part in item.items():
            if key == "column_name_alias":
                self.aliases.update(str(name).lower() for name in part)
            elif key != skip and isinstance(part, dict | list):
                reads |= self.visit(part, scope)
        return reads

    def _query(self, node: Mapping[str, Any], scope: Mapping[str, bool]) -> bool:
        inner = dict(scope)
        for entry in node.get("cte_map", {}).get("map", ()):
            name, body = entry["key"].lower(), entry["value"]
            self.aliases.update(str(alias).lower() for alias in body.get("aliases", ()))
            recursive = body.get("query_node", {}).get("type") == "RECURSIVE_CTE_NODE"
            inner[name] = self.visit(body, {**inner, name: False} if recursive else inner)
        return self._below(node, inner, skip="cte_map")

    def _table(self, item: Mapping[str, Any], scope: Mapping[str, bool]) -> bool:
        path = tuple(item["qualified_name"]["path"])
        parts = (item.get("catalog_name", ""), item.get("schema_name", ""), item["table_name"])
        if tuple(part for part in parts if part) != path:
            raise Refusal(f"a table name in two readings ({'.'.join(path)})")
        *outer, name = (part.lower() for part in path)
        if name in scope and outer in ([], ["recurring"]):
            return scope[name]
        if name in self.names.tables and all(p == self.names.catalog or p in self.names.schemas for p in outer):
            return True
        if reason := refused_table(path):
            raise Refusal(reason)
        self.unknown.append(f"there is no table {'.'.join(path)!r}")
        return False

    def _table_function(self, item: Mapping[str, Any], scope: Mapping[str, bool]) -> bool:
        call = item["function"]
        name = self._name(call)
        if self.functions.refuses_table(name):
            raise Refusal(f"calls {name}() in FROM")
        reads = self._below(call, scope)
        return self._below(item, scope, skip="function") or reads

    def _expression(self, item: Mapping[str, Any]) -> None:
        kind = item["class"]
        if kind not in _EXPRESSIONS:
            raise Refusal(_form(kind))
        if kind in ("FUNCTION", "WINDOW"):
            name = self._name(item)
            if self.functions.refuses_call(name):
                raise Refusal(f"calls {name}()")
        elif kind == "COLUMN_REF" and len(item["column_names"]) == 1:
            self.words.add(item["column_names"][0].lower())

    def _name(self, item: Mapping[str, Any]) -> str:
        name = str(item["function_name"]).lower()
        if item["qualified_name"]["path"][-1].lower() != name:
            raise Refusal(f"a function name in two readings ({name})")
        return name


def _form(kind: str) -> str:
    if kind == "SHOW_REF":
        return "reads the engine's catalogue (SHOW, DESCRIBE, SUMMARIZE)"
    return f"is not a read-only query ({kind.lower().replace('_', ' ')})"


class Gate:
    """Checks statements; holds one in-memory connection that only ever parses."""

    def __init__(self, look_twice: bool = True) -> None:
        """Opens the connection that parses and reads the engine's list of functions.

        Args:
            look_twice: let sqlglot refuse as well.
        """
        self._parser = duckdb.connect(":memory:", config=ONE_THREAD | {"enable_external_access": "false"})
        self._look_twice = look_twice
        self.functions = split_functions(self._parser.execute(_FUNCTIONS).fetchall())
        self._parser.execute(_PREPARE)
        self._parser.execute("SET lock_configuration = true")

    def check(self, sql: str, names: Names) -> Passage:
        """Decide on one statement for a database with `names`."""
        try:
            passage = self._check(sql, names)
            if passage.outcome is Outcome.ROWS and self._look_twice:
                second_look.check(sql, names.tables, self.functions)
            return passage
        except (Refusal, second_look.SecondRefusal) as refusal:
            return Passage(Outcome.REFUSED, str(refusal))
        except RecursionError:
            return Passage(Outcome.REFUSED, "nested too deeply")

    def _check(self, sql: str, names: Names) -> Passage:
        parsed = self._parse(sql)
        if parsed.get("error"):
            message = str(parsed.get("error_message", ""))
            problem = self._kind(sql, message)
            if problem is not None:
                return problem
            parsed = self._parse(pivot.with_values(sql))
            if parsed.get("error"):
                raise Refusal("several statements in one (a PIVOT that cannot be checked: list its values with IN)")
        statements = parsed.get("statements", [])
        if not statements:
            return Passage(Outcome.ERROR, "there is no statement")
        if len(statements) > 1:
            raise Refusal(f"{len(statements)} statements")
        tree = _Tree(names, self.functions)
        reads = tree.visit(statements[0]["node"], {})
        for word in tree.words & VALUE_FUNCTIONS - names.columns - tree.aliases:
            raise Refusal(f"calls {word}")
        if tree.unknown:
            return Passage(Outcome.ERROR, "; ".join(tree.unknown))
        return Passage(Outcome.ROWS, reads_tables=reads)

    def _parse(self, sql: str) -> dict[str, Any]:
        # A prepared statement takes half the time of a parameter; doubling quotes is all that DuckDB's plain literals
        # need, and this connection holds nothing.
        row = self._parser.execute(f"EXECUTE tree('{sql.replace(chr(39), chr(39) * 2)}')").fetchone()
        parsed: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
        return parsed

    def _kind(self, sql: str, message: str) -> Passage | None:
        """What is wrong with a text that has no tree; None when it is one statement that DuckDB makes several of."""
        try:
            kinds = [statement.type.name for statement in self._parser.extract_statements(sql)]
        except ValueError as error:  # the client has no name for the statement's type
            raise Refusal("is not a read-only query (a statement of an unknown kind)") from error
        except duckdb.Error:
            return Passage(Outcome.ERROR, f"Parser Error: {message}")
        if len(kinds) != 1:
            raise Refusal(f"{len(kinds)} statements")
        if kinds[0] != "MULTI":
            raise Refusal(f"is not a read-only query ({kinds[0].lower()})")
        return None

"""Which functions and catalogue names a statement may use.

In: the engine's own list of functions. Out: lower-cased names that are allowed or refused, by place (in an
expression, in FROM). The allowed names are everything this engine lists less the dangerous kinds, so a name the
engine does not know stays the engine's error. `tests/sandbox` pins the refused names of the tested engine version;
an engine that brings new functions fails there until someone has looked at them.

Not here: where a name stands in a statement (gate.py, second_look.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def words(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


CLOCKS = words(
    "current_date current_time current_timestamp current_localtime current_localtimestamp now today ago"
    " get_current_time get_current_timestamp transaction_timestamp localtime localtimestamp"
)
"""Functions that read the clock. They run: an answer may depend on the day. Golds using them are the judge's case."""

RANDOM = words("random setseed uuid uuidv4 uuidv7 gen_random_uuid reservoir_quantile")
"""Functions that draw at random. Refused: their result would make the reward a matter of luck."""

_STATE = words(
    "nextval currval setval getvariable write_log sleep_ms txid_current stats get_block_size version user session_user"
    " in_search_path parse_duckdb_log_message json_serialize_sql json_deserialize_sql json_serialize_plan"
    " json_execute_serialized_sql query query_table col_description obj_description shobj_description format_type"
    " vector_type getenv which_secret test_vector_types checkpoint force_checkpoint"
    " load_extension readfile writefile http_get http_post"
)
_PREFIXES = ("__internal", "pg_", "has_", "inet_", "duckdb_", "current_", "pragma_", "read_", "parquet_", "sniff_")
_FOREIGN_PREFIXES = ("__internal", "pg_", "duckdb_", "pragma_", "read_", "parquet_", "sniff_", "st_read")
_FOREIGN_SUFFIXES = ("_scan", "_query", "_attach")
_EXCEPT = CLOCKS | {"pg_typeof", "pg_size_pretty"}

TABLE_FUNCTIONS = words("range generate_series unnest json_each json_tree repeat repeat_row")
"""Functions allowed in FROM: each depends on its arguments alone."""

VALUE_FUNCTIONS = words("current_catalog current_role current_schema current_user session_user user")
"""Words that DuckDB reads as a function call where no column has the name."""

_CATALOG_PREFIXES = ("duckdb_", "pg_", "sqlite_", "pragma_")
_CATALOG_SCHEMAS = frozenset({"information_schema", "pg_catalog", "system", "temp"})
_PATH_MARKS = frozenset("./\\:*?[]~")
# The engine reads `people.csv`, also without quotes, as a file where there is no schema `people`.
_FILE_ENDINGS = words("csv tsv parquet json jsonl ndjson geojson db ddb duckdb xlsx avro shp gpkg fgb")


@dataclass(frozen=True, slots=True)
class FunctionNames:
    """The engine's functions: in an expression allowed or refused, and those that exist in FROM."""

    allowed: frozenset[str]
    refused: frozenset[str]
    tables: frozenset[str]

    def refuses_call(self, name: str) -> bool:
        """Whether an expression may not call `name` (lower-cased)."""
        return name in self.refused or (name not in self.allowed and name.startswith(_FOREIGN_PREFIXES))

    def refuses_table(self, name: str) -> bool:
        """Whether FROM may not call `name` (lower-cased); the names of absent extensions' readers count too."""
        if name in TABLE_FUNCTIONS:
            return False
        foreign = name.startswith(_FOREIGN_PREFIXES) or name.endswith(_FOREIGN_SUFFIXES)
        return name in self.tables or name in self.refused or foreign


def split_functions(listed: Iterable[tuple[str, str, bool]]) -> FunctionNames:
    """Split the engine's functions.

    Args:
        listed: (name, function_type, volatile) as duckdb_functions() gives them.
    """
    allowed, refused, tables = set(), set(RANDOM | _STATE), set()
    for name, kind, volatile in listed:
        lower = name.lower()
        if kind in ("table", "table_macro"):
            tables.add(lower)
        elif volatile or (lower.startswith(_PREFIXES) and lower not in _EXCEPT):
            refused.add(lower)
        elif kind in ("scalar", "aggregate", "window", "macro"):
            allowed.add(lower)
    # A table function's name in an expression is refused like its call in FROM, unless both exist.
    refused |= tables - allowed - TABLE_FUNCTIONS
    return FunctionNames(frozenset(allowed - RANDOM - _STATE), frozenset(refused), frozenset(tables))


def suspect_name(word: str) -> bool:
    """Whether a lower-cased word is, or begins or ends like, a name that may be refused somewhere."""
    return (
        word in _CATALOG_SCHEMAS
        or word in _FILE_ENDINGS
        or word.startswith(_FOREIGN_PREFIXES)
        or word.startswith(_CATALOG_PREFIXES)
        or word.endswith(_FOREIGN_SUFFIXES)
    )


def path_in(text: str) -> bool:
    """Whether a text holds a mark of a path or a pattern of paths."""
    return not _PATH_MARKS.isdisjoint(text)


def refused_table(path: tuple[str, ...]) -> str:
    """Why a table name that this database lacks is refused rather than merely unknown; empty when unknown.

    Args:
        path: the parts of the name, outermost first.
    """
    *outer, name = (part.lower() for part in path)
    if _CATALOG_SCHEMAS.intersection(outer) or name.startswith(_CATALOG_PREFIXES):
        return f"reads the engine's catalogue ({'.'.join(path)})"
    if path_in(name) or not _FILE_ENDINGS.isdisjoint((*outer, name)[1:]):
        return f"reads a file ({'.'.join(path)})"
    return ""

"""What must never run, put into statements that look harmless.

In: a statement, the schema, dice. Out: the statement with a fragment in it that reads the engine, files, settings or
chance. Not here: whether it ran (hunt.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from text2sql_rl.records import Table

# What must never run, wherever it stands: scalars and tables. `{t}` is a table of the database.
UNSAFE_SCALARS = (
    "current_setting('threads')", "getenv('HOME')", "version()", "random()", "uuid()", "nextval('s')",
    "getvariable('x')", "current_query()", "current_schema()", "current_database()", "txid_current()",
    "sleep_ms(1)", "setseed(0.5)", "pg_sleep(0.01)", "user", "gen_random_uuid()", "pg_backend_pid()",
)  # fmt: skip
UNSAFE_TABLES = (
    "duckdb_settings()", "duckdb_tables()", "duckdb_databases()", "duckdb_secrets()", "information_schema.tables",
    "sqlite_master", "pg_catalog.pg_class", "read_text('/etc/hostname')", "read_csv('/etc/hostname')",
    "read_blob('/proc/self/environ')", "'/etc/hostname'", '"/etc/hostname"', "glob('/etc/*')", "query('SELECT 1')",
    "query_table('{t}')", "pragma_version()", "pragma_table_info('{t}')", "(SUMMARIZE {t})", "(DESCRIBE {t})",
    "(SHOW TABLES)", "parquet_metadata('/etc/hostname')", "sniff_csv('/etc/hostname')",
)  # fmt: skip


def with_unsafe(sql: str, tables: Sequence[Table], dice: random.Random) -> tuple[str, str]:
    """The statement with a fragment that must never run, in some place and some spelling; and the fragment."""
    table = dice.choice(tables).name
    place = dice.randrange(8)
    if place < 3:
        fragment = _spelt(dice.choice(UNSAFE_SCALARS), dice)
        text = (
            f"SELECT *, {fragment} FROM ({sql}) AS t",
            f"SELECT * FROM ({sql}) AS t WHERE coalesce(CAST({fragment} AS VARCHAR), '') IS NOT NULL",
            f"SELECT * FROM ({sql}) AS t ORDER BY CASE WHEN {fragment} IS NULL THEN 1 ELSE 0 END",
        )[place]
        return text, fragment
    fragment = _spelt(dice.choice(UNSAFE_TABLES).replace("{t}", table), dice)
    text = (
        f"SELECT t.* FROM ({sql}) AS t, (SELECT 1 FROM {fragment} LIMIT 1) AS u",
        f"SELECT * FROM ({sql}) AS t WHERE (SELECT count(*) FROM {fragment}) >= 0",
        f"WITH u AS (SELECT * FROM {fragment}) {sql}",
        f"WITH u AS MATERIALIZED (SELECT count(*) AS n FROM {fragment}) SELECT t.* FROM ({sql}) AS t, u",
        f"SELECT * FROM ({sql}) AS t WHERE EXISTS (FROM {fragment})",
    )[place - 3]
    return text, fragment


def _spelt(fragment: str, dice: random.Random) -> str:
    name, bracket, rest = fragment.partition("(")
    plain = bool(bracket) and name.isidentifier()
    spellings = [fragment, fragment.upper() if "'" not in fragment else fragment]
    if plain:
        spellings += [
            f'"{name}"({rest}',
            f"main.{name}({rest}",
            f"system.main.{name}({rest}",
            f"{name} /**/ ({rest}",
        ]
    return dice.choice(spellings)

"""What a user has becomes content: databases as read-only DuckDB files, questions with gold SQL in DuckDB's dialect.

In: SQLite, DuckDB, CSV, Parquet and JSON files. Out: a content root (`layout.py`) that `databases.py` and
`questions.py` read. One source a file: `sqlite_source.py`, `duckdb_source.py`, `file_source.py`. Every source is left
as it is, whatever cannot be kept is named, and one bad source does not keep the others out. Not here: judging.
"""

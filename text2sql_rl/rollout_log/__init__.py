"""The rollout log: one row a completion, in Parquet part files that a resumed run overwrites.

In: groups, and where they come from; or a folder of part files. Out: a part file, written whole or not at all; or the
rows, exactly as they were written. Knows only records. The schema is `LogRow`, and its version stands in every file.
Not here: recomputing rewards, statistics, reports.
"""

from text2sql_rl.rollout_log.columns import SCHEMA_VERSION, LogRow
from text2sql_rl.rollout_log.reading import open_rollouts, read_groups, read_rollouts, to_groups
from text2sql_rl.rollout_log.writing import (
    Lineage,
    Origin,
    Update,
    Updates,
    part_path,
    to_rows,
    write_groups,
    write_rollouts,
)

__all__ = [
    "SCHEMA_VERSION",
    "Lineage",
    "LogRow",
    "Origin",
    "Update",
    "Updates",
    "open_rollouts",
    "part_path",
    "read_groups",
    "read_rollouts",
    "to_groups",
    "to_rows",
    "write_groups",
    "write_rollouts",
]

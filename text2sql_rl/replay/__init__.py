"""Logged rewards computed again, from the log alone: under their own rule (replay) or under another one (compare).

In: a run folder, or any folder of rollout part files. Out: what differs, with an example of each kind. No candidate
runs and no database is opened. Not here: judging, reports.
"""

from text2sql_rl.replay.compare import Comparison, compare_rules
from text2sql_rl.replay.source import LoggedGroup, Source, open_source
from text2sql_rl.replay.verify import Replay, replay

__all__ = ["Comparison", "LoggedGroup", "Replay", "Source", "compare_rules", "open_source", "replay"]

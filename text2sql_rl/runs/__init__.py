"""A run's folder on disk: what made it, which stages are done, what a killed run left behind.

In: a path and the resolved config. Out: `RunFolder` and its `StageFolder`s; every file others read is complete or
absent. Not here: what a stage does, when it runs (pipeline), what the numbers mean (report).

    runs/NAME/run.json                      config, seed, versions, hashes of the content; what each stage cost
    runs/NAME/stages/STAGE/started.json     somebody began; seconds that earlier attempts spent
    runs/NAME/stages/STAGE/metrics.jsonl    one line a measurement
    runs/NAME/stages/STAGE/progress.json    how far it is, for whoever watches
    runs/NAME/stages/STAGE/done.json        written last: only with it the stage counts
"""

from text2sql_rl.runs.files import DiskGuard, Lock, read_json, write_json, write_text
from text2sql_rl.runs.folder import RunFolder
from text2sql_rl.runs.stage import StageFolder

__all__ = ["DiskGuard", "Lock", "RunFolder", "StageFolder", "read_json", "write_json", "write_text"]

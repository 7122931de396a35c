"""Room 5: runs one hostile SQL statement on one instance, and survives it.

In: jobs (an instance and a statement). Out: one `Execution` a job, in order. `Sandbox` is the door. The parent side
(pool.py, batch.py, process.py) holds the kill switch; the worker side (worker.py) holds DuckDB behind the gate
(gate.py, second_look.py, names.py), the engine's own locks (engine.py) and the operating system's (confine.py).

Not here: what an execution is worth.
"""

from text2sql_rl.sandbox.limits import Job, Limits
from text2sql_rl.sandbox.pool import Sandbox

__all__ = ["Job", "Limits", "Sandbox"]

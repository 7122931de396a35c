"""How many wrong versions of the Spider dev golds are found out, on the real rows alone and with instances.

In: Spider dev questions (or the bundled ones), each gold once. Out: two shares of the mutants known to be wrong (see
`text2sql_rl.instances.survivors`); the goal is 0.99 with instances. What is done is kept in the cache folder, so an
interrupted measurement goes on where it was. Not here: listing survivors; `text2sql-rl mutants` does.
"""

from __future__ import annotations

import os
import sys

from measure import Result, scaled
from spider import dev_questions, spread

from text2sql_rl.content import cache_folder
from text2sql_rl.instances.survivors import find_survivors
from text2sql_rl.sandbox import Sandbox

_QUESTIONS = 100
_GOAL = 0.99


def measure() -> list[Result]:
    """Shares in [0, 1]; the survivors known to be wrong are printed."""
    asked = spread(dev_questions(), scaled(_QUESTIONS))
    with Sandbox(workers=min(2, os.cpu_count() or 1)) as sandbox:
        report = find_survivors([(one.question, one.database) for one in asked], cache_folder(), sandbox)
    print("\n".join(report.lines()), file=sys.stderr)
    total = report.total()
    return [
        Result("mutants.spider_dev.rejected", round(1 - total.all, 5), "share", _GOAL, total.non_equivalent, 0.0),
        Result("mutants.spider_dev.rejected_single_instance", round(1 - total.single, 5), "share", _GOAL,
               total.non_equivalent, 0.0),
    ]  # fmt: skip

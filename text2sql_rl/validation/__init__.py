"""Whether question sets can teach and measure: every gold is run, judged against itself, and looked at for weakness.

In: question sets with their databases, and a reward rule. Out: a `Report`: which golds are rejected, because they
cannot judge or do not earn the rule's maximum, and what is flagged about the others. `golds.py` looks at one gold,
`across.py` at what sets have in common, `reading.py` finds the sets, `report.py` counts. Not here: repairing.
"""

from text2sql_rl.validation.golds import validate
from text2sql_rl.validation.reading import Material, read_material
from text2sql_rl.validation.report import Finding, Report

__all__ = ["Finding", "Material", "Report", "read_material", "validate"]

"""Rule files, components, total: evidence + rule -> reward.

In: `Evidence` of one judged completion and a `Rule` loaded from rewards/rules. Out: a `Reward` with its items.
Not here: finding, running or comparing SQL; group statistics.
"""

from text2sql_rl.scoring.evidence import Evidence, is_right, standing
from text2sql_rl.scoring.logged import rejudge
from text2sql_rl.scoring.model import Rule
from text2sql_rl.scoring.rules import DEFAULT_RULE, load_rule, released, rule_names, rules_folder
from text2sql_rl.scoring.total import cause, score
from text2sql_rl.scoring.words import describe, outcome_rewards

__all__ = [
    "DEFAULT_RULE",
    "Evidence",
    "Rule",
    "cause",
    "describe",
    "is_right",
    "load_rule",
    "outcome_rewards",
    "rejudge",
    "released",
    "rule_names",
    "rules_folder",
    "score",
    "standing",
]

"""The reward rule in words, as a reader of the page needs it.

In: the rule's name, and the hash of the rule that judged. Out: what every outcome earns, and the whole text; None where
the rule is not at hand. Not here: any number that `scoring` does not give.
"""

from __future__ import annotations

from dataclasses import dataclass

from text2sql_rl.errors import Text2SqlError
from text2sql_rl.scoring import describe, load_rule, outcome_rewards


@dataclass(frozen=True, slots=True)
class RuleInWords:
    """`earns`: outcome -> (least, most) reward. `text` tells all. `is_other`: the file is not the one that judged."""

    text: str
    earns: dict[str, tuple[float, float]]
    is_other: bool


def rule_in_words(name: str, sha256: str | None) -> RuleInWords | None:
    """The rule of rewards/rules; None where it is not at hand or not sound, since a report needs it not.

    Args:
        name: of the rule.
        sha256: of the rule that judged; None where nobody recorded it.
    """
    try:
        rule = load_rule(name)
    except Text2SqlError:
        return None
    return RuleInWords(describe(rule), outcome_rewards(rule), sha256 is not None and sha256 != rule.sha256)

"""A reward once more, from the rollout log alone.

In: a rollout as the log keeps it and a rule, the same or another one. Out: the rollout under that rule. Not here:
running or comparing SQL; reading the log.
"""

from __future__ import annotations

from dataclasses import replace

from text2sql_rl.records import Execution, Gold, Match, Outcome, Reward, Rollout
from text2sql_rl.scoring.evidence import Evidence, is_right
from text2sql_rl.scoring.model import Rule
from text2sql_rl.scoring.total import cause, score


def rejudge(rollout: Rollout, rule: Rule) -> Rollout:
    """Recompute reward, cause and equivalence from a rollout as the log keeps it, under the same rule or another one.

    Nothing runs and no rows are needed: verdict, counts and outcome are all that a rule can depend on. What was
    unscored stays unscored.
    """
    if rollout.reward.total is None:
        unscored = Reward(total=None, unscored=rollout.reward.unscored, rule=rule.name, rule_sha256=rule.sha256)
        return replace(rollout, reward=unscored)
    execution, verdict = rollout.execution, rollout.verdict
    if execution is not None and verdict is not None:
        # A constant is one only where the gold reads a table, which the verdict's code tells and the log does not.
        reads_tables = verdict.code != "constant"
        execution = replace(execution, rows=((),) * (rollout.rows or 0), reads_tables=reads_tables)
    evidence = Evidence(
        candidate=rollout.candidate,
        execution=execution,
        gold=Gold(sql="", execution=Execution(outcome=Outcome.ROWS, rows=((),) * rollout.gold_rows)),
        verdict=verdict,
        finish=rollout.completion.finish,
        equivalent=verdict is not None and verdict.match is Match.MATCH,
    )
    reward = score(evidence, rule)
    return replace(rollout, reward=reward, cause=cause(evidence, reward, rule), equivalent=is_right(evidence))

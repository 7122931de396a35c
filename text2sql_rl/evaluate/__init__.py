"""Evaluation: what a policy answers on databases no training question touched, with intervals.

In: a run's config, its folder, the stage whose checkpoint is evaluated. Out: stages/evaluate_SOURCE with every
prediction and accuracies by role. The judge is training's judge, so a number never depends on who asked. Not here:
comparing two policies (statistics), words and pages (report).
"""

from text2sql_rl.evaluate.stage import evaluate_stage

__all__ = ["evaluate_stage"]

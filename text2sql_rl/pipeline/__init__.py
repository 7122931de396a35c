"""The stages of a run: what each needs, running one here, running all as child processes.

In: a config. Out: a run folder whose stages are done, in an order that keeps the longest chain busy, and what each
cost. Not here: what a stage does (learn, evaluate, report), or its files (runs).
"""

from text2sql_rl.pipeline.inputs import check_inputs
from text2sql_rl.pipeline.schedule import run_pipeline
from text2sql_rl.pipeline.stages import STAGES, Stage, plan, run_stage

__all__ = ["STAGES", "Stage", "check_inputs", "plan", "run_pipeline", "run_stage"]

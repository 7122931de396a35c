"""What a run logged, looked at: queries on the rollout log, and single groups.

In: a run folder. Out: rows, groups with every candidate's evidence, the list of the groups most worth reading. Nothing
is judged or computed anew. Not here: the report (numbers of a whole run), replay (rewards computed again).
"""

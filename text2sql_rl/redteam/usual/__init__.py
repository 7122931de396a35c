"""Usual ways to reward SQL, written small so that anybody can see what each of them loses.

In: prompts, completions and columns as TRL gives them. Out: one reward a completion. They are here to be attacked:
`text2sql-rl redteam --reward text2sql_rl.redteam.usual.set_comparison:reward`. Not here: anything to train with.
"""

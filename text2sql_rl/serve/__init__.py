"""The report, live: the page of a run while it trains, and a playground where anybody may try to cheat the judge.

In: run folders. Out: pages on this machine's loopback, until Ctrl-C. Asks are few and small: what is served is checked
by guards.py, made by pages.py, judged by playground.py with the judge and the sandbox of training. Runs stay as they
are. Not here: the page itself (report), any judgement.
"""

from text2sql_rl.serve.server import Server

__all__ = ["Server"]

"""`python -m text2sql_rl.cli`: the same program as `text2sql-rl`, without its script on the path."""

from text2sql_rl.cli import main

main()

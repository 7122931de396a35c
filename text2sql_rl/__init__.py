"""text2sql-rl: train language models to answer questions in SQL, with rewards that are verified by running it."""

__version__ = "0.1.0"

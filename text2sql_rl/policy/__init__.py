"""Prompt -> G completions: room 3. `hf.py` is the one file here that imports torch."""

"""Room 9: the stages that change a policy or measure what it can learn from.

`stages.py` is the list of them. torch, transformers, peft, trl and datasets are imported here and in policy/hf.py
only.
"""

import os

# Every trainer construction would report to the hub otherwise.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

"""The process in which a user's reward function runs: `python -m text2sql_rl.redteam.called`.

In: one JSON line that names the function, then one a call, on stdin. Out: one JSON line each on stdout:
{"ready": true}, {"reward": number or null}, or {"cause", "words"}. What the function itself prints goes nowhere.
Not here: deadlines, restarts (any_reward.py).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

Signature = Literal["trl", "verl"]
_ADDRESS_SPACE_BYTES = 6 << 30


def find(place: str, function: str) -> Callable[..., Any]:
    """The function of a module or a file.

    Raises:
        ImportError, AttributeError: there is none.
    """
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location("audited_reward", place)
        if spec is None or spec.loader is None:
            raise ImportError(f"{place} is no Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    found: Callable[..., Any] = getattr(module, function)
    return found


def call(function: Callable[..., Any], signature: str, request: Mapping[str, Any]) -> float | None:
    """Call the function for one completion as its trainer would; None where it does not score.

    trl: function(prompts, completions, **columns), one entry each; columns question, gold_sql, database, db_path.
    verl: function(data_source, solution_str, ground_truth, extra_info); a mapping's `score` is the reward.
    """
    columns = {name: request[name] for name in ("question", "gold_sql", "database", "db_path")}
    if signature == "trl":
        lists = {name: [value] for name, value in columns.items()}
        reward = function(prompts=[request["question"]], completions=[request["text"]], **lists)[0]
    else:
        reward = function(
            data_source="text2sql",
            solution_str=request["text"],
            ground_truth=request["gold_sql"],
            extra_info={**columns, "index": request["index"]},
        )
        reward = reward["score"] if isinstance(reward, Mapping) else reward
    return None if reward is None else float(reward)


def serve() -> None:
    """Answer calls until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    function: Callable[..., Any] | None = None
    signature = ""
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            if function is None:
                sys.path.insert(0, request["path"])
                function, signature = find(request["place"], request["function"]), request["signature"]
                answer = {"ready": True}
            else:
                answer = {"reward": call(function, signature, request)}
        except Exception as error:  # noqa: BLE001 - whatever a stranger's function raises is what we came to see
            answer = {"cause": "raised", "words": f"{type(error).__name__}: {error}"[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()

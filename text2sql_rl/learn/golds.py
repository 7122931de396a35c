"""The first look at the questions: every gold of training and dev runs before anything is trained on it.

In: the content folders. Out: prepared golds in the cache folder, for every instance, and the ids and reasons of golds
that cannot judge. It needs no policy, so it runs beside the fine-tuning; the stages after it find the golds ready.
Not here: what to do about bad golds (`validate` tells more of them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from text2sql_rl.config import RunConfig
from text2sql_rl.content import open_content
from text2sql_rl.learn.equipment import open_judge
from text2sql_rl.learn.material import asked
from text2sql_rl.records import Database, Question
from text2sql_rl.runs import RunFolder

_CHUNK = 100
_ROLES = ("sft", "dev", "rl")
_NAMED = 20


def golds(config: RunConfig, run: RunFolder) -> None:
    """Run the golds of all questions that training may ask."""
    stage = run.stage("golds")
    stage.start()
    content = open_content()
    items: list[tuple[Question, Database]] = [item for role in _ROLES for item in asked(content, role)]
    bad: dict[str, str] = {}
    with open_judge(config) as judge:
        for start in range(0, len(items), _CHUNK):
            chunk = items[start : start + _CHUNK]
            found = judge.prepare(chunk, every_instance=True)
            bad |= {name: gold.unverifiable for name, gold in found.items() if gold.unverifiable}
            stage.progress(start + len(chunk), len(items), f"{len(bad)} cannot judge")
    stage.finish(
        {
            "questions": len(items),
            "unverifiable": len(bad),
            "reasons": dict(Counter(bad.values()).most_common(_NAMED)),
            "unverifiable_ids": sorted(bad)[:_NAMED],
            "databases": _databases(items),
            "summary": f"{len(items)} golds, {len(bad)} cannot judge",
        }
    )


def _databases(items: Sequence[tuple[Question, Database]]) -> list[str]:
    return sorted({database.name for _, database in items})

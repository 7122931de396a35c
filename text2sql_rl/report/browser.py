"""The browser of groups, as the page's script reads it: compact JSON in which every text stands once, compressed.

In: the rollout logs of a run. Out: what may stand inside a `<script>` element, and what share of the log it holds.
Where the log is longer than a page can carry, whole groups are taken evenly over the steps, and the page says so. Not
here: drawing; browser.js does that, and puts text into the page as text only.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql_rl.config import content_root
from text2sql_rl.errors import Text2SqlError
from text2sql_rl.report.examples import Example, as_example
from text2sql_rl.report.logged import count_rows, evenly, read_part
from text2sql_rl.report.words import short, visible
from text2sql_rl.runs import RunFolder

MOST_ROLLOUTS = 20_000
MOST_CHARACTERS = 12_000_000
_MOST_PARTS = 200  # files of one stage that are opened
# Stage -> its name for people and its weight when the log is too long for the page.
_STAGES = {
    "grpo": ("GRPO", 6),
    "difficulty": ("pass rates, before", 2),
    "difficulty_warm": ("pass rates, after the warm-up", 2),
    "evaluate_grpo": ("held-out: GRPO", 2),
    "evaluate_control": ("held-out: control", 1),
    "evaluate_warmup": ("held-out: warm-up", 1),
    "evaluate_sft": ("held-out: SFT", 1),
    "evaluate_base": ("held-out: base", 1),
}
# Nothing in the text may end the script element or begin another; line ends that JavaScript once refused go too.
_ESCAPES = str.maketrans({one: f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"})


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of a stage's log the browser holds."""

    name: str
    rollouts: int
    logged: int


@dataclass(frozen=True, slots=True)
class Browser:
    """The JSON (see `_packed` for its form) and what it holds."""

    text: str
    groups: int
    shown: tuple[Shown, ...]

    @property
    def compressed(self) -> str:
        """The JSON for the page, a few per cent of its size: less to read for a phone, though it unpacks it."""
        return base64.b64encode(zlib.compress(self.text.encode())).decode()

    @property
    def is_sampled(self) -> bool:
        """Whether the log holds more than the page."""
        return any(one.rollouts < one.logged for one in self.shown)


def browser(
    run: RunFolder, texts: Mapping[str, str], most: int = MOST_ROLLOUTS, most_characters: int = MOST_CHARACTERS
) -> Browser:
    """The groups of all stages that logged any.

    Args:
        run: the run folder; evaluations may be its parent's.
        texts: question id -> question.
        most: rollouts, over all stages; 0 gives none.
        most_characters: of the JSON; it is made from fewer rollouts until it fits.

    Raises:
        RunError: a part file that should be shown is damaged.
    """
    found = _browser(run, texts, most) if most else Browser("{}", 0, ())
    while len(found.text) > most_characters and found.groups > len(found.shown):
        most = most * most_characters // len(found.text) * 9 // 10
        found = _browser(run, texts, most)
    return found


def _browser(run: RunFolder, texts: Mapping[str, str], most: int) -> Browser:
    parts = {name: sorted((run.source(name).path / "rollouts").glob("*.parquet")) for name in _STAGES}
    logged = {name: sum(map(count_rows, paths)) for name, paths in parts.items()}
    stages, shown = [], []
    for name, quota in quotas({name: rows for name, rows in logged.items() if rows}, most).items():
        groups = list(_groups(parts[name], None if quota == logged[name] else quota))
        words, _ = _STAGES[name]
        shown.append(Shown(words, sum(len(group) for group in groups), logged[name]))
        stages.append((words, [as_example(group, texts) for group in groups]))
    return Browser(as_json(_packed(stages)), sum(len(groups) for _, groups in stages), tuple(shown))


def quotas(rows: Mapping[str, int], most: int) -> dict[str, int]:
    """`most` shared out by weight; what a stage does not need goes to the others. In the order of `rows`."""
    left, weight, out = most, sum(_STAGES[name][1] for name in rows), {}
    for name in sorted(rows, key=lambda one: rows[one] / _STAGES[one][1]):
        out[name] = min(rows[name], left * _STAGES[name][1] // weight)
        left, weight = left - out[name], weight - _STAGES[name][1]
    return {name: out[name] for name in rows if out[name]}


def _groups(paths: Sequence[Path], quota: int | None) -> Iterable[Any]:
    if quota is None:
        return [group for path in paths for group in read_part(path)]
    size = len(read_part(paths[0], 1)[0])
    chosen = evenly(paths, min(_MOST_PARTS, max(1, quota // size)))
    return [group for path in chosen for group in read_part(path, max(size, quota // len(chosen)))]


def _packed(stages: Iterable[tuple[str, Sequence[Example]]]) -> dict[str, Any]:
    """strings: the pool; everything below that is text is a place in it.

    stages: names. schemas: database -> its CREATE statements. groups: [stage, step, database, kind, question, gold,
    mean reward, answers]; an answer is [SQL, times sampled, reward or null, advantage, cause, reason, row counts,
    points of the reward, one a line].
    """
    pool: dict[str, int] = {}

    def place(text: str) -> int:
        return pool.setdefault(text, len(pool))

    groups = [
        [place(words), one.step, place(one.database), place(one.kind), place(one.question), place(one.gold_sql),
         round(one.mean, 4),
         [[place(answer.sql), answer.times, None if answer.total is None else round(answer.total, 4),
           round(answer.advantage, 3), place(answer.cause), place(answer.reason),
           place(answer.result), place("\n".join(answer.parts))]
          for answer in one.answers]]
        for words, examples in stages for one in examples
    ]  # fmt: skip
    names = {one.database for _, examples in stages for one in examples}
    schemas = {str(place(name)): place(text) for name, text in _schemas(names).items()}
    strings = [_readable(text) for text in pool]
    return {"strings": strings, "stages": [place(words) for words, _ in stages], "schemas": schemas, "groups": groups}


def _schemas(names: set[str]) -> dict[str, str]:
    """Database -> the text of its schema, of the databases that are at hand: a report needs them not."""
    try:
        folders = [path for path in (content_root() / "databases").iterdir() if path.name in names]
        files = {path.name: path / "schema.sql" for path in sorted(folders)}
        return {name: path.read_text("utf-8") for name, path in files.items() if path.is_file()}
    except (OSError, UnicodeDecodeError, Text2SqlError):
        return {}


def _readable(text: str) -> str:
    return short(text if text.isprintable() else visible(text))


def as_json(content: Mapping[str, Any]) -> str:
    """JSON that may stand inside a `<script>` element."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)

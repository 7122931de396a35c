"""The report as one HTML page: it needs no network and runs one script, its own.

In: a run folder and the numbers of report.json. Out: the page's text. What models wrote is hostile: everything is
escaped, control and direction characters are made visible, and the page's own policy forbids requests and any script
but the one whose hash it names. Not here: numbers, charts' shapes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from text2sql_rl.report import words
from text2sql_rl.report.browser import browser
from text2sql_rl.report.examples import Example, example_groups, heldout_failures, question_texts
from text2sql_rl.report.figures import KIND_WORDS, figures, heldout_figure
from text2sql_rl.report.redteam import read_redteam
from text2sql_rl.report.rule import rule_in_words
from text2sql_rl.report.tables import COMPARISON_WORDS, POLICY_WORDS
from text2sql_rl.runs import RunFolder

_FOLDER = Path(__file__).parent
_GROUPS, _FAILURES, _RELATED_GROUPS = 12, 12, 6


def page(run: RunFolder, numbers: Mapping[str, Any], redteam: Path | None = None) -> str:
    """The page's text.

    Args:
        run: the run folder.
        numbers: of report.json.
        redteam: what `text2sql-rl redteam RULE --out FILE` wrote; the run folder's redteam.json where none is given.

    Raises:
        RunError: a rollout or prediction file, or the red team's, is damaged or missing.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=words.percent,
        interval=words.interval,
        points=words.points,
        p_value=words.p_value,
        points_interval=words.points_interval,
        short=words.short,
    )
    texts = question_texts()
    last = next((source for source in ("grpo", "warmup", "sft") if run.source(f"evaluate_{source}").is_done()), "base")
    script, browsed = (_FOLDER / "browser.js").read_text("utf-8"), browser(run, texts)
    return environment.get_template("page.html.j2").render(
        numbers=numbers,
        script=Markup(script),
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        browser=browsed,
        browser_json=Markup(browsed.text),
        heldout=numbers["heldout"],
        policies=POLICY_WORDS,
        comparisons=COMPARISON_WORDS,
        kinds=KIND_WORDS,
        heldout_chart=heldout_figure(numbers["heldout"]),
        charts=figures(numbers, run.stage("grpo").metrics()),
        parts=_parts(numbers["heldout"]),
        groups=example_groups(run.stage("grpo"), texts, _GROUPS),
        failures=heldout_failures(run.source(f"evaluate_{last}"), _FAILURES),
        failing=POLICY_WORDS[last],
        related_groups=_related_groups(run, numbers["related"], texts),
        rule=rule_in_words(numbers["rule"], (numbers["lineage"]["environment"] or {}).get("rule_sha256")),
        redteam=read_redteam(redteam or run.path / "redteam.json", given=redteam is not None),
        commands=commands(numbers["lineage"], run.path),
        run_path=f"{run.path.parent.name}/{run.name}",
        config=json.dumps(run.read()["config"], indent=2),
    )


def commands(lineage: Mapping[str, Any], run: Path) -> list[str]:
    """What to type to make the run again from nothing: the code, the run, the page."""
    git = lineage["git"]
    return [
        *([f"git checkout {git['commit']}"] if git else []),
        f"pip install -c constraints.txt -e '.[train]'  # Python {lineage['versions'].get('python', '')}".rstrip(),
        lineage["command"],
        f"text2sql-rl report {shlex.quote(f'{run.parent.name}/{run.name}')}",
    ]


def _shown(value: Any) -> Any:
    """Every text that reaches the page, whatever its source; charts are markup already."""
    return words.visible(value) if type(value) is str else value


def _parts(heldout: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tables of held-out accuracy by database, hardness and shape, and of the causes of failure: a column a policy."""
    names = [name for name in POLICY_WORDS if name in heldout]
    tables = []
    for key, title in (("by_database", "database"), ("by_hardness", "hardness"), ("by_shape", "SQL shape")):
        rows = {}
        for part in dict.fromkeys(part for name in names for part in heldout[name][key] or {}):
            cells = [(heldout[name][key] or {}).get(part) for name in names]
            rows[part] = [words.percent(cell["correct"] / cell["scored"]) if cell else "" for cell in cells]
            rows[part].append(str(max(cell["scored"] for cell in cells if cell)))
        tables.append({"title": f"Accuracy by {title}", "names": [*names, "questions"], "rows": rows})
    causes = dict.fromkeys(cause for name in names for cause in heldout[name]["causes"] or {})
    rows = {cause: [str((heldout[name]["causes"] or {}).get(cause, 0)) for name in names] for cause in causes}
    return [{"title": "Wrong answers by cause", "names": names, "rows": rows}, *tables]


def _related_groups(
    run: RunFolder, related: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> dict[str, list[Example]]:
    """Groups of the last third of each related run: what its reward taught the policy to write."""
    out = {}
    for one in related:
        stage = RunFolder(run.path.parent / one["run"]).stage("grpo")
        out[one["run"]] = example_groups(stage, texts, 3 * _RELATED_GROUPS)[-_RELATED_GROUPS:]
    return out

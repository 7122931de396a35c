"""The report as one HTML page: it needs no network and runs one script, its own.

In: a run folder and the numbers of report.json. Out: the page's text. What models wrote is hostile: everything is
escaped, control and direction characters are made visible, and the page's own policy forbids requests and any script
but those whose hashes it names. A served page (`Served`) has one script more, and may ask its server. Not here:
numbers, charts' shapes, serving.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from text2sql_rl.report import words
from text2sql_rl.report.browser import MOST_ROLLOUTS, as_json, browser
from text2sql_rl.report.examples import Example, example_groups, heldout_failures, question_texts
from text2sql_rl.report.figures import KIND_WORDS, KL_TITLE, figures, heldout_figure
from text2sql_rl.report.progress import Progress
from text2sql_rl.report.redteam import read_redteam
from text2sql_rl.report.rule import rule_in_words
from text2sql_rl.report.tables import POLICY_WORDS, comparison_words
from text2sql_rl.runs import RunFolder

_FOLDER = Path(__file__).parent
_GROUPS, _FAILURES, _RELATED_GROUPS = 12, 12, 6


@dataclass(frozen=True, slots=True)
class Served:
    """What a page has beside the written one when it is served while the run goes on.

    Args:
        script: runs before the page's own; it may ask the server that the page came from, and nobody else.
        data: what the script reads, as JSON.
        links: (words, place) of the other pages.
        stages: what becomes of each stage, for the table.
    """

    script: str
    data: Mapping[str, Any]
    links: Sequence[tuple[str, str]]
    stages: Sequence[Progress]


def page(
    run: RunFolder,
    numbers: Mapping[str, Any],
    redteam: Path | None = None,
    served: Served | None = None,
    *,
    groups: bool = True,
) -> str:
    """The page's text.

    Args:
        run: the run folder.
        numbers: of report.json.
        redteam: what `text2sql-rl redteam RULE --out FILE` wrote; the run folder's redteam.json where none is given.
        served: what a server adds; None for a page that stands alone.
        groups: whether groups and wrong answers are in it: they are most of it, and take most of the time.

    Raises:
        RunError: a rollout or prediction file, or the red team's, is damaged or missing.
    """
    texts = question_texts() if groups else {}
    last = next((source for source in ("grpo", "warmup", "sft") if run.source(f"evaluate_{source}").is_done()), "base")
    script, browsed = (_FOLDER / "browser.js").read_text("utf-8"), browser(run, texts, MOST_ROLLOUTS if groups else 0)
    scripts = [*([served.script] if served else []), *([script] if browsed.groups or served else [])]
    drawn = figures(numbers, run.stage("grpo").metrics())
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            numbers=numbers,
            scripts=[Markup(one) for one in scripts],
            policy_words=Markup(content_policy(scripts, asks=served is not None)),
            served=served,
            served_json=Markup(as_json(served.data)) if served else "",
            browser=browsed,
            browser_data=Markup(browsed.compressed),
            heldout=numbers["heldout"],
            trained=words.trained(numbers, run.read()["config"]),
            failing_words=words.failing(numbers["heldout"]),
            policies=POLICY_WORDS,
            comparisons=comparison_words,
            question=words.question(numbers["heldout"]),
            kinds=KIND_WORDS,
            heldout_chart=heldout_figure(numbers["heldout"]),
            charts=[chart for chart in drawn.values() if chart],
            kl_is_off=KL_TITLE in drawn and not drawn[KL_TITLE],
            unmeasured=[title for title, chart in drawn.items() if not chart],
            parts=_parts(numbers["heldout"]),
            groups=example_groups(run.stage("grpo"), texts, _GROUPS) if groups else [],
            failures=heldout_failures(run.source(f"evaluate_{last}"), _FAILURES) if groups else [],
            failing=POLICY_WORDS[last],
            related_groups=_related_groups(run, numbers["related"], texts) if groups else {},
            rule=rule_in_words(numbers["rule"], (numbers["lineage"]["environment"] or {}).get("rule_sha256")),
            redteam=read_redteam(redteam or run.path / "redteam.json", given=redteam is not None),
            commands=commands(numbers["lineage"], run.path),
            run_path=f"{run.path.parent.name}/{run.name}",
            config=json.dumps(run.read()["config"], indent=2),
        )
    )


def environment(*folders: Path) -> jinja2.Environment:
    """Templates of this room, and of further folders, under which every text is escaped and made visible."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        percent=words.percent,
        interval=words.interval,
        points=words.points,
        p_value=words.p_value,
        points_interval=words.points_interval,
        short=words.short,
        unbroken=_unbroken,
    )
    return made


def content_policy(scripts: Sequence[str], *, asks: bool = False) -> str:
    """The content security policy of a page with these inline scripts; `asks` lets them ask the page's own server."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts
    )  # fmt: skip
    none = "'none'"
    own = " connect-src 'self'; img-src 'self';" if asks else ""
    return (
        f"default-src {none}; script-src {hashes or none}; style-src 'unsafe-inline';{own} base-uri {none}; "
        f"form-action {none}"
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


def _unbroken(text: str) -> Markup:
    """Text whose numbers keep their per cent signs on the line."""
    return escape(_shown(text)).replace(" %", "\u00a0%")


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
        stage = RunFolder(run.path.parent / one["path"]).stage("grpo")
        out[one["path"]] = example_groups(stage, texts, 3 * _RELATED_GROUPS)[-_RELATED_GROUPS:]
    return out

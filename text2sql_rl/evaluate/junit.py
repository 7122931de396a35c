"""results -> a JUnit file, so that a continuous-integration page shows which questions a model fails.

In: the rows of one evaluation and its results. Out: an XML file: one suite a question set, one case a question; wrong
is a failure, unjudged is skipped. A demanded accuracy is a case of its own. Not here: exit codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from text2sql_rl.runs import write_text

# XML 1.0 cannot hold these, not even escaped; models write them all the same.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(
    path: Path, rows: Iterable[Mapping[str, Any]], results: Mapping[str, Any], at_least: float | None = None
) -> None:
    """Write the file.

    Args:
        path: where.
        rows: of predictions.parquet; only the answers that count are taken.
        results: the content of results.json.
        at_least: the accuracy that was demanded of every question set.

    Raises:
        RunError: the disk refuses.
    """
    suites = {
        role: ElementTree.Element("testsuite", name=_plain(role)) for role in results["roles"]
    }  # fmt: skip
    for role, suite in suites.items():
        numbers = results["roles"][role]
        properties = ElementTree.SubElement(suite, "properties")
        facts = {"source": results["source"]["name"], "accuracy": numbers["accuracy"], "ci95": numbers["ci95"]}
        for name, value in {**facts, **{f"warning {at}": one for at, one in enumerate(results["warnings"], 1)}}.items():
            ElementTree.SubElement(properties, "property", name=name, value=_plain(str(value)))
        if at_least is not None:
            case = ElementTree.SubElement(suite, "testcase", classname=_plain(role), name=f"accuracy >= {at_least:g}")
            if not (numbers["accuracy"] or 0.0) >= at_least:
                ElementTree.SubElement(case, "failure", message=f"accuracy is {numbers['accuracy']}")
    for row in rows:
        if row["sample"] == 0:
            suites[row["role"]].append(_case(row))
    root = ElementTree.Element("testsuites", name="text2sql-rl")
    for suite in suites.values():
        suite.set("tests", str(len(suite.findall("testcase"))))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
        root.append(suite)
    ElementTree.indent(root, " ")
    write_text(path, '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n")


def _case(row: Mapping[str, Any]) -> ElementTree.Element:
    place = _plain(f"{row['role']}.{row['database']}")
    case = ElementTree.Element("testcase", classname=place, name=_plain(row["question_id"]))
    if not row["scored"]:
        ElementTree.SubElement(case, "skipped", message=_plain(row["reason"] or "could not be judged"))
    elif not row["equivalent"]:
        failure = ElementTree.SubElement(case, "failure", type=row["cause"], message=_plain(row["reason"] or ""))
        failure.text = _plain(f"{row['question']}\ngold      {row['gold_sql']}\ncandidate {row['candidate_sql'] or ''}")
    return case


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("�", text)

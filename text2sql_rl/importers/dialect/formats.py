"""TO_CHAR of Postgres: the patterns of its formats become those of STRFTIME.

Month and Day are filled up with blanks to nine letters, as Postgres does, unless TRIM or FM takes them off. What
STRFTIME has no pattern for (numbers, quarters within a longer format, week of the month) is refused, not guessed.
"""

from __future__ import annotations

import re

from sqlglot import exp

from text2sql_rl.importers.dialect.dates import UnknownModifierError
from text2sql_rl.importers.dialect.names import Names

_PADDED = {"Month": "%B", "Day": "%A"}
_PATTERNS = {
    "FMMonth": "%B", "FMDay": "%A", "FMMM": "%-m", "FMDDD": "%-j", "FMDD": "%-d", "FMHH24": "%-H", "FMHH12": "%-I",
    "FMHH": "%-I", "Mon": "%b", "Dy": "%a", "IYYY": "%G", "YYYY": "%Y", "YY": "%y", "MM": "%m", "DDD": "%j", "DD": "%d",
    "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f", "AM": "%p", "PM": "%p",
    "IW": "%V", "ID": "%u",
}  # fmt: skip
_TOKEN = re.compile(
    "|".join([*sorted({**_PATTERNS, **_PADDED}, key=len, reverse=True), '"[^"]*"', "[A-Za-z0-9]+", "."])
)


def apply(tree: exp.Expr, names: Names) -> int:
    """Write every TO_CHAR with a literal format as STRFTIME; how many.

    Raises:
        UnknownModifierError: a format with a pattern that has no equal.
    """
    changed = 0
    for node in list(tree.find_all(exp.TimeToStr)):
        if not isinstance(node.args.get("format"), exp.Literal):
            continue
        # sqlglot has read some of the patterns by then; written as Postgres again they are whole.
        given = exp.TimeToStr(this=exp.null(), format=node.args["format"].copy()).sql("postgres")
        shown = given.partition(", '")[2].removesuffix("')").replace("''", "'")
        value = node.this
        if shown in ("D", "Q"):
            number = exp.Anonymous(this="QUARTER" if shown == "Q" else "DAYOFWEEK", expressions=[value.copy()])
            node.replace(
                exp.cast(number if shown == "Q" else exp.Add(this=number, expression=exp.Literal.number(1)), "text")
            )
        elif shown in _PADDED and not isinstance(node.parent, exp.Trim):
            written = exp.Anonymous(this="STRFTIME", expressions=[value.copy(), exp.Literal.string(_PADDED[shown])])
            filled = [written, exp.Literal.number(9), exp.Literal.string(" ")]
            node.replace(exp.Anonymous(this="RPAD", expressions=filled))
        else:
            text = exp.Literal.string(_strftime(shown, trimmed=isinstance(node.parent, exp.Trim)))
            node.replace(exp.Anonymous(this="STRFTIME", expressions=[value.copy(), text]))
        changed += 1
    return changed


def _strftime(shown: str, *, trimmed: bool) -> str:
    written = []
    for token in _TOKEN.findall(shown):
        if token in _PATTERNS:
            written.append(_PATTERNS[token])
        elif token in _PADDED and trimmed and token == shown:
            written.append(_PADDED[token])
        elif token.startswith('"') and len(token) > 1:
            written.append(token[1:-1].replace("%", "%%"))
        elif token.isalnum():
            raise UnknownModifierError(f"the pattern {token!r} of TO_CHAR({shown!r})")
        else:
            written.append(token.replace("%", "%%"))
    return "".join(written)

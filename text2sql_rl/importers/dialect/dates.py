"""SQLite's date functions: date, time, datetime, julianday, strftime, unixepoch.

https://sqlite.org/lang_datefunc.html. SQLite keeps dates as texts; so do the results here. A text that is no date gives
NULL. Modifiers: '+N unit', computed ones ('-' || n || ' days'), 'start of ...', 'weekday N', 'unixepoch'; 'utc' and
'localtime' change nothing, the clock of the sandbox is UTC. Adding months overflows into the next month as it does
there. A numeric argument is a Julian day. Not here: a modifier from a column, times outside 00:00 to 24:00.
"""

from __future__ import annotations

import re

from sqlglot import exp

from text2sql_rl.importers.dialect.forms import written_number
from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.quotes import DATE_FUNCTIONS, DATE_PREFIX

_UNITS = ("second", "minute", "hour", "day", "month", "year")
_STEP = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(second|minute|hour|day|month|year)s?\s*", re.IGNORECASE)
_UNIT = re.compile(r"\s*(second|minute|hour|day|month|year)s?\s*", re.IGNORECASE)
_JULIAN_EPOCH = 2440587.5  # 1970-01-01 00:00 UTC
_SHAPES = {"date": "%Y-%m-%d", "time": "%H:%M:%S", "datetime": "%Y-%m-%d %H:%M:%S"}
# Codes of SQLite that DuckDB spells otherwise.
_CODES = {"%f": "%S.%g", "%e": "%-d", "%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%P": "%p"}


class UnknownModifierError(ValueError):
    """A modifier that cannot be read; the text says which."""


def apply(tree: exp.Expr, names: Names) -> int:
    """Write every date function in DuckDB's; how many.

    Raises:
        UnknownModifierError: a modifier that cannot be read.
    """
    changed = 0
    for call in reversed(list(tree.find_all(exp.Anonymous, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime))):
        new = _written(call, names)
        if new is not None:
            call.replace(new)
            changed += 1
    return changed


def _written(call: exp.Expr, names: Names) -> exp.Expr | None:
    if isinstance(call, exp.CurrentDate):
        return _shown(_now(), _SHAPES["date"])
    if isinstance(call, exp.CurrentTimestamp):
        return _shown(_now(), _SHAPES["datetime"])
    if isinstance(call, exp.CurrentTime):
        return _shown(_now(), _SHAPES["time"])
    name = call.name.lower().removeprefix(DATE_PREFIX)
    if not call.name.lower().startswith(DATE_PREFIX) or name not in DATE_FUNCTIONS:
        return None
    arguments = [argument.copy() for argument in call.expressions]
    form: exp.Expr | None = arguments.pop(0) if name == "strftime" and arguments else None
    moment = _moment(arguments, call, names)
    if name == "julianday":
        return _julian(moment)
    if name == "unixepoch":
        return exp.cast(exp.func("EPOCH", moment), "bigint")
    if name in _SHAPES:
        return _shown(moment, _SHAPES[name])
    if not isinstance(form, exp.Literal):
        raise UnknownModifierError("strftime with a format that is no text")
    return _formatted(moment, form.this)


def _formatted(moment: exp.Expr, form: str) -> exp.Expr:
    if form == "%s":
        return exp.cast(exp.cast(exp.func("EPOCH", moment), "bigint"), "text")
    if form == "%J":
        return exp.cast(_julian(moment), "text")
    if "%s" in form or "%J" in form:
        raise UnknownModifierError(f"strftime with {form!r}")
    return _shown(moment, re.sub(r"%.", lambda code: _CODES.get(code[0], code[0]), form))


def _shown(moment: exp.Expr, form: str) -> exp.Expr:
    return exp.Anonymous(this="STRFTIME", expressions=[moment, exp.Literal.string(form)])


def _now() -> exp.Expr:
    return exp.cast(exp.CurrentTimestamp(), "timestamp")


def _julian(moment: exp.Expr) -> exp.Expr:
    """The Julian day; DuckDB's begins half a day earlier."""
    day = exp.Anonymous(this="JULIAN", expressions=[moment])
    return exp.paren(exp.Sub(this=day, expression=exp.Literal.number(0.5)))


def _moment(arguments: list[exp.Expr], call: exp.Expr, names: Names) -> exp.Expr:
    value, modifiers = (arguments[0], arguments[1:]) if arguments else (exp.Literal.string("now"), [])
    texts = [one.this.strip().lower() if isinstance(one, exp.Literal) else "" for one in modifiers]
    if isinstance(value, exp.Literal) and value.is_string and value.this.strip().lower() == "now":
        moment = _now()
    else:
        kind = names.kind(call.expressions[len(call.expressions) - len(arguments)])
        if "unixepoch" in texts:
            seconds = exp.cast(value, "double") if kind.text else value
            moment = exp.cast(exp.Anonymous(this="TO_TIMESTAMP", expressions=[seconds]), "timestamp")
        elif kind.number or written_number(value):
            days = exp.paren(exp.Sub(this=value, expression=exp.Literal.number(_JULIAN_EPOCH)))
            seconds = exp.Mul(this=days, expression=exp.Literal.number(86400))
            moment = exp.cast(exp.Anonymous(this="TO_TIMESTAMP", expressions=[seconds]), "timestamp")
        else:
            moment = exp.TryCast(this=value, to=exp.DataType.build("timestamp"))
    at_start = False
    for modifier, text in zip(modifiers, texts, strict=True):
        if text in ("unixepoch", "localtime", "utc", "auto", "subsec", "subsecond", "julianday"):
            continue
        moment = _moved(moment, modifier, text, at_start)
        at_start = text.startswith("start of")
    return moment


def _moved(moment: exp.Expr, modifier: exp.Expr, text: str, at_start: bool) -> exp.Expr:
    if text.startswith("start of"):
        unit = text.removeprefix("start of").strip()
        if unit in ("day", "month", "year"):
            return exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(unit), moment])
    if weekday := re.fullmatch(r"weekday\s+([0-6])", text):
        ahead = exp.Mod(
            this=exp.paren(exp.Sub(this=exp.Literal.number(int(weekday[1]) + 7), expression=_weekday(moment.copy()))),
            expression=exp.Literal.number(7),
        )
        return _plus(moment, ahead, "day", at_start)
    if found := _STEP.fullmatch(text):
        return _plus(moment, exp.Literal.number(found[1].lstrip("+")), found[2].lower(), at_start)
    amount, unit = _computed(modifier)
    return _plus(moment, amount, unit, at_start)


def _weekday(moment: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="DAYOFWEEK", expressions=[moment])


def _computed(modifier: exp.Expr) -> tuple[exp.Expr, str]:
    """The amount and unit of a modifier made with ||."""
    parts = list(modifier.flatten()) if isinstance(modifier, exp.DPipe) else [modifier]
    last = parts[-1]
    unit = _UNIT.fullmatch(last.this) if isinstance(last, exp.Literal) and last.is_string else None
    if unit is None or len(parts) not in (2, 3):
        raise UnknownModifierError(f"a date modifier {modifier.sql('sqlite')!r}")
    sign = parts[0] if len(parts) == 3 else None
    amount: exp.Expr = exp.cast(parts[-2].copy(), "bigint")
    if sign is not None:
        if not isinstance(sign, exp.Literal) or sign.this.strip() not in ("+", "-"):
            raise UnknownModifierError(f"a date modifier {modifier.sql('sqlite')!r}")
        if sign.this.strip() == "-":
            amount = exp.Neg(this=amount)
    return amount, unit[1].lower()


def _plus(moment: exp.Expr, amount: exp.Expr, unit: str, at_start: bool) -> exp.Expr:
    if unit in ("month", "year") and not at_start:
        # The 31st plus a month is the first days of the month after, not the last of it.
        start = exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string("month"), moment.copy()])
        rest = exp.paren(exp.Sub(this=moment.copy(), expression=start.copy()))
        return exp.paren(exp.Add(this=_step(start, amount, unit), expression=rest))
    return exp.paren(_step(moment, amount, unit))


def _step(moment: exp.Expr, amount: exp.Expr, unit: str) -> exp.Expr:
    digits = amount.sql() if isinstance(amount, exp.Literal | exp.Neg) else ""
    if re.fullmatch(r"-?\d+", digits):
        back = digits.startswith("-")
        step = exp.Interval(this=exp.Literal.number(digits.lstrip("-")), unit=exp.var(unit.upper()))
        return (exp.Sub if back else exp.Add)(this=moment, expression=step)
    one = exp.Interval(this=exp.Literal.number(1), unit=exp.var(unit.upper()))
    return exp.Add(this=moment, expression=exp.Mul(this=exp.paren(amount), expression=one))

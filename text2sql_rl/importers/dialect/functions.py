"""Functions that DuckDB lacks, or means something else by: printf, format, typeof, char, hex, likely in SQLite.

In MySQL: SUBSTRING_INDEX, the text before the n-th separator, or behind it from the end.

printf and format with a literal pattern (https://sqlite.org/printf.html): %d cuts fractions off, %s writes NULL as
nothing, numbers that are NULL are 0, and a comma groups the thousands of whole numbers. Not here: other codes, a
pattern from a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from text2sql_rl.importers.dialect.dates import UnknownModifierError
from text2sql_rl.importers.dialect.forms import as_text, as_whole, prefix_number, try_number
from text2sql_rl.importers.dialect.names import Names
from text2sql_rl.importers.dialect.values import Holds

_CODE = re.compile(r"%([-+ 0,#!]*)(\d*)(?:\.(\d+))?([a-zA-Z%])")
_CALLED = {"printf", "likely", "unlikely", "likelihood"}


def apply(tree: exp.Expr, names: Names) -> int:
    """Write such calls in DuckDB's functions; how many.

    Raises:
        UnknownModifierError: a pattern that cannot be written for DuckDB.
    """
    if names.dialect == "mysql":
        return _substring_indexes(tree)
    changed = 0
    for call in reversed(list(tree.find_all(*_WRITTEN, exp.Anonymous))):
        if isinstance(call, exp.Anonymous) and call.name.lower() not in _CALLED:
            continue
        new = _named(call, names) if isinstance(call, exp.Anonymous) else _WRITTEN[type(call)](call, names)
        if new is not None:
            call.replace(new)
            changed += 1
    return changed


def _substring_indexes(tree: exp.Expr) -> int:
    changed = 0
    for call in list(tree.find_all(exp.SubstringIndex)):
        value, separator, count = call.this, call.args["delimiter"], call.args["count"]
        parts = exp.Anonymous(this="STRING_SPLIT", expressions=[value.copy(), separator.copy()])
        last = isinstance(count, exp.Neg)
        ends = [count.copy(), exp.Literal.number(-1)] if last else [exp.Literal.number(1), count.copy()]
        some = exp.Anonymous(this="ARRAY_SLICE", expressions=[parts, *ends])
        call.replace(exp.Anonymous(this="ARRAY_TO_STRING", expressions=[some, separator.copy()]))
        changed += 1
    return changed


def _named(call: exp.Expr, names: Names) -> exp.Expr | None:
    if not call.expressions:
        return None
    if call.name.lower() == "printf":
        return _printed(call.expressions[0], call.expressions[1:], names)
    return exp.paren(call.expressions[0].copy())


def _format(call: exp.Expr, names: Names) -> exp.Expr | None:
    return _printed(call.this, call.expressions, names)


def _printed(pattern: exp.Expr, arguments: list[exp.Expr], names: Names) -> exp.Expr:
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise UnknownModifierError("printf with a pattern that is no text")
    waiting = list(arguments)
    given: list[exp.Expr] = []

    def code(found: re.Match[str]) -> str:
        flags, width, digits, letter = found.groups()
        if letter == "%":
            return "%%"
        argument = waiting.pop(0) if waiting else exp.null()
        written, value = _argument(argument, letter, "," in flags, names)
        given.append(value)
        precision = f".{digits}" if digits and written == letter != "d" else ""
        return f"%{re.sub('[,!]', '', flags)}{width}{precision}{written}"

    text = _CODE.sub(code, pattern.this)
    return exp.Anonymous(this="PRINTF", expressions=[exp.Literal.string(text), *given])


def _argument(node: exp.Expr, letter: str, grouped: bool, names: Names) -> tuple[str, exp.Expr]:
    """The code DuckDB has for one argument, and the argument as that code takes it."""
    kind = names.kind(node)
    value = node.copy()
    if letter in "sz":
        if kind.holds is Holds.BOOL:
            value = as_whole(value)
        value = value if kind.text else as_text(value)
        return "s", exp.func("COALESCE", value, _text("")) if kind.nullable else value
    if letter not in "dif":
        raise UnknownModifierError(f"%{letter} of printf")
    if kind.text:
        value = prefix_number(value, kind)
    if letter != "f" and kind.holds in (Holds.UNKNOWN, Holds.OTHER):
        value = exp.Anonymous(this="TRUNC", expressions=[exp.cast(value, "double")])  # else rule `casts` cuts
    number: exp.Expr = exp.cast(value, "double" if letter == "f" else "bigint")
    number = exp.func("COALESCE", number, exp.Literal.number(0)) if kind.nullable else number
    if letter == "f":
        return "f", number
    if grouped:
        return "s", exp.Anonymous(this="FORMAT", expressions=[_text("{:,}"), number])
    return "d", number


def _typeof(call: exp.Expr, names: Names) -> exp.Expr | None:
    kind, node = names.kind(call.this), call.this
    if isinstance(node, exp.Null):
        return _text("null")
    whens: list[tuple[exp.Expr, exp.Expr]] = []
    if kind.mixed:
        whole = exp.TryCast(this=node.copy(), to=exp.DataType.build("bigint"))
        whens = [(_known(whole), _text("integer")), (_known(try_number(node.copy())), _text("real"))]
    plain = {Holds.INT: "integer", Holds.BOOL: "integer", Holds.REAL: "real", Holds.TEXT: "text"}.get(kind.holds)
    if plain is None:
        return None
    if not whens and not kind.nullable:
        return _text(plain)
    written = exp.Case().when(exp.Is(this=node.copy(), expression=exp.Null()), _text("null"))
    for condition, name in whens:
        written = written.when(condition, name)
    return written.else_(_text(plain))


def _known(node: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=node, expression=exp.Null()))


def _char(call: exp.Expr, names: Names) -> exp.Expr | None:
    if len(call.expressions) < 2:
        return None
    return _joined([exp.Chr(expressions=[one.copy()]) for one in call.expressions])


def _joined(parts: list[exp.Expr]) -> exp.Expr:
    found = parts[0]
    for part in parts[1:]:
        found = exp.DPipe(this=found, expression=part)
    return exp.paren(found)


def _hex(call: exp.Expr, names: Names) -> exp.Expr | None:
    kind = names.kind(call.this)
    inner = as_text(call.this.copy()) if kind.number else call.this.copy()
    if not kind.number and not kind.nullable:
        return None
    return exp.func("COALESCE", exp.Hex(this=inner), _text(""))


def _text(words: str) -> exp.Expr:
    return exp.Literal.string(words)


_WRITTEN: Mapping[type[exp.Expr], Callable[[exp.Expr, Names], exp.Expr | None]] = {
    exp.Format: _format,
    exp.Typeof: _typeof,
    exp.Chr: _char,
    exp.Hex: _hex,
}

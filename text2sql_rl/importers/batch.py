"""Several sources, one after the other: what cannot be read is listed, the rest imported.

In: sources and the function that imports one of them. Out: a `Summary`, and `rejects/KIND.jsonl` in the content root
with one object a line, `place` and `reason`. What is wrong with the content root itself ends it. Not here: reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any

from text2sql_rl.errors import DataError
from text2sql_rl.importers.build import Converted
from text2sql_rl.importers.layout import check_name, database_name, write_lines
from text2sql_rl.seals import Reject

_SHOWN_NOTES = 8
# Takes a source, the content root and a name, and keywords `replace` and `advance`.
Convert = Callable[..., Converted]


@dataclass(frozen=True, slots=True)
class Summary:
    """What an import of databases came to; `rejects` also holds what single databases had to leave out."""

    databases: tuple[Converted, ...]
    rejects: tuple[Reject, ...]
    rejects_file: Path | None
    elapsed_s: float

    def as_json(self) -> dict[str, Any]:
        """{databases, imported, skipped, tables, rows, rejected, rejects, rejects_file, seconds} for json.dumps."""
        return {
            "databases": [
                {
                    "name": one.name,
                    "path": str(one.path),
                    "tables": len(one.schema),
                    "rows": one.rows,
                    "skipped": one.skipped,
                    "notes": list(one.notes),
                }
                for one in self.databases
            ],
            "imported": sum(not one.skipped for one in self.databases),
            "skipped": sum(one.skipped for one in self.databases),
            "tables": sum(len(one.schema) for one in self.databases),
            "rows": sum(one.rows for one in self.databases),
            "rejected": len(self.rejects),
            "rejects": [asdict(reject) for reject in self.rejects],
            "rejects_file": None if self.rejects_file is None else str(self.rejects_file),
            "seconds": round(self.elapsed_s, 2),
        }

    def lines(self) -> Iterator[str]:
        """One line a database and its notes, then what was rejected, then the counts."""
        for one in self.databases:
            state = "was there" if one.skipped else "imported"
            yield f"{one.name}: {state}, {len(one.schema)} tables, {one.rows} rows"
            yield from (f"  {note}" for note in one.notes[:_SHOWN_NOTES])
            if len(one.notes) > _SHOWN_NOTES:
                yield f"  and {len(one.notes) - _SHOWN_NOTES} more notes in {one.path.parent / 'ABOUT.md'}"
        yield from (f"rejected  {reject.place}: {reject.reason}" for reject in self.rejects)
        counts = self.as_json()
        yield (
            f"{counts['imported']} imported, {counts['skipped']} there already, {counts['rejected']} rejected; "
            f"{counts['tables']} tables, {counts['rows']} rows, {counts['seconds']:.1f} s"
        )


def import_databases(
    kind: str,
    convert: Convert,
    sources: Sequence[Path],
    out: Path,
    *,
    name: str = "",
    replace: bool = False,
    started: Callable[[str], None] = lambda name: None,
    advance: Callable[[int], None] = lambda rows: None,
) -> Summary:
    """Imports every source.

    Args:
        kind: names the file of rejects.
        convert: imports one source, e.g. `convert_sqlite`.
        sources: what it takes.
        out: the content root.
        name: of the database, where there is one source; their own names where it is empty.
        replace: whether databases of the same name with other content are replaced.
        started: called with each database's name before it begins.
        advance: called with numbers of rows as they are read.

    Raises:
        DataError: a name is given for several sources, or cannot be one.
        RunError: the content root cannot be written; what was imported before stays.
    """
    if name:
        check_name(name)
    if name and len(sources) > 1:
        raise DataError(f"one name cannot be given to {len(sources)} sources", field="--name", fix="Import one")
    began = time.monotonic()
    found: dict[str, Converted] = {}
    rejects: list[Reject] = []
    for source in dict.fromkeys(sources):
        called = name or database_name(source.resolve())
        started(called)
        make = partial(convert, source, out, called, advance=advance)
        try:
            # Two sources of one name in one call: the second never replaces what the first just gave.
            made = make(replace=replace and called not in found)
        except DataError as error:
            rejects.append(Reject(str(source), _reason(error, source)))
            continue
        found[called] = made
        rejects += [Reject(str(source / part.place), part.reason) for part in made.rejects]
    file = out / "rejects" / f"{kind}.jsonl"
    if rejects:
        write_lines(file, [dumps(asdict(reject), ensure_ascii=False) for reject in rejects])
    else:
        file.unlink(missing_ok=True)
    elapsed_s = time.monotonic() - began
    return Summary(tuple(found.values()), tuple(rejects), file if rejects else None, elapsed_s)


def _reason(error: DataError, source: Path) -> str:
    place = "".join(f"{part}: " for part in (error.file, error.field) if part and part != source)
    return f"{place}{error.problem}" + (f". {error.fix}" if error.fix else "")

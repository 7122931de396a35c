"""Where imported content goes: a content root with `databases/` and `data/`.

In: a folder to fill. Out: `databases/NAME/` with `NAME.duckdb`, its seal `NAME.json` and `ABOUT.md`;
`data/SPLIT/ROLE.jsonl`. Each appears only when it is complete, and what an interrupted import left is swept by the
next one. A database that is there with the same content is not touched again; one with other content is replaced
only when that is asked for, and never where it was written by hand (`schema.sql`). Not here: making the files.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from text2sql_rl.databases import open_read_only
from text2sql_rl.errors import DataError, RunError
from text2sql_rl.questions import dump_line
from text2sql_rl.records import Question, Split
from text2sql_rl.seals import Seal, read_seal, seal_path

_STAGED = re.compile(r"\.(?P<name>.+)-(?P<pid>\d+)-[0-9a-f]{8}\.tmp")
# A disk that fills surfaces as any of these, depending on what DuckDB was doing just then.
_HURT = (OSError, duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException)
# DuckDB has catalogs and a schema of these names; a database called so could not be told from them.
_TAKEN = {"main", "temp", "system", "memory", "information_schema", "pg_catalog"}


class ContentRoot:
    """A content root that is being filled.

    Args:
        path: the folder; it and its folders `databases` and `data` are made where they are missing.

    Raises:
        RunError: the folder cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.databases, self.data = self.path / "databases", self.path / "data"
        with _writing(self.path):
            for folder in (self.databases, self.data):
                folder.mkdir(parents=True, exist_ok=True)
                if not os.access(folder, os.W_OK):
                    raise RunError("cannot be written (permission denied)", file=folder, fix="Choose another --out")
            self._sweep()

    def database_file(self, name: str) -> Path:
        """The DuckDB file of the database `name`, whether it is there or not."""
        return self.databases / name / f"{name}.duckdb"

    def seal(self, name: str) -> Seal | None:
        """The seal of an imported database, or None where it is not there as it was written."""
        return read_seal(self.database_file(name))

    def accepts(self, name: str, content: str, replace: bool = False) -> bool:
        """Whether the database `name` must be built: False where it is there, from the same content.

        Raises:
            DataError: another database has that name, and may not be replaced.
        """
        folder = self.databases / name
        if not folder.exists():
            return True
        seal = self.seal(name)
        if seal is not None and seal.content == content:
            return False
        if (folder / "schema.sql").exists():
            raise DataError(
                f"a database {name!r} is there already, written as schema.sql", file=folder, fix="Give another --name"
            )
        if not replace:
            raise DataError(
                f"a database {name!r} is there already, with other content",
                file=folder,
                fix="Give another --name, or --replace to take the new one",
            )
        return True

    @contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """An empty folder beside the databases, to build `name` in; it is gone afterwards, whatever happens.

        Raises:
            RunError: it cannot be written, e.g. the disk is full.
        """
        folder = self.databases / f".{name}-{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp"
        with _writing(self.path):
            folder.mkdir()
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def place(self, name: str, built: Path) -> Path:
        """Moves a built database (DuckDB file, seal, ABOUT.md in the folder `built`) to its place; its DuckDB file.

        Raises:
            RunError: it cannot be written.
        """
        target = self.database_file(name)
        staged = built / target.name
        with open_read_only(staged):  # what cannot be opened is never placed
            staged.chmod(0o444)
        with _writing(self.path):
            if not target.parent.exists():
                built.rename(target.parent)
            else:
                # The seal holds the file's hash: a kill between the two leaves a file that counts as not imported.
                for file in (staged, seal_path(staged), built / "ABOUT.md"):
                    file.replace(target.parent / file.name)
        return target

    def write_questions(self, split: Split, role: str, questions: Sequence[Question]) -> Path:
        """Writes `data/SPLIT/ROLE.jsonl`, or leaves it where it holds just that; its path.

        Raises:
            RunError: it cannot be written.
        """
        path = self.data / split.value / f"{role}.jsonl"
        write_lines(path, [dump_line(question) for question in questions])
        return path

    def _sweep(self) -> None:
        for folder in self.databases.iterdir():
            found = _STAGED.fullmatch(folder.name)
            if found and not _alive(int(found["pid"])):
                shutil.rmtree(folder, ignore_errors=True)


def database_name(source: Path) -> str:
    """The name a source's database gets when nobody gives one: its stem, with `_` where a name may not hold a sign."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", source.stem).lstrip("_.-") or "database"
    return f"{name}_db" if name.lower() in _TAKEN else name


def check_name(name: str) -> None:
    """Refuses what cannot name a database.

    Raises:
        DataError: says what a name may hold.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name.lower() in _TAKEN:
        raise DataError(
            f"{name!r} cannot name a database",
            field="--name",
            fix=f"Letters, digits, '_', '.' and '-', and none of {', '.join(sorted(_TAKEN))}",
        )


def write_lines(path: Path, lines: Iterable[str]) -> bool:
    """Writes the lines to `path`, which is complete afterwards or as it was before; whether anything changed.

    Raises:
        RunError: it cannot be written.
    """
    content = "".join(f"{line}\n" for line in lines).encode()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with _writing(path):
        if path.is_file() and path.read_bytes() == content:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(content)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return True


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except _HURT as error:
        reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[0]
        raise RunError(
            f"cannot be written ({reason})", file=place, fix="Free disk space or choose another --out"
        ) from error


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

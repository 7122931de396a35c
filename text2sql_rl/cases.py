"""Labelled pairs of gold and candidate, judged and compared with their labels.

In: a JSON Lines file, one case a line: `id`, `gold_sql`, `pred_sql` or `completion` (missing: an empty answer), the
rows as `setup_sql` or as `database` (a .duckdb file, relative to the case file), and optionally `expected`, one
outcome or a list of right ones. `policy` names the normalisation a label rests on: such a case is about its given
rows and meets no counterfactual ones. Out: a report with one outcome a case.

Outcomes: equivalent, different, unsafe (refused before it ran), error (no SQL, or it failed), stopped (time, memory,
size), ambiguous (the gold cannot judge, or there is a second defensible reading).
Not here: rewards, training. `setup_sql` is trusted: it builds the database in this process.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from text2sql_rl.compare import compare, overall
from text2sql_rl.errors import DataError
from text2sql_rl.explain import one_line
from text2sql_rl.extract import extract
from text2sql_rl.gold import prepare_golds
from text2sql_rl.instances import build_instances, fair
from text2sql_rl.records import Candidate, Execution, Gold, Instance, Match, Outcome, Verdict
from text2sql_rl.sandbox import Job, Limits, Sandbox

OUTCOMES = ("equivalent", "different", "unsafe", "error", "stopped", "ambiguous")
# Cases may be about long answers; a training question whose gold returns this much is filtered out before.
CASE_LIMITS = Limits(max_rows=100_000, max_bytes=64 << 20)
_KEYS = {"id", "setup_sql", "database", "gold_sql", "pred_sql", "completion", "expected", "policy"}
_ENDS = {
    Outcome.REFUSED: "unsafe",
    Outcome.ERROR: "error",
    Outcome.TIMEOUT: "stopped",
    Outcome.MEMORY: "stopped",
    Outcome.TOO_LARGE: "stopped",
}
# A match on such a gold is one of several defensible answers.
_OPEN_FLAGS = {"ambiguous", "unordered_limit", "unordered_aggregate", "arbitrary_value"}


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the file; `expected` is empty when the case has no label."""

    id: str
    gold_sql: str
    completion: str
    setup_sql: str
    database: str
    expected: tuple[str, ...]
    policy: str


@dataclass(frozen=True, slots=True)
class Judged:
    """One case with its outcome, the reason, and whether it is among the expected ones (None: no label)."""

    id: str
    outcome: str
    reason: str
    code: str
    expected: tuple[str, ...]
    right: bool | None
    instances: int


@dataclass(frozen=True, slots=True)
class CaseReport:
    """All judged cases, how many missed their label, and the seconds it took."""

    cases: tuple[Judged, ...]
    seconds: float

    @property
    def missed(self) -> int:
        """Cases whose outcome is not among the expected ones."""
        return sum(case.right is False for case in self.cases)

    def as_json(self) -> dict[str, Any]:
        """{cases, total, missed, seconds}, ready for json.dumps."""
        cases = [asdict(case) for case in self.cases]
        return {"cases": cases, "total": len(cases), "missed": self.missed, "seconds": round(self.seconds, 3)}

    def lines(self) -> Iterator[str]:
        """One line a case, then the table of labels against outcomes, then the count."""
        for case in self.cases:
            mark = {True: "ok    ", False: "MISSED", None: "      "}[case.right]
            wanted = "" if case.right is not False else f" (expected {' or '.join(case.expected)})"
            yield f"{mark} {case.outcome:<10} {case.id}{wanted}: {one_line(case.reason)}"
        yield ""
        yield from self._table()
        yield f"{len(self.cases)} cases, {self.missed} missed, {self.seconds:.1f} s"

    def _table(self) -> Iterator[str]:
        counts = Counter((label(case), case.outcome) for case in self.cases if case.expected)
        if not counts:
            return
        labels = sorted({row for row, _ in counts})
        wide = max(map(len, labels)) + 1
        yield "expected".ljust(wide) + "".join(name.rjust(12) for name in OUTCOMES)
        for row in labels:
            yield row.ljust(wide) + "".join(str(counts[row, name] or ".").rjust(12) for name in OUTCOMES)


def label(case: Judged) -> str:
    """The expected outcomes as one word for tables."""
    return "|".join(case.expected)


def run_cases(
    path: Path,
    limits: Limits | None = None,
    workers: int = 1,
    instances: int = 6,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CaseReport:
    """Judge every case of a file.

    Args:
        path: the JSON Lines file.
        limits: the sandbox's limits; None takes `CASE_LIMITS`.
        workers: sandbox workers.
        instances: the most counterfactual instances a case meets; 0 judges on the given rows alone.
        progress: called with the number of cases judged so far and of all.

    Raises:
        DataError: the file is missing, a line is malformed, or a case's database cannot be built.
    """
    started = time.perf_counter()
    cases = load_cases(path)
    with tempfile.TemporaryDirectory(prefix="text2sql-cases-") as folder:
        # Many cases share their rows.
        made: dict[tuple[str, str], Instance] = {}
        for case in cases:
            if (case.setup_sql, case.database) not in made:
                made[case.setup_sql, case.database] = _real_instance(case, path, Path(folder), len(made))
        reals = [made[case.setup_sql, case.database] for case in cases]
        with Sandbox(limits or CASE_LIMITS, workers) as sandbox:
            judged: list[Judged] = []
            for one in _judge(cases, reals, sandbox, Path(folder), instances):
                judged.append(one)
                progress(len(judged), len(cases))
    return CaseReport(cases=tuple(judged), seconds=time.perf_counter() - started)


def load_cases(path: Path) -> list[Case]:
    """Read a case file.

    Raises:
        DataError: with the file and line at fault.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DataError("there is no such file", file=path, fix="Give the path of a JSON Lines file") from error
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=path, fix="Give a JSON Lines file") from error
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 (byte {error.start})", file=path, fix="Save it as UTF-8") from error
    cases: dict[str, Case] = {}
    lines: dict[str, int] = {}
    # Only "\n" ends a line: a JSON string may hold other line ends, such as U+2028.
    for at, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        case = _case(line, path, f"line {at}")
        if case.id in cases:
            problem = f"id {case.id!r} is already that of line {lines[case.id]}"
            raise DataError(problem, file=path, field=f"line {at}", fix="Give every case its own id")
        cases[case.id], lines[case.id] = case, at
    if not cases:
        raise DataError("holds no case", file=path, fix="Write one JSON object a line")
    return list(cases.values())


def _case(line: str, path: Path, place: str) -> Case:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}", file=path, field=place, fix="Write one JSON object a line") from error
    if not isinstance(raw, dict):
        raise DataError("not a JSON object", file=path, field=place, fix="Write one JSON object a line")
    for key in ("id", "gold_sql"):
        if not isinstance(raw.get(key), str) or not raw[key].strip():
            raise DataError(f"needs a text {key!r}", file=path, field=place, fix=f"Add {key!r}")
    for key in _KEYS - {"expected"}:
        if not isinstance(raw.get(key) or "", str):
            raise DataError(f"{key!r} is not text", file=path, field=place, fix="Write it as a JSON string")
    if bool(raw.get("setup_sql")) == bool(raw.get("database")):
        raise DataError("needs its rows", file=path, field=place, fix="Give either 'setup_sql' or 'database'")
    expected = raw.get("expected") or ()
    expected = (expected,) if isinstance(expected, str) else expected
    if not isinstance(expected, list | tuple) or not all(isinstance(name, str) for name in expected):
        raise DataError("must be an outcome or a list of them", file=path, field=f"{place}, expected",
                        fix=f"One of: {', '.join(OUTCOMES)}")  # fmt: skip
    unknown = [name for name in expected if name not in OUTCOMES]
    if unknown:
        fix = f"Use one or more of {', '.join(OUTCOMES)}"
        raise DataError(f"expected outcome {unknown[0]!r} is unknown", file=path, field=place, fix=fix)
    return Case(
        id=raw["id"],
        gold_sql=raw["gold_sql"],
        completion=raw.get("pred_sql") or raw.get("completion") or "",
        setup_sql=raw.get("setup_sql") or "",
        database=raw.get("database") or "",
        expected=tuple(expected),
        policy=raw.get("policy") or "",
    )


def _real_instance(case: Case, path: Path, folder: Path, at: int) -> Instance:
    file = folder / f"case{at}.duckdb" if case.setup_sql else path.parent / case.database
    try:
        with duckdb.connect(str(file), read_only=not case.setup_sql) as connection:
            if case.setup_sql:
                connection.execute(case.setup_sql)
    except (duckdb.Error, OSError) as error:
        fix = "Check setup_sql" if case.setup_sql else "Give a .duckdb file, relative to the case file"
        raise DataError(f"no database: {one_line(str(error))}", file=path, field=f"case {case.id}", fix=fix) from error
    sha = hashlib.sha256(case.setup_sql.encode() or file.read_bytes()).hexdigest()
    return Instance(database=file.stem, index=0, path=file, sha256=sha)


def _judge(
    cases: Sequence[Case], reals: Sequence[Instance], sandbox: Sandbox, folder: Path, most: int
) -> Iterator[Judged]:
    golds = prepare_golds([(real, case.gold_sql) for case, real in zip(cases, reals, strict=True)], sandbox)
    candidates = [extract(case.completion) for case in cases]
    first = _run(sandbox, [(real, found.sql) for real, found in zip(reals, candidates, strict=True)])
    for case, real, gold, candidate, execution in zip(cases, reals, golds, candidates, first, strict=True):
        verdicts = [compare(gold, execution, candidate.sql or "")] if execution else []
        if most and verdicts and verdicts[0].match == Match.MATCH and not case.policy:
            own = (candidate.sql or "",)
            others = build_instances(real, [gold], sandbox, folder, most, second_draw=False, candidates=own)
            more = fair(gold, prepare_golds([(other, case.gold_sql) for other in others], sandbox))
            ran = _run(sandbox, [(other, candidate.sql) for other in others])
            verdicts += [compare(target, found) for target, found in zip(more, ran, strict=True) if found]
        outcome, reason, code = _outcome(gold, candidate, execution, verdicts)
        right = outcome in case.expected if case.expected else None
        yield Judged(case.id, outcome, reason, code, case.expected, right, max(len(verdicts) - 1, 0))


def _run(sandbox: Sandbox, pairs: Sequence[tuple[Instance, str | None]]) -> list[Execution | None]:
    done = iter(sandbox.run([Job(instance, sql) for instance, sql in pairs if sql is not None]))
    return [None if sql is None else next(done) for _, sql in pairs]


def _outcome(
    gold: Gold, candidate: Candidate, execution: Execution | None, verdicts: Sequence[Verdict]
) -> tuple[str, str, str]:
    if gold.unverifiable:
        return "ambiguous", gold.unverifiable, "gold"
    if execution is None:
        return "error", f"no SQL: {candidate.reason}", "no_answer"
    if execution.outcome in _ENDS:
        stopped = execution.outcome == Outcome.REFUSED and execution.reason.startswith("longer than")
        return "stopped" if stopped else _ENDS[execution.outcome], execution.reason, execution.outcome.value
    verdict = overall(verdicts)
    if verdict.match == Match.UNVERIFIABLE or _OPEN_FLAGS & set(verdict.flags):
        return "ambiguous", verdict.words, verdict.code
    return "equivalent" if verdict.match == Match.MATCH else "different", verdict.words, verdict.code

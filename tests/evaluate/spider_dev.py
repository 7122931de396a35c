"""Spider dev on DuckDB, with predictions made here: golds, golds changed on purpose, and broken ones.

In: the folder `spider/` of the shared data. Out: a content root with its 20 databases as DuckDB files, a question file
of the 1,026 questions that have a DuckDB gold, and a prediction for each, of a known kind.
`python -m tests.evaluate.spider_dev ROOT` makes the root, scores it on shared instances, writes the list of
disagreements beside this file and prints the table of docs/evaluation.md.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from text2sql_rl.content import open_content
from text2sql_rl.evaluate.guard import HeldOut
from text2sql_rl.evaluate.predictions import read_rows
from text2sql_rl.evaluate.results import read_results
from text2sql_rl.evaluate.score import Settings, score
from text2sql_rl.evaluate.sources import FileSource
from text2sql_rl.sandbox import Limits
from text2sql_rl.scoring import load_rule

SPIDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "spider"
REPOSITORY = Path(__file__).resolve().parents[2]
LISTED = Path(__file__).with_name("spider_disagreements.tsv")


# ---- what is done to a gold: gives the changed statement, or None where it cannot be done ---------------------


def _tree(sql: str) -> exp.Expression:
    return sqlglot.parse_one(sql, dialect="duckdb")


def _columns(tree: exp.Expression) -> list[exp.Expression]:
    return list(tree.expressions) if isinstance(tree, exp.Select) else []


def swap_columns(sql: str) -> str | None:
    tree = _tree(sql)
    columns = _columns(tree)
    if len(columns) < 2 or any(isinstance(one, exp.Star) for one in columns):
        return None
    tree.set("expressions", [*columns[1:], columns[0]])
    return tree.sql("duckdb")


def add_column(sql: str) -> str | None:
    tree = _tree(sql)
    columns = _columns(tree)
    return tree.select(columns[0].copy(), dialect="duckdb").sql("duckdb") if columns else None  # type: ignore[attr-defined]


def toggle_distinct(sql: str) -> str | None:
    tree = _tree(sql)
    if not isinstance(tree, exp.Select):
        return None
    tree.set("distinct", None if tree.args.get("distinct") else exp.Distinct())
    return tree.sql("duckdb")


def drop_order(sql: str) -> str | None:
    tree = _tree(sql)
    if not tree.args.get("order") or tree.args.get("limit"):
        return None
    tree.set("order", None)
    return tree.sql("duckdb")


def reverse_order(sql: str) -> str | None:
    tree = _tree(sql)
    if not tree.args.get("order"):
        return None
    for one in tree.args["order"].expressions:
        one.set("desc", not one.args.get("desc"))
    return tree.sql("duckdb")


def drop_where(sql: str) -> str | None:
    tree = _tree(sql)
    if not tree.args.get("where"):
        return None
    tree.set("where", None)
    return tree.sql("duckdb")


def widen_limit(sql: str) -> str | None:
    tree = _tree(sql)
    return tree.limit(2).sql("duckdb") if tree.args.get("limit") else None  # type: ignore[attr-defined]


def as_floats(sql: str) -> str | None:
    tree = _tree(sql)
    columns = _columns(tree)
    counts = [one for one in columns if isinstance(one, exp.Count)]
    for one in counts:
        one.replace(exp.Mul(this=one.copy(), expression=exp.Literal.number("1.0")))
    return tree.sql("duckdb") if counts else None


def noisy_floats(sql: str) -> str | None:
    tree = _tree(sql)
    found = [one for one in _columns(tree) if isinstance(one, exp.Avg)]
    for one in found:
        total = exp.Sum(this=exp.cast(exp.Div(this=one.this.copy(), expression=exp.Literal.number("3.0")), "DOUBLE"))
        one.replace(exp.Div(this=exp.Mul(this=total, expression=exp.Literal.number("3.0")),
                            expression=exp.Count(this=one.this.copy())))  # fmt: skip
    return tree.sql("duckdb") if found else None


def shuffled(sql: str) -> str | None:
    return f"SELECT * FROM ({sql.rstrip(';')}) AS answer ORDER BY ALL DESC"


def always_false(sql: str) -> str | None:
    return f"SELECT * FROM ({sql.rstrip(';')}) AS answer WHERE 1 = 0"


def broken(sql: str) -> str | None:
    return sql.replace("SELECT", "SELECT no_such_column,", 1)


def unfinished(sql: str) -> str | None:
    return sql[: len(sql) * 2 // 3]


CHANGES: dict[str, Callable[[str], str | None]] = {
    "gold": lambda sql: sql,
    "columns swapped": swap_columns,
    "distinct toggled": toggle_distinct,
    "order dropped": drop_order,
    "order reversed": reverse_order,
    "where dropped": drop_where,
    "limit 2": widen_limit,
    "count as float": as_floats,
    "average by another sum": noisy_floats,
    "rows reordered": shuffled,
    "column added": add_column,
    "always false": always_false,
    "unknown column": broken,
    "cut off": unfinished,
}


def typed_in(rows: list[tuple[object, ...]]) -> str | None:
    """The answer on these rows as constants."""
    if len(rows) != 1 or not all(isinstance(cell, int | str) for cell in rows[0]):
        return None
    return "SELECT " + ", ".join(exp.convert(cell).sql("duckdb") for cell in rows[0])


# ---- the content root ----------------------------------------------------------------------------------------


def build(root: Path, every: int = 1) -> list[dict[str, str]]:
    """Make the content root and give one record a question: id, database, question, gold_sql, kind, prediction."""
    lines = (SPIDER / "dev_duckdb_verified.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines][::every]
    for name in sorted({one["db_id"] for one in questions}):
        folder = root / "databases" / name
        folder.mkdir(parents=True)
        _copy(SPIDER / "database" / name / f"{name}.sqlite", _file(root, name))
    (root / "data" / "heldout").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "rewards", root / "rewards")
    records = list(_predictions(questions, root))
    kept = ("id", "database", "question", "gold_sql", "hardness")
    _write(root / "data" / "heldout" / "spider.jsonl", [{key: one[key] for key in kept} for one in records])
    _write(root / "predictions.jsonl", [{"id": one["id"], "completion": one["prediction"]} for one in records])
    return records


def _predictions(questions: list[dict[str, str]], root: Path) -> Iterator[dict[str, str]]:
    """Each question with a prediction; the kinds take turns as far as they can be done to its gold."""
    times: Counter[str] = Counter()
    golds: dict[str, list[str]] = {}
    for one in questions:
        golds.setdefault(one["db_id"], []).append(one["duckdb_sql"])
    opened = {name: duckdb.connect(str(_file(root, name)), True, {"threads": 1}) for name in golds}
    for at, one in enumerate(questions):
        sql, name = one["duckdb_sql"], one["db_id"]
        made = {kind: change(sql) for kind, change in CHANGES.items()}
        others = [other for other in golds[name] if other != sql]
        made["another gold"] = others[at % len(others)] if others else None
        made["answer typed in"] = typed_in(opened[name].execute(sql).fetchall())
        possible = [kind for kind, text in made.items() if text is not None and (kind == "gold" or text != sql)]
        kind = min(possible, key=lambda each: times[each])
        times[kind] += 1
        yield {"id": one["id"], "database": name, "question": one["question"], "gold_sql": sql,
               "hardness": one["hardness"], "kind": kind, "prediction": made[kind] or ""}  # fmt: skip


def _file(root: Path, name: str) -> Path:
    return root / "databases" / name / f"{name}.duckdb"


def _copy(source: Path, target: Path) -> None:
    """Every table, with the narrowest of BIGINT, DOUBLE and VARCHAR that holds what a column stores."""
    reader = sqlite3.connect(f"file:{source}?mode=ro", uri=True)
    with duckdb.connect(str(target)) as writer:
        tables = reader.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        for (table,) in tables.fetchall():
            cursor = reader.execute(f'SELECT * FROM "{table}"')
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            kinds = [{type(row[at]) for row in rows} - {type(None)} for at in range(len(names))]
            types = [_type(found) for found in kinds]
            columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(names, types, strict=True))
            keys = ", ".join(f'"{one[1]}"' for one in reader.execute(f'PRAGMA table_info("{table}")') if one[5])
            key = f", PRIMARY KEY ({keys})" if keys and _is_key(reader, table, keys) else ""
            writer.execute(f'CREATE TABLE "{table}" ({columns}{key})')
            cells = [
                [str(cell) if kind == "VARCHAR" and cell is not None else cell for cell in column]
                for kind, column in zip(types, zip(*rows, strict=True), strict=False)
            ]
            if rows:
                arrow = pa.table({name: pa.array(column) for name, column in zip(names, cells, strict=True)})
                writer.register("arrow", arrow)
                writer.execute(f'INSERT INTO "{table}" SELECT * FROM arrow')
                writer.unregister("arrow")
    reader.close()


def _is_key(reader: sqlite3.Connection, table: str, keys: str) -> bool:
    """Whether a declared key holds; SQLite lets NULLs and, in files written by hand, repeats pass."""
    rows = reader.execute(f'SELECT {keys} FROM "{table}"').fetchall()
    return len(set(rows)) == len(rows) and not any(cell is None for row in rows for cell in row)


def _type(found: set[type]) -> str:
    if found <= {int}:
        return "BIGINT" if found else "VARCHAR"
    return "DOUBLE" if found <= {int, float} else "VARCHAR"


def _write(path: Path, records: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), encoding="utf-8")


# ---- who is right where the rules disagree ---------------------------------------------------------------------

_OTHER_ROWS = "right on the real rows only"
LISTED_COLUMNS = ("id", "prediction", "headline", "bird", "suite", "right", "why")


def explain(kind: str, row: Mapping[str, Any]) -> tuple[str, str]:
    """Who is right, and why, where the headline and a published rule disagree on this row of predictions.parquet."""
    reason, gold = row["reason"] or "", row["gold_sql"].upper()
    if not row["scored"]:
        return "open", "the gold itself cannot judge: its answer depends on how rows are stored, or is too large"
    if row["cause"] == "constant":
        return "headline", "the answer is typed in; it fits these rows and answers no question"
    if "columns, expected" in reason:
        return "headline", "the prediction has a column too many; empty results count as equal whatever their columns"
    if _OTHER_ROWS in reason and kind != "distinct toggled":
        return "headline", "another question is answered; the real rows do not show it and other rows do"
    if kind == "distinct toggled" and not row["equivalent"]:
        if "DISTINCT" in gold:
            return "headline", "the gold asks for distinct rows and the prediction repeats them"
        return "open", "the gold repeats rows and the prediction does not; the question may want either"
    if "not as often" in reason:
        return "headline", "a condition or a limit is wrong; only duplicates show it"
    if "not in the order" in reason:
        return "headline", "the gold asks for an order and the rows are not in it"
    if row["equivalent"] and kind in ("order reversed", "where dropped"):
        return (
            "published",
            "another question is answered; no instance here shows it",
        )
    if row["equivalent"] and kind == "columns swapped":
        return "headline", "the same columns, told by their names, in another order"
    if row["equivalent"] and kind == "average by another sum":
        return "headline", "the same average; its last digits depend on the order of summing"
    if row["equivalent"] and not row["suite_match"] and "LIMIT" in gold:
        return "headline", "rows tie in the gold's order, so any order among them is right"
    raise ValueError(f"nobody knows who is right: {kind}, {row}")


def disagreements(folder: Path, kinds: Mapping[str, str]) -> list[dict[str, str]]:
    """One record of `LISTED_COLUMNS` for each question on which the three rules do not say the same."""
    words = {True: "right", False: "wrong", None: "unscored"}
    out = []
    for row in read_rows(folder / "predictions.parquet"):
        headline = row["equivalent"] if row["scored"] else None
        if len({headline, row["set_match"], row["suite_match"]}) > 1:
            kind = kinds[row["question_id"]]
            verdicts = [words[one] for one in (headline, row["set_match"], row["suite_match"])]
            values = (row["question_id"], kind, *verdicts, *explain(kind, row))
            out.append(dict(zip(LISTED_COLUMNS, values, strict=True)))
    return sorted(out, key=lambda one: (one["why"], one["prediction"], one["id"]))


def table(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """The lines of the table in docs/evaluation.md: how often, three verdicts, who is right and why."""
    keys = ("headline", "bird", "suite", "right", "why")
    counts = Counter(tuple(row[key] for key in keys) for row in rows)
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [f"| {count} | {' | '.join(values)} |" for values, count in ranked]


def main(root: Path) -> None:
    """Make the root, score it, list the disagreements, and print the table."""
    os.environ.update(TEXT2SQL_ROOT=str(root), TEXT2SQL_CACHE=str(root / "cache"))
    if not (root / "kinds.json").is_file():
        records = build(root)
        (root / "kinds.json").write_text(json.dumps({one["id"]: one["kind"] for one in records}), encoding="utf-8")
    kinds = json.loads((root / "kinds.json").read_text(encoding="utf-8"))
    content = open_content()
    questions = content.questions.role("spider")
    source = FileSource(root / "predictions.jsonl", questions)
    judging = Settings(rule=load_rule("bound-v1"), limits=Limits())
    score(content.pairs(questions), source, root / "out", judging, HeldOut(), lambda *told: None)
    write_list(root / "out", kinds)


def write_list(folder: Path, kinds: Mapping[str, str]) -> None:
    """List the disagreements of one evaluation, and print how often each rule accepts and the table."""
    rows = disagreements(folder, kinds)
    lines = ["\t".join(LISTED_COLUMNS), *("\t".join(row.values()) for row in rows)]
    LISTED.write_text("\n".join(lines) + "\n", encoding="utf-8")
    numbers = read_results(folder)["roles"]["spider"]
    shown = {key: numbers[key] for key in ("correct", "scored", "real_rows", "set_match", "suite_match")}
    sys.stdout.write("\n".join([json.dumps(shown), f"{len(rows)} disagreements", *table(rows), ""]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

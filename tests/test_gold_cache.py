"""Golds on disk: exact, shared between processes, and never in the way when the file is damaged."""

from __future__ import annotations

import datetime
import sqlite3
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from text2sql_rl.gold import GoldCache, cache
from text2sql_rl.records import Execution, Gold, Outcome, SortKey

ROWS = ((1, "é", None, Decimal("1.50")), (2**70, "", float("inf"), Decimal("0")))
GOLD = Gold(
    sql="SELECT 'x'",
    execution=Execution(
        outcome=Outcome.ROWS, columns=("a", "a", "b", "c"), types=("HUGEINT", "VARCHAR", "DOUBLE", "DECIMAL(3,2)"),
        rows=ROWS, elapsed_s=0.25,
    ),
    sort_keys=(SortKey(column=1, descending=True, nulls_first=False),),
    hidden=1,
    legal_rows=(*ROWS, (3, "z", 0.5, None)),
    flags=("tie_cut",),
    loose={2: "rounded:2"},
)  # fmt: skip
EMPTY = replace(GOLD, execution=replace(GOLD.execution, rows=()), legal_rows=None, unverifiable="why")


@pytest.mark.parametrize("gold", [GOLD, EMPTY, replace(EMPTY, legal_rows=())])
def test_a_gold_comes_back_as_it_was(tmp_path: Path, gold: Gold) -> None:
    GoldCache(tmp_path / "new")["k"] = gold
    assert GoldCache(tmp_path / "new")["k"] == gold


def test_it_is_a_mapping(tmp_path: Path) -> None:
    kept = GoldCache(tmp_path)
    assert (len(kept), kept.get("a"), list(kept)) == (0, None, [])
    kept.update([("a", GOLD), ("b", EMPTY)])
    assert (len(kept), list(kept), "a" in kept) == (2, ["a", "b"], True)
    del kept["a"]
    assert list(kept) == ["b"]
    with pytest.raises(KeyError):
        del kept["a"]


def test_nested_values_and_times_are_exact(tmp_path: Path) -> None:
    row = ([1, {"k": (2, b"\x00\xff")}], datetime.datetime(2024, 1, 5, 9, 30), datetime.timedelta(days=-1, seconds=3))
    gold = replace(GOLD, execution=replace(GOLD.execution, rows=(row,)), legal_rows=None)
    kept = GoldCache(tmp_path)
    kept["k"] = gold
    assert kept["k"].execution.rows == (row,)


def test_large_golds_and_old_ones_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = GoldCache(tmp_path)
    monkeypatch.setattr(cache, "_MOST_GOLDS", 3)
    kept.update((f"k{number}", GOLD) for number in range(5))
    assert list(kept) == ["k2", "k3", "k4"]
    monkeypatch.setattr(cache, "_MOST_BYTES", 10)
    kept["large"] = GOLD
    assert "large" not in kept


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    kept = GoldCache(tmp_path)
    kept.path.write_bytes(b"no database at all" * 100)
    assert kept.get("k") is None
    kept["k"] = GOLD
    assert kept["k"] == GOLD
    assert [file.name for file in tmp_path.iterdir()] == ["golds.sqlite"]
    with sqlite3.connect(kept.path) as file:
        file.execute("UPDATE gold SET content = x'00'")
    file.close()
    assert kept.get("k") is None


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    kept = GoldCache(tmp_path / "file")
    kept["k"] = GOLD
    assert kept.get("k") is None


def test_processes_share_one_file(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from text2sql_rl.gold import GoldCache
from text2sql_rl.records import Execution, Gold, Outcome
kept = GoldCache(Path(sys.argv[1]))
for n in range(30):
    kept[f"{sys.argv[2]}-{n}"] = Gold(sql="x", execution=Execution(outcome=Outcome.ROWS, rows=((n,),)))
"""
    started = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [process.wait(60) for process in started] == [0, 0]
    kept = GoldCache(tmp_path)
    assert len(kept) == 60
    assert kept["b-29"].execution.rows == ((29,),)

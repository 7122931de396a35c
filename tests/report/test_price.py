"""What an informative group costs: the curve, the chart and the console's table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from tests.report import fake_run
from text2sql_rl.report.figures import figures
from text2sql_rl.report.numbers import run_numbers
from text2sql_rl.report.tables import tables
from text2sql_rl.report.training import prices

TITLE = "Candidates sampled for each group that has right and wrong ones"


def row(step: int, completions: float, groups: float) -> dict[str, float]:
    return {"step": step, "reward": 0.5, "sampled/completions": completions, "sampled/informative_groups": groups}


def test_completions_of_steps_without_an_informative_group_are_not_lost() -> None:
    steps = [row(1, 32, 4), row(2, 32, 0), row(3, 48, 2), row(4, 16, 0)]
    assert prices(steps) == [[1.0, 8.0], [3.0, 40.0]]
    assert prices(steps, most=1) == [[4.0, 128 / 6]]
    assert prices([{"step": 1, "reward": 0.5}]) == []


def test_the_page_and_the_console_show_it(tmp_path: Path, content: Path) -> None:
    run = fake_run.make_run(tmp_path)
    without = run_numbers(run)
    stage = run.stage("grpo")
    rows = [{**one, **row(one["step"], 24.0, 3.0 if one["step"] < 15 else 1.0)} for one in stage.metrics()]
    (stage.path / "metrics.jsonl").unlink()
    for one in rows:
        stage.append_metrics(one)
    result = stage.result() | {"completions_per_informative_group": 9.4}
    (stage.path / "done.json").unlink()
    stage.start()
    stage.finish(result)
    numbers = run_numbers(run)
    assert (numbers["grpo"]["start"]["price"], numbers["grpo"]["end"]["price"]) == (8.0, 24.0)
    assert "8 → 24" in figures(numbers, rows)[TITLE]
    assert figures(without, [])[TITLE] == ""
    assert ["GRPO", "8.0", "24.0", "9.4"] in [line.split() for line in shown(numbers)]
    assert max(map(len, shown(numbers))) <= 80
    assert any(line.startswith("candidates per informative group ") for line in shown(numbers))
    assert not any("first tenth" in line for line in shown(without))


def shown(numbers: dict[str, Any]) -> list[str]:
    console = Console(width=80)
    with console.capture() as said:
        console.print(tables(numbers))
    return said.get().splitlines()

"""Where logged rollouts lie: a run folder, one of its stages, or any folder of part files -> groups with their lineage.

In: a path. Out: the logged groups, part file by part file, so that a long run needs no memory. Not here: rewards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from text2sql_rl.errors import RunError
from text2sql_rl.group import AdvantageRule, step_spread
from text2sql_rl.records import Group
from text2sql_rl.rollout_log import LogRow, read_rollouts, to_groups
from text2sql_rl.runs import RunFolder

# Pass rates and evaluations log the plain difference to the group's mean; only GRPO's is the config's.
_TRAINED = "grpo"


@dataclass(frozen=True, slots=True)
class LoggedGroup:
    """One group as it was logged, and the lineage its rollouts share; of `batch` also its step's deviation."""

    group: Group
    stage: str
    step: int
    gold_sql: str
    rule: str
    rule_sha256: str
    step_spread: float | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Part files of rollouts. `config` is that of the run they belong to, None where there is no run.json."""

    path: Path
    parts: tuple[Path, ...]
    config: dict[str, Any] | None

    def groups(self) -> Iterator[LoggedGroup]:
        """All groups, in order of part file.

        Raises:
            RunError: a part file is damaged, or of another schema version.
        """
        for part in self.parts:
            rows = read_rollouts(part)
            spread = self._step_spread(rows)
            for _, of_group in groupby(rows, key=_of_group):
                members = list(of_group)
                first = members[0]
                (group,) = to_groups(members)
                yield LoggedGroup(group, first.stage, first.step, first.gold_sql, first.rule, first.rule_sha256, spread)

    def _step_spread(self, rows: list[LogRow]) -> float | None:
        """A part file holds one step of one stage."""
        rule = self.advantage(rows[0].stage) if rows else None
        return step_spread(to_groups(rows), rule) if rule and rule.scale == "batch" else None

    def advantage(self, stage: str) -> AdvantageRule | None:
        """The advantage that a stage's groups were logged with; None where no run.json declares it."""
        if self.config is None:
            return None
        if stage != _TRAINED:
            return AdvantageRule("none", 0.0)
        return AdvantageRule(**self.config["grpo"]["advantage"])


def open_source(path: Path) -> Source:
    """Find the part files at `path`.

    Args:
        path: a run folder, a stage's folder, a folder of part files, or one part file.

    Raises:
        RunError: there is nothing, or a run.json that cannot be read.
    """
    if not path.exists():
        raise RunError("does not exist", file=path, fix="Give a run folder, e.g. runs/demo.")
    run = next((one for one in (path, *path.resolve().parents) if (one / "run.json").is_file()), None)
    places = [path] if path.is_file() else [*path.glob("stages/*/rollouts"), path / "rollouts", path]
    parts = [part for place in places for part in ([place] if place.is_file() else sorted(place.glob("*.parquet")))]
    # Predictions of an evaluation lie beside its rollouts.
    parts = [part for part in parts if part.name != "predictions.parquet"]
    if not parts:
        raise RunError("holds no logged rollouts", file=path, fix="Give a run folder with a measured or trained stage.")
    return Source(path, tuple(sorted(parts)), RunFolder(run).read()["config"] if run else None)


def _of_group(row: LogRow) -> tuple[str, str, str]:
    return row.run, row.stage, row.group_id

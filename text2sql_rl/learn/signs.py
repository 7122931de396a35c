"""Early signs that GRPO goes wrong, in words, each with what to do about it.

In: what the stage has written so far: rollouts, measurements, canary alarms. Out: sentences, the gravest first. They
depend on the files only, so an interrupted stage that goes on tells the same. Compared are the first and the last tenth
of the steps; a jump is one against the tenth before. Not here: stopping anything; a sign is for a person to weigh.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from text2sql_rl.records import GroupKind
from text2sql_rl.rollout_log import LogRow, read_rollouts
from text2sql_rl.runs import StageFolder

# No SQL in the answer, or cut before its end: the policy has not learned the form, which rewards teach badly.
_FORM = ("no_answer", "truncated")
_TENTH = 0.1
_FEWEST_STEPS = 10
_FORM_SHARE, _FORM_RISE = 0.10, 0.05  # of groups that are all wrong by form
_FAULT_SHARE = 0.02  # of rollouts; an evaluation ends at 0.05
_STILL_SHARE = 0.60  # of groups whose rewards are all equal
_REWARD_RISE, _DEV_RISE = 0.05, 0.005
_FORM_FALL = 0.05  # of completions that hold one whole SQL answer
_HELD_IN_FALL = 0.02
_KL_TIMES, _KL_LEAST = 2.0, 0.05


@dataclass(frozen=True, slots=True)
class Step:
    """One step in numbers: `lost` groups are all wrong by form; `still` ones are scored and have no advantage.

    `formed` completions hold one whole SQL answer.
    """

    groups: int
    lost: int
    still: int
    rollouts: int
    formed: int
    faults: Counter[str]
    reward: float


class Signs:
    """The signs of one GRPO stage; a step's part file is read once.

    Args:
        stage: the stage that is trained.
        every: steps between two looks.
    """

    def __init__(self, stage: StageFolder, every: int) -> None:
        self._stage, self._every = stage, every
        self._steps: dict[int, Step] = {}
        self._looked = 0

    def after(self, step: int) -> None:
        """Look again where it is due, and log what there is.

        Raises:
            RunError: a file of the stage is damaged.
        """
        if step - self._looked >= self._every:
            self._looked = step
            for sign in self.now(step):
                logging.getLogger(__name__).warning("step %d: %s", step, sign)

    def now(self, up_to: int) -> list[str]:
        """What the files say about the steps up to `up_to`.

        Raises:
            RunError: a file of the stage is damaged.
        """
        for part in (self._stage.path / "rollouts").glob("*.parquet"):
            step = int(part.stem.rpartition("-")[2])
            if step <= up_to and step not in self._steps:
                self._steps[step] = count(read_rollouts(part))
        steps = [counted for _, counted in sorted(self._steps.items()) if counted.groups]
        rows = [row for row in self._stage.metrics() if row.get("step", 0) <= up_to]
        dev, held_in = ([row[name] for row in rows if name in row] for name in ("dev_accuracy", "held_in_accuracy"))
        return [
            *_canaries(self._stage.path / "alarms.jsonl"),
            *tell(steps, dev),
            *tell_forgetting(held_in),
            *tell_jump(rows),
        ]


def count(rows: Sequence[LogRow]) -> Step:
    """The numbers of one step's rollouts."""
    groups: dict[str, list[LogRow]] = {}
    for row in rows:
        groups.setdefault(row.group_id, []).append(row)
    totals = [row.total for row in rows if row.total is not None]
    return Step(
        groups=len(groups),
        lost=sum(one[0].group_kind == GroupKind.ALL_WRONG and one[0].group_cause in _FORM for one in groups.values()),
        still=sum(
            one[0].group_kind != GroupKind.UNSCORED and all(row.advantage == 0.0 for row in one)
            for one in groups.values()
        ),
        rollouts=len(rows),
        formed=sum(row.cause not in _FORM for row in rows if row.total is not None),
        faults=Counter(row.unscored for row in rows if row.total is None),
        reward=sum(totals) / max(1, len(totals)),
    )


def tell(steps: Sequence[Step], dev: Sequence[float]) -> Iterator[str]:
    """The signs in these steps and dev accuracies, both in order; none of a trend in fewer than ten steps."""
    size = max(1, round(len(steps) * _TENTH))
    first, last = steps[:size], steps[-size:]
    faults = sum((step.faults for step in last), Counter[str]())
    if last and (share := faults.total() / sum(step.rollouts for step in last)) > _FAULT_SHARE:
        reason = min(faults, key=lambda reason: (-faults[reason], reason))
        yield f"{_percent(share)} of the rollouts could not be judged, most often: {reason}. Fix the environment."
    if len(steps) < _FEWEST_STEPS:
        return
    before, after = (sum(one.lost for one in part) / sum(one.groups for one in part) for part in (first, last))
    if after > _FORM_SHARE and after > before + _FORM_RISE:
        yield (
            f"In {_percent(after)} of the groups nobody gives one whole SQL answer ({_percent(before)} at the start): "
            "the policy loses the form. Go back to SFT, or lower the learning rate."
        )
    else:
        yield from _form_falls(first, last)
    rise = sum(one.reward for one in last) / size - sum(one.reward for one in first) / size
    if len(dev) > 1 and rise > _REWARD_RISE and dev[-1] - dev[0] <= _DEV_RISE:
        yield (
            f"The reward rose by {rise:.2f} while dev accuracy went from {_percent(dev[0], 1)} to "
            f"{_percent(dev[-1], 1)}. Look at what is paid: `text2sql-rl inspect RUN`."
        )
    still = sum(one.still for one in last) / sum(one.groups for one in last)
    if still > _STILL_SHARE:
        yield (
            f"{_percent(still)} of the groups of the last {size} steps have equal rewards and move nothing. Measure "
            "the difficulty again, narrow its band, or sample more candidates a question."
        )


def _form_falls(first: Sequence[Step], last: Sequence[Step]) -> Iterator[str]:
    before, after = (
        sum(one.formed for one in part) / max(1, sum(one.rollouts - one.faults.total() for one in part))
        for part in (first, last)
    )
    if after < before - _FORM_FALL:
        yield (
            f"{_percent(after)} of the completions hold one whole SQL answer, {_percent(before)} at the start: the "
            "policy begins to lose the form. Lower the learning rate, or go back to SFT."
        )


def tell_forgetting(held_in: Sequence[float]) -> Iterator[str]:
    """The sign that the policy forgets what fine-tuning taught it, from accuracies on pairs that it has seen."""
    if len(held_in) > 1 and held_in[-1] < held_in[0] - _HELD_IN_FALL:
        yield (
            f"Accuracy on questions of SFT fell from {_percent(held_in[0], 1)} to {_percent(held_in[-1], 1)}: the "
            "policy forgets. Lower the learning rate, or raise grpo.beta."
        )


def tell_jump(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The sign that the policy leaves its start in one bucket of completions; the one that jumped most."""
    steps = [row for row in rows if "loss" in row]
    size = max(1, round(len(steps) * _TENTH))
    if len(steps) < _FEWEST_STEPS:
        return
    jumps = []
    for name in sorted(
        {key for row in steps[-size:] for key in row if key.startswith("by/") and key.endswith("/kl_k3")}
    ):
        before, after = (
            [row[name] for row in part if name in row] for part in (steps[-2 * size : -size], steps[-size:])
        )
        if before and after:
            jumps.append((fmean(after) / max(fmean(before), _KL_LEAST / _KL_TIMES), fmean(before), fmean(after), name))
    most, before_kl, after_kl, name = max(jumps, default=(0.0, 0.0, 0.0, ""))
    if most > _KL_TIMES:
        yield (
            f"KL to the start went from {before_kl:.2f} to {after_kl:.2f} among completions of {_bucket(name)}. Look "
            "at them: `text2sql-rl inspect RUN`; a smaller learning rate or a larger grpo.beta slows it."
        )


def _bucket(name: str) -> str:
    _, kind, bucket, _ = name.split("/")
    return f"{kind} {bucket}"


def _canaries(alarms: Path) -> Iterator[str]:
    if alarms.is_file() and (paid := len(alarms.read_text(encoding="utf-8").splitlines())):
        yield f"{paid} known-wrong answers were paid. Do not trust the reward before alarms.jsonl is understood."


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"

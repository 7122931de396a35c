"""Where curves go beside metrics.jsonl: TensorBoard where it is installed, others by TRL's own `report_to`.

In: what the config names. Out: names for TRL, and the TensorBoard writer of a stage. Not here: what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from transformers.integrations.integration_utils import TensorBoardCallback, TrackioCallback, WandbCallback

from text2sql_rl.errors import ConfigError
from text2sql_rl.runs import StageFolder

TENSORBOARD = "tensorboard"
_REPORTERS = (TensorBoardCallback, TrackioCallback, WandbCallback)


def reporters(named: Sequence[str] | None) -> tuple[str, ...]:
    """What curves go to: those named, or TensorBoard where it is installed.

    Raises:
        ConfigError: one of those named is not installed.
    """
    if named is None:
        return (TENSORBOARD,) if find_spec(TENSORBOARD) else ()
    for name in named:
        if find_spec(name) is None:
            fix = f"pip install {name}, or leave it out"
            raise ConfigError(f"the package {name} is not installed", field="grpo.report_to", fix=fix)
    return tuple(named)


def tell_reporters(trainer: Any, accuracies: Mapping[str, float]) -> None:
    """Give accuracies measured between two steps to every reporter, as `eval/NAME`.

    Not through `trainer.log`, which would take the measurements of the step before it is over.
    """
    logs = {f"eval_{name}": value for name, value in accuracies.items()}
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, _REPORTERS):
            callback.on_log(trainer.args, trainer.state, trainer.control, logs=logs, model=trainer.model)


def curves(stage: StageFolder, step: int) -> Any:
    """TensorBoard's callback, writing to the stage's folder `tensorboard`; goes on after `step`, dropping the rest."""
    from torch.utils.tensorboard import SummaryWriter  # takes a second, and only this needs it

    writer: Any = SummaryWriter
    purged = step + 1 if step else None
    make: Any = TensorBoardCallback
    return make(writer(log_dir=str(stage.path / TENSORBOARD), purge_step=purged))

"""Metric loggers beside a run's own `metrics.jsonl`: TensorBoard and Weights & Biases.

`metrics.jsonl` is the truth: it is durable before a checkpoint is published. A logger goes on where
the checkpoint stands, so that every step is there once, in order, after a kill, a rewind or a fork;
what its backend lost it takes from the log's rows. A backend that fails later stops no training:
one line tells it, and the next attempt catches up.

The backends are imported when a logger starts, never before.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ckptui.errors import UsageError
from ckptui.loggers.event_files import TensorBoardLogger
from ckptui.loggers.wandb_run import WandbLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

KINDS = ("tensorboard", "wandb")
"""The loggers there are, as settings name them."""

_OPTIONS = {
    "tensorboard": frozenset({"dir"}),
    "wandb": frozenset({"project", "name", "mode", "entity"}),
}
_MODES = ("online", "offline", "disabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The attempt that a logger begins with."""

    run: Path
    """The run's folder."""
    run_id: str
    attempt: int
    action: Literal["fresh", "continue", "rewind", "fork"]
    start_step: int
    """Optimizer steps done by the checkpoint that is gone on from; 0 for a fresh run."""
    previous: Mapping[str, Any] | None
    """What `identity` said last in what is gone on from; None where there was no such logger."""
    rows: Callable[[], Iterable[tuple[int, float | None, Mapping[str, float]]]]
    """Step, epoch and values of the current rows of `metrics.jsonl` up to `start_step`, by step."""
    config: Mapping[str, Any] | None
    report: Callable[[str], None]
    """Takes each line the user should read."""


class MetricLogger(Protocol):
    """Where the metrics of a run go besides `metrics.jsonl`."""

    @property
    def kind(self) -> str:
        """Its name in the settings and in `run.json`."""

    def start(self, begin: Begin) -> None:
        """Begin an attempt: go on under the same identity, catch up what was lost, say so.

        Raises:
            CkptuiError: The backend is not installed, or cannot begin.
        """

    def log(self, step: int, values: Mapping[str, float], epoch: float | None) -> None:
        """Take values of a step; returns at once. Several calls of one step make one row."""

    def flush(self) -> None:
        """Make what was logged survive the process; called before a checkpoint is published."""

    def identity(self) -> dict[str, Any]:
        """What must be known to go on under the same identity, as JSON takes it."""

    def close(self) -> None:
        """Write what is left and let go of the backend, within seconds."""


def make_logger(kind: str, options: Mapping[str, Any]) -> MetricLogger:
    """A logger that has not started yet; needs no backend.

    Args:
        kind: `tensorboard` or `wandb`.
        options: For TensorBoard `dir`, below which each run gets a folder of its own (by default
            the run's `tensorboard`); for W&B `project`, `name`, `entity` and `mode`, which is
            `online`, `offline` or `disabled`. What is None is left to the backend.

    Raises:
        UsageError: There is no such logger or option, or a value is not what it must be.
    """
    if kind not in KINDS:
        msg = f"There is no metric logger {kind!r}; there are {' and '.join(KINDS)}."
        raise UsageError(msg)
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in _OPTIONS[kind]:
            known = ", ".join(sorted(_OPTIONS[kind]))
            msg = f"The logger {kind} has no option {name!r}; it has {known}."
            raise UsageError(msg)
        if not isinstance(value, str | Path) or not str(value):
            msg = f"{kind}.{name} must be a text, not {value!r}."
            raise UsageError(msg)
    if kind == "tensorboard":
        folder = given.get("dir")
        return TensorBoardLogger(Path(folder).expanduser() if folder is not None else None)
    mode = given.get("mode")
    if mode is not None and mode not in _MODES:
        msg = f"wandb.mode must be one of {', '.join(_MODES)}, not {mode!r}."
        raise UsageError(msg)
    return WandbLogger(
        project=given.get("project"),
        name=given.get("name"),
        mode=mode,
        entity=given.get("entity"),
    )

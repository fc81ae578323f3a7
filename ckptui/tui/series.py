"""The metrics of a run as curves, from its log and from what its checkpoints carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.errors import CkptuiError
from ckptui.metrics import read_metrics
from ckptui.retention import KeepBest, direction, parse_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.display.plot import Point
    from ckptui.metrics import History

_FIRST = ("eval_loss", "val_loss", "loss", "train_loss")
"""What most people want to see, in this order, where the run's policy does not name a metric."""


@dataclass(frozen=True, slots=True)
class Series:
    """Curves by metric name."""

    names: tuple[str, ...]
    curves: Mapping[str, tuple[Point, ...]]
    """Ascending by step, the run's present history only."""
    logged: Mapping[tuple[int, int], Mapping[str, float | None]]
    """What the log says at a step of an attempt."""
    problems: tuple[str, ...] = ()
    signature: object = None
    """Changes when the log or the checkpoints do."""

    def at(self, checkpoint: Checkpoint, name: str) -> tuple[bool, float | None]:
        """Whether a checkpoint has a value of its own, and which.

        Its marker wins; the log counts only at exactly its step and attempt.
        """
        if name in checkpoint.metrics:
            return True, checkpoint.metrics[name]
        if checkpoint.step is None or checkpoint.attempt is None:
            return False, None
        row = self.logged.get((checkpoint.step, checkpoint.attempt), {})
        return name in row, row.get(name)


EMPTY = Series((), {}, {})


def read(run: Run, before: Series | None) -> Series | None:
    """The series of a run; None where nothing changed since `before`.

    Raises:
        CkptuiError: The log cannot be read.
    """
    try:
        info = (run.path / schema.METRICS_FILE).stat()
        stamp: object = (info.st_mtime_ns, info.st_size)
    except OSError:
        stamp = None
    signature = (stamp, run.attempts, tuple((c.name, c.identity) for c in run.checkpoints))
    if before is not None and before.signature == signature:
        return None
    return build(run, read_metrics(run.path, run.attempts), signature)


def build(run: Run, history: History, signature: object = None) -> Series:
    """Curves from the log, with the checkpoints' own values at their steps."""
    values: dict[str, dict[int, float | None]] = {}
    logged = {}
    for row in history.rows:
        logged[row.step, row.attempt] = row.metrics
        if row.current:
            for name, value in row.metrics.items():
                values.setdefault(name, {})[row.step] = value
    for c in run.checkpoints:
        if c.current and c.step is not None:
            for name, value in c.metrics.items():
                values.setdefault(name, {})[c.step] = value
    return Series(
        names=ordered(values, run.policy),
        curves={name: tuple(sorted(by_step.items())) for name, by_step in values.items()},
        logged=logged,
        problems=tuple(p.what for p in history.problems),
        signature=signature,
    )


def carried(run: Run) -> tuple[str, ...]:
    """The metrics that the checkpoints themselves carry."""
    return ordered({name for c in run.checkpoints for name in c.metrics}, run.policy)


def ordered(names: Iterable[str], policy: Iterable[str] | None) -> tuple[str, ...]:
    """Metric names: those that the policy ranks by, the usual ones, then the rest by name."""
    known = set(names)
    first = [name for name in (*_ranked(policy or ()), *_FIRST) if name in known]
    with_direction = sorted(n for n in known if direction(n) is not None)
    return tuple(dict.fromkeys([*first, *with_direction, *sorted(known)]))


def _ranked(policy: Iterable[str]) -> list[str]:
    found = []
    for text in policy:
        try:
            rule = parse_rule(text)
        except CkptuiError:
            continue
        if isinstance(rule, KeepBest) and rule.metric is not None:
            found.append(rule.metric)
    return found

"""The metrics of a run as curves, from its log and from what its checkpoints carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.columns import Column, Curve
    from ckptui.metric_log import Logged, MetricLog
    from ckptui.metrics import History

_FIRST = ("eval_loss", "val_loss", "loss", "train_loss")
"""What most people want to see, in this order, where the run's policy does not name a metric."""


@dataclass(frozen=True, slots=True)
class Series:
    """Curves by metric name."""

    names: tuple[str, ...] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """Of the run's present history only."""
    logged: Mapping[int, Mapping[str, Curve]] = field(default_factory=dict)
    """All that the log says, by attempt."""
    printed: frozenset[str] = frozenset()
    """Names in the log's present history: the others stand in the checkpoints' markers alone."""
    problems: tuple[str, ...] = ()
    signature: object = None
    """Changes when the log or the checkpoints do."""
    log: MetricLog | None = None
    """Where the next reading goes on."""

    def at(self, checkpoint: Checkpoint, name: str) -> tuple[bool, float | None]:
        """Whether a checkpoint has a value of its own, and which.

        Its marker wins; the log counts only at exactly its step and attempt.
        """
        if name in checkpoint.metrics:
            return True, checkpoint.metrics[name]
        if checkpoint.step is None or checkpoint.attempt is None:
            return False, None
        curve = self.logged.get(checkpoint.attempt, {}).get(name)
        return curve.at(checkpoint.step) if curve is not None else (False, None)

    def in_doubt(self, checkpoint: Checkpoint) -> bool:
        """Whether the log has values at its step, but nothing tells which attempt saved it."""
        if not self.logged:
            return False
        from ckptui.metric_log import in_doubt  # noqa: PLC0415 - it is loaded where a log was read

        return in_doubt(checkpoint, self.logged)


EMPTY = Series()


def read(run: Run, before: Series | None) -> Series | None:
    """The series of a run; None where nothing changed since `before`.

    Of the log only what was appended since is read.

    Raises:
        CkptuiError: The log cannot be read.
    """
    from ckptui.metric_log import MetricLog  # noqa: PLC0415 - the first frame shows no metric

    log = before.log if before is not None else None
    if log is None:
        log = MetricLog(run.path)
    with log.lock:
        log.update()
        signature = (
            log.version,
            run.attempts,
            run.policy,
            tuple((c.name, c.identity, c.current) for c in run.checkpoints),
        )
        if before is not None and before.signature == signature:
            return None
        return _series(run, log.logged(run.attempts), signature, log)


def build(run: Run, history: History) -> Series:
    """Curves from a log that was read whole."""
    from ckptui.columns import Column  # noqa: PLC0415 - as above
    from ckptui.metric_log import Logged  # noqa: PLC0415 - as above

    columns: dict[int, dict[str, Column]] = {}
    current: dict[str, Column] = {}
    for row in history.rows:
        for name, value in row.metrics.items():
            of_attempt = columns.setdefault(row.attempt, {})
            of_attempt.setdefault(name, Column()).append(row.step, value)
            if row.current:
                current.setdefault(name, Column()).append(row.step, value)
    logged = Logged(
        by_attempt={a: _curves(of_attempt) for a, of_attempt in columns.items()},
        current=_curves(current),
        problems=history.problems,
    )
    return _series(run, logged, None, None)


def _curves(columns: Mapping[str, Column]) -> dict[str, Curve]:
    return {name: column.curve() for name, column in columns.items()}


def _series(run: Run, logged: Logged, signature: object, log: MetricLog | None) -> Series:
    """The log's curves, with the checkpoints' own values at their steps."""
    from ckptui.columns import MAX_STEP, Curve  # noqa: PLC0415 - as above

    own: dict[str, dict[int, float | None]] = {}
    for c in run.checkpoints:
        if c.current and c.step is not None and c.step <= MAX_STEP:
            for name, value in c.metrics.items():
                own.setdefault(name, {})[c.step] = value
    curves = dict(logged.current)
    for name, values in own.items():
        curves[name] = curves.get(name, Curve.of(())).changed(values)
    return Series(
        names=ordered(curves, run.policy),
        curves=curves,
        logged=logged.by_attempt,
        printed=frozenset(logged.current),
        problems=tuple(p.what for p in logged.problems),
        signature=signature,
        log=log,
    )


def carried(run: Run) -> tuple[str, ...]:
    """The metrics that the checkpoints themselves carry."""
    return ordered({name for c in run.checkpoints for name in c.metrics}, run.policy)


def ordered(names: Iterable[str], policy: Iterable[str] | None) -> tuple[str, ...]:
    """Metric names: those that the policy ranks by, the usual ones, then the rest by name."""
    known = set(names)
    if not known:
        return ()
    from ckptui.rules import direction  # noqa: PLC0415 - as above

    first = [name for name in (*_ranked(policy or ()), *_FIRST) if name in known]
    with_direction = sorted(n for n in known if direction(n) is not None)
    return tuple(dict.fromkeys([*first, *with_direction, *sorted(known)]))


def _ranked(policy: Iterable[str]) -> list[str]:
    from ckptui.errors import CkptuiError  # noqa: PLC0415 - as above
    from ckptui.rules import KeepBest, parse_rule  # noqa: PLC0415 - as above

    found = []
    for text in policy:
        try:
            rule = parse_rule(text)
        except CkptuiError:
            continue
        if isinstance(rule, KeepBest) and rule.metric is not None:
            found.append(rule.metric)
    return found

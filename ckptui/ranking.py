"""Which checkpoints are ranked, and how: the newest, the best, and the metric that "best" means."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from ckptui.checkpoint import order
from ckptui.errors import RefusedError
from ckptui.rules import KeepBest, Mode, Rule, direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ckptui.checkpoint import Checkpoint


def counts(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is ranked and counted: complete, current and in place."""
    return checkpoint.complete and checkpoint.current and not checkpoint.staged


def newest_complete(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The newest complete current checkpoint; one without a step only where none has one."""
    return max(filter(counts, checkpoints), key=age, default=None)


def newest_resumable(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """The newest complete current checkpoint that training can continue from."""
    return max((c for c in checkpoints if counts(c) and c.resumable), key=age, default=None)


def age(checkpoint: Checkpoint) -> tuple[int, int, int, str, str]:
    """A sort key from the oldest to the newest; one without a step is older than any other."""
    missing, *rest = order(checkpoint)
    return (-missing, *rest)  # type: ignore[return-value] # mypy loses the length of *rest


def best(checkpoints: Iterable[Checkpoint], metric: str, mode: str) -> Checkpoint | None:
    """The best of the complete current checkpoints by a metric; of equal ones the later step."""
    top: Checkpoint | None = None
    top_value = 0.0
    sign = -1 if mode == "max" else 1
    for c in checkpoints:
        value = c.metrics.get(metric)
        if value is None or not counts(c):
            continue
        value *= sign
        if top is None or value < top_value or (value == top_value and age(c) > age(top)):
            top, top_value = c, value
    return top


def ranked(checkpoints: Iterable[Checkpoint], metric: str, mode: str) -> list[Checkpoint]:
    """Those with a finite value, best first, later steps before earlier ones of the same value."""
    sign = -1 if mode == "max" else 1
    valued = [
        (sign * value, c)
        for c in checkpoints
        if counts(c) and (value := c.metrics.get(metric)) is not None
    ]
    valued.sort(key=lambda pair: age(pair[1]), reverse=True)
    valued.sort(key=itemgetter(0))
    return [c for _, c in valued]


def choose_metric(checkpoints: Iterable[Checkpoint], policy: Sequence[Rule]) -> tuple[str, Mode]:
    """The metric and direction that "best" means where none is named.

    Raises:
        RefusedError: Neither the run's policy nor `eval_loss` gives one; the candidates are named.
    """
    checkpoints = list(checkpoints)
    for rule in policy:
        if isinstance(rule, KeepBest) and rule.metric is not None:
            return rule.metric, mode_of(rule.metric, rule.mode)
    known = metric_names(checkpoints)
    if "eval_loss" in known:
        return "eval_loss", "min"
    msg = "Best by which metric? Neither the run's policy nor eval_loss tells."
    if known:
        msg += f" There are: {', '.join(known)}."
    raise RefusedError(msg, candidates=known)


def metric_names(checkpoints: Iterable[Checkpoint]) -> list[str]:
    """The metrics of which any checkpoint that counts has a finite value."""
    return sorted(
        {m for c in checkpoints if counts(c) for m, v in c.metrics.items() if v is not None}
    )


def mode_of(metric: str, mode: Mode | None) -> Mode:
    """The direction that was given, or the one known for the metric.

    Raises:
        RefusedError: Neither tells.
    """
    found = mode or direction(metric)
    if found is None:
        msg = (
            f"Whether a low or a high {metric} is better is not known; "
            f"write {metric}:min or {metric}:max."
        )
        raise RefusedError(msg)
    return found

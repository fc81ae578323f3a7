"""How the checkpoints of a run stand among each other: what a listing says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.checkpoint import Standing, order
from ckptui.errors import RefusedError, UsageError
from ckptui.keeping import by_run_id, keep_always, keep_healthy, kept_by_rules
from ckptui.ranking import best, metric_names, newest_complete
from ckptui.rules import (
    KeepBest,
    KeepNames,
    Mode,
    Rule,
    direction,
    is_about_the_machine,
    parse_rule,
)

__all__ = ["Standing", "standings"]

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ckptui.checkpoint import Checkpoint, Run


def standings(run: Run, *, now: datetime) -> tuple[Standing, ...]:
    """How each of `run.checkpoints` stands: latest, best, and why the run's own policy keeps it."""
    policy = []
    for text in run.policy or ():
        try:
            policy.append(parse_rule(text))
        except UsageError:
            continue  # a rule of a newer version: it must not hide what the others say
    named = {n for rule in policy if isinstance(rule, KeepNames) for n in rule.names}
    latest: set[int] = set()
    best_in: dict[int, list[str]] = {}
    kept: dict[int, list[str]] = {}
    for group in by_run_id(run.checkpoints):
        newest = newest_complete(group)
        if newest is not None:
            latest.add(id(newest))
        for metric, mode in _judged(group, policy):
            top = best(group, metric, mode)
            if top is not None:
                best_in.setdefault(id(top), []).append(metric)
        if run.policy is None:
            continue
        group = sorted(group, key=order)
        for rule in policy:
            try:
                by_rule = kept_by_rules(group, [rule], now=now, policy=policy, notes=[])
            except RefusedError:
                continue  # a metric that nobody has yet keeps nothing yet
            for key, reasons in by_rule.items():
                kept.setdefault(key, []).extend(reasons)
        keep_always(group, kept, named, run.protected)
        keep_healthy(group, kept, [])
    return tuple(
        Standing(
            latest=id(c) in latest,
            best=tuple(best_in.get(id(c), ())),
            kept_by=None if run.policy is None else tuple(dict.fromkeys(kept.get(id(c), ()))),
        )
        for c in run.checkpoints
    )


def _judged(group: Sequence[Checkpoint], policy: Sequence[Rule]) -> list[tuple[str, Mode]]:
    """The metrics in which a best one is told, with their direction."""
    found: dict[str, Mode] = {}
    for rule in policy:
        if isinstance(rule, KeepBest) and rule.metric is not None:
            mode = rule.mode or direction(rule.metric)
            if mode is not None and not is_about_the_machine(rule.metric):
                found.setdefault(rule.metric, mode)
    for metric in metric_names(group):
        mode = direction(metric)
        if mode is not None and not is_about_the_machine(metric):
            found.setdefault(metric, mode)
    return sorted(found.items())

"""What is to come while a run trains on: what its policy removes next, and when the disk is full.

Pure: values in, values out. Both look at what the run has done so far, so they are guesses, told as
such; nothing is decided by them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from ckptui.checkpoint import Checkpoint, State, order
from ckptui.errors import CkptuiError
from ckptui.retention import parse_rule, plan_prune
from ckptui.rules import KeepNames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ckptui.checkpoint import Run
    from ckptui.rules import Rule

RECENT = 8
"""Saves that tell how often and how large the next ones are."""
AHEAD = 24
"""Saves that are played through; what comes later is taken to grow like the last of these."""
SLOWEST = timedelta(days=60)
"""A run that saves more rarely, or in a future farther away than this, gives nothing to go by."""
FARTHEST = 100_000
"""Saves beyond which the disk is as good as never full."""
MANY = 400
"""Checkpoints from which on only the next save is played through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a run saves."""

    every: timedelta
    size: int
    """Bytes of a checkpoint."""
    steps: int
    """Optimizer steps between two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is to come."""

    next_step: int
    going: frozenset[str] = frozenset()
    """Names that the run's policy removes at the next save."""
    saves_left: int | None = None
    """Saves until the disk is full; None: never at this rate, or it cannot be told."""
    time_left: timedelta | None = None
    """Until then, counted from the last save."""


def pace(run: Run) -> Pace | None:
    """How the run has saved lately; None before its third checkpoint."""
    saved = [
        c
        for c in run.checkpoints
        if c.complete and c.current and c.step is not None and c.created is not None
    ]
    recent = sorted(saved, key=order)[-RECENT:]
    if len(recent) < 3:
        return None
    gaps, steps = [], []
    for a, b in pairwise(recent):
        if a.created is None or b.created is None or a.step is None or b.step is None:
            continue
        if a.attempt == b.attempt:  # between attempts lies the time that nothing was trained
            gaps.append((b.created - a.created).total_seconds())
            steps.append(b.step - a.step)
    if not gaps or not 0 < median(gaps) <= SLOWEST.total_seconds() or median(steps) <= 0:
        return None
    return Pace(
        every=timedelta(seconds=median(gaps)),
        size=int(median(c.size for c in recent)),
        steps=max(1, round(median(steps))),
    )


def forecast(run: Run, *, now: datetime, free: int | None) -> Forecast | None:
    """What the next saves of a run bring, if it goes on as it did.

    Args:
        run: As it was read.
        now: The present time, aware.
        free: Bytes that are free on its disk; None where that cannot be told.

    Returns:
        None where the run has not saved often enough to tell.
    """
    going_on = pace(run)
    newest = max((c for c in run.checkpoints if c.complete and c.current), key=order, default=None)
    if going_on is None or newest is None or newest.step is None or newest.created is None:
        return None
    if newest.created - now > SLOWEST:
        return None  # its clock says nothing about ours
    rules = _rules(run)
    standing = [c for c in run.checkpoints if c.complete or c.staged]
    coming = _next(newest, going_on, 1)
    going = _going(run, [*standing, coming], rules, now)
    names = frozenset(c.name for c in going if c is not coming)
    told = Forecast(next_step=coming.step or 0, going=names)
    if free is None:
        return told
    if len(standing) > MANY or not rules:
        growth = going_on.size - sum(c.size for c in going)
        saves = None if growth <= 0 else free // growth
    else:
        saves = _play(run, standing, newest, going_on, rules, now, free)
    if saves is None or saves > FARTHEST:
        return told
    return replace(told, saves_left=saves, time_left=going_on.every * saves)


def _play(
    run: Run,
    standing: Sequence[Checkpoint],
    newest: Checkpoint,
    going_on: Pace,
    rules: Sequence[Rule],
    now: datetime,
    free: int,
) -> int | None:
    """Saves until nothing is free, played through one by one and then extrapolated."""
    there = list(standing)
    left = free
    halfway = free
    for count in range(1, AHEAD + 1):
        if left < going_on.size:
            return count - 1  # the new one is written before old ones go
        coming = _next(newest, going_on, count)
        there.append(coming)
        gone = _going(run, there, rules, now + going_on.every * count)
        left += sum(c.size for c in gone) - going_on.size
        names = {id(c) for c in gone}
        there = [c for c in there if id(c) not in names]
        if count == AHEAD // 2:
            halfway = left
    growth = (halfway - left) / (AHEAD - AHEAD // 2)
    return None if growth <= 0 else AHEAD + int(left / growth)


def _going(
    run: Run, checkpoints: Sequence[Checkpoint], rules: Sequence[Rule], now: datetime
) -> list[Checkpoint]:
    if not rules:
        return []
    try:
        plan = plan_prune(
            checkpoints, rules, now=now, protected=run.protected, policy=rules, live=run.live
        )
    except CkptuiError:
        return []  # a metric that nobody has yet: nothing is removed then either
    return [row.checkpoint for row in plan.removals]


def goes_unpinned(run: Run, checkpoint: Checkpoint, *, now: datetime) -> bool:
    """Whether the rules of a run in training remove a checkpoint at the next save, if unpinned.

    Args:
        run: As it was read, with the pin or without.
        checkpoint: One of it.
        now: The present time, aware.
    """
    if not run.live:
        return False
    bare = [replace(c, pin=None) if c.path == checkpoint.path else c for c in run.checkpoints]
    ahead = forecast(replace(run, checkpoints=tuple(bare)), now=now, free=None)
    if ahead is not None:
        return checkpoint.name in ahead.going
    # It has saved too rarely to tell of the next save, but what goes today does so then too.
    standing = [c for c in bare if c.complete or c.staged]
    return any(c.path == checkpoint.path for c in _going(run, standing, _rules(run), now))


def _rules(run: Run) -> list[Rule]:
    """The run's own rules, as far as this version knows them and their names are there."""
    there = {c.name for c in run.checkpoints}
    found: list[Rule] = []
    for text in run.policy or ():
        try:
            rule = parse_rule(text)
        except CkptuiError:
            continue
        if isinstance(rule, KeepNames):
            rule = KeepNames(tuple(n for n in rule.names if n in there))
            if not rule.names:
                continue
        found.append(rule)
    return found


def _next(newest: Checkpoint, going_on: Pace, count: int) -> Checkpoint:
    """A checkpoint to come. It has no metric: whether it will be the best, nobody knows."""
    step = (newest.step or 0) + going_on.steps * count
    return replace(
        newest,
        name=f"step_{step}",
        path=newest.run / f"step_{step}",
        step=step,
        state=State.OK if newest.resumable else newest.state,
        size=going_on.size,
        shared=(),
        pin=None,
        created=newest.created + going_on.every * count if newest.created else None,
        created_text=None,
        metrics={},
        aliases=(),
        problems=(),
        nonfinite=(),
    )

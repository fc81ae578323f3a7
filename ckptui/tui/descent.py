"""Lineage across checkpoints that are removed.

A checkpoint names the one before it alone, so where that is removed the chain of names ends. But
an attempt is one process that only goes forward: what it saved earlier came before what it saved
later, whatever was removed in between.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckptui.checkpoint import Attempt, Checkpoint, Parent, Run


def before(lost: Parent, run: Run) -> Checkpoint | None:
    """The nearest listed checkpoint that training went through before a removed one of a run."""
    return _last_before(lost, _by_attempt(run), {a.attempt: a for a in run.attempts})


def after(here: Checkpoint, run: Run) -> list[Checkpoint]:
    """The checkpoints whose own parent is removed and that came, before it, from this one."""
    by_attempt = _by_attempt(run)
    starts = {a.attempt: a for a in run.attempts}
    names = {(c.name, c.attempt) for c in run.checkpoints}
    found = []
    for c in run.checkpoints:
        parent = c.parent
        if parent is None or parent.path is not None or (parent.name, parent.attempt) in names:
            continue
        nearest = _last_before(parent, by_attempt, starts)
        if nearest is not None and nearest.path == here.path and c.path != here.path:
            found.append(c)
    return found


def _by_attempt(run: Run) -> dict[int, list[Checkpoint]]:
    """What is listed of each attempt, ascending by step."""
    found: dict[int, list[Checkpoint]] = {}
    for c in run.checkpoints:
        if c.step is not None and c.attempt is not None and not c.staged:
            found.setdefault(c.attempt, []).append(c)
    return found


def _step(c: Checkpoint) -> int:
    return c.step or 0


def _last_before(
    lost: Parent, by_attempt: dict[int, list[Checkpoint]], starts: dict[int, Attempt]
) -> Checkpoint | None:
    place: Parent | None = lost
    seen = set()
    while place is not None and place.path is None:
        attempt, step = place.attempt, place.step
        if attempt is None or step is None or attempt in seen:
            return None
        seen.add(attempt)
        listed = by_attempt.get(attempt, [])
        for i in reversed(range(bisect_right(listed, step, key=_step))):
            if place.run_id is None or place.run_id == listed[i].run_id:
                return listed[i]
        start = starts.get(attempt)
        place = start.parent if start is not None else None
    return None

"""A plan made ready for the screen in the background: what is counted over thousands of rows."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ckptui.checkpoint import order
from ckptui.retention import Action
from ckptui.tui import work

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Run
    from ckptui.retention import PlanRow, PrunePlan
    from ckptui.tui.snapshot import Scan

NAMES = 40
"""Names of resumable checkpoints that are kept ready; more never fit into a line."""

_INCOMPLETE = "incomplete: only with --incomplete"
_WORDS = {
    _INCOMPLETE: "incomplete; space lets it go",
    "abandoned branch: only when named": "abandoned branch; space lets it go",
    "not ours: never touched": "not ours, never touched",
    "being written: never touched": "being written, never touched",
    "named": "chosen",
}
"""Reasons that tell of the command line's options and words, or hold a colon: here they stand
behind one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A plan with what is told beside it."""

    request: work.Request
    """What was asked for."""
    run: Run
    """As it was when the plan was made."""
    plan: PrunePlan
    rows: tuple[PlanRow, ...]
    """Newest first, with reasons in the words of the preview."""
    leaving: tuple[PlanRow, ...]
    """Those of them that do not simply stay."""
    counts: Mapping[Action, int]
    frees: int
    """Bytes that come back once the trash is emptied."""
    going: Mapping[str, str]
    """Path and name of what is removed."""
    resumable: tuple[str, ...]
    """The newest that training can continue from afterwards, newest first."""
    resumable_after: int
    """How many in all."""
    resumable_now: int
    disk: tuple[int, int] | None
    """Bytes used and bytes in all; None where the system does not tell."""


def preview(
    path: Path, request: work.Request, scan: Scan, now: datetime, *, known: Run | None = None
) -> Preview:
    """What the request would remove, and what that means for the run and the disk.

    Args:
        path: The run.
        request: What is asked for.
        scan: Reads the disk.
        now: The present time, aware.
        known: The run as it was read a moment ago; None reads it now.

    Raises:
        CkptuiError: The request is refused, or the run cannot be read.
    """
    run = known if known is not None else work.read_run(path, scan)
    plan = work.plan_for(run, request, now)
    rows = tuple(_worded(row, live=run.live) for row in plan.rows[::-1])
    going = {str(row.checkpoint.path): row.checkpoint.name for row in plan.removals}
    now_resumable = [c for c in run.checkpoints if c.resumable and not c.staged]
    after = [c for c in now_resumable if str(c.path) not in going]
    newest = sorted(after, key=order, reverse=True)[:NAMES]
    actions = [row.action for row in rows]
    return Preview(
        request=request,
        run=run,
        plan=plan,
        rows=rows,
        leaving=tuple(row for row in rows if row.action is not Action.KEEP),
        counts={action: actions.count(action) for action in Action},
        frees=plan.frees,
        going=going,
        resumable=tuple(c.name for c in newest),
        resumable_after=len(after),
        resumable_now=len(now_resumable),
        disk=_disk(path),
    )


def _worded(row: PlanRow, *, live: bool) -> PlanRow:
    words = {**_WORDS, _INCOMPLETE: "incomplete, may still be being written"} if live else _WORDS
    if not any(reason in words for reason in row.reasons):
        return row
    return replace(row, reasons=tuple(words.get(reason, reason) for reason in row.reasons))


def _disk(path: Path) -> tuple[int, int] | None:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    return (usage.used, usage.used + usage.free)


def same(one: Run, other: Run, *, pins: bool = True) -> bool:
    """Whether two readings of a run lead to the same plan, its pins compared or not."""
    if one.live != other.live or one.protected != other.protected:
        return False
    if pins:
        return one.checkpoints == other.checkpoints
    return [(c.path, c.identity, c.state, c.size) for c in one.checkpoints] == [
        (c.path, c.identity, c.state, c.size) for c in other.checkpoints
    ]

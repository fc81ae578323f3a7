"""Checkpoints with how they stand among the others of their run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.standing import Standing, standings

if TYPE_CHECKING:
    from datetime import datetime

    from ckptui.checkpoint import Checkpoint, Run


def rows_of(
    run: Run, *, now: datetime, whole: Run | None = None
) -> list[tuple[Checkpoint, Standing]]:
    """The checkpoints of a run, each with its standing.

    Args:
        run: Those to be shown.
        now: For what is kept by its age.
        whole: The run with all its checkpoints, where `run` has only some of them.
    """
    if whole is None:
        return list(zip(run.checkpoints, standings(run, now=now), strict=True))
    known = {c.path: s for c, s in rows_of(whole, now=now)}
    return [(c, known.get(c.path, Standing())) for c in run.checkpoints]


def standing_of(checkpoint: Checkpoint, run: Run, *, now: datetime) -> Standing:
    """How one checkpoint stands in its run; one that lies in the trash stands nowhere."""
    return {c.path: s for c, s in rows_of(run, now=now)}.get(checkpoint.path, Standing())

"""Checkpoints of which only the name is known. Light: a first frame needs nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.checkpoint import Checkpoint, State

if TYPE_CHECKING:
    from pathlib import Path


def placeholder(run: Path, name: str) -> Checkpoint:
    """What a checkpoint's name tells before anything of it is read: nothing else is believed."""
    parsed = schema.parse_name(name)
    return Checkpoint(
        run=run,
        name=name,
        path=run / name,
        step=parsed.number if parsed and parsed.kind == "step" else None,
        epoch=parsed.number if parsed and parsed.kind == "epoch" else None,
        state=State.UNKNOWN,
        complete=False,
        resumable=False,
    )


def by_number(name: str) -> tuple[int, str]:
    """Where a name stands among others by its number alone."""
    parsed = schema.parse_name(name)
    return (parsed.number if parsed else -1, name)

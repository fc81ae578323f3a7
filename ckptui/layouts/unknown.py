"""Folders with checkpoint names that no known layout explains: listed, and never touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.checkpoint import Checkpoint, Problem, Run, State, order
from ckptui.layouts.files import list_files, size_once
from ckptui.layouts.native import is_checkpoint_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ckptui.layouts.native import Entry


def describe_run(folder: Path, entries: Iterable[Entry]) -> Run:
    """A run whose checkpoints are only names and sizes to us."""
    checkpoints, ignored = [], []
    for entry in entries:
        if not is_checkpoint_folder(entry):
            if not entry.name.startswith("."):
                ignored.append(entry.name)
            continue
        path = folder / entry.name
        try:
            files = list_files(path)
        except OSError:
            continue
        parsed = schema.parse_name(entry.name)
        number = parsed.number if parsed else None
        is_step = parsed is not None and parsed.kind == "step"
        what = f"no {schema.MARKER} here or beside it: not written by a trainer that ckptui knows"
        checkpoints.append(
            Checkpoint(
                run=folder,
                name=entry.name,
                path=path,
                step=number if is_step else None,
                epoch=None if is_step else number,
                state=State.UNKNOWN,
                complete=False,
                resumable=False,
                size=files.size,
                shared=files.shared,
                problems=(Problem(path=path, what=what),),
            )
        )
    checkpoints.sort(key=order)
    return Run(
        path=folder,
        name=folder.name,
        run_id=None,
        layout="unknown",
        checkpoints=tuple(checkpoints),
        ignored=tuple(sorted(ignored)),
        size=size_once((c.size, c.shared) for c in checkpoints),
    )

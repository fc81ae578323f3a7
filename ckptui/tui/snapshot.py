"""What a scan found, made ready for the screen; put together in the background."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ckptui.retention import Standing, standings

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Problem, Root, Run


class Scan(Protocol):
    """`ckptui.scan.scan`, or what a test puts in its place."""

    def __call__(
        self,
        path: Path,
        *,
        on_run: Callable[[Run], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Root:
        """All runs at or below a path."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint with its run and where it stands in it."""

    run: Run
    checkpoint: Checkpoint
    standing: Standing

    @property
    def key(self) -> str:
        """What identifies it across scans."""
        return str(self.checkpoint.path)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and the rows of its list, ascending as the run has them."""

    run: Run
    rows: tuple[Row, ...]
    when: datetime
    """When reading it began."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at or below the path that is browsed."""

    path: Path
    views: tuple[RunView, ...]
    problems: tuple[Problem, ...]
    ignored: tuple[str, ...]
    disk_used: float | None
    """Share of the disk that is full, 0 to 1."""
    partial: bool = False
    """The scan was stopped before it had seen everything."""
    chosen: Path | None = None
    """The checkpoint that was asked for, where the path named one."""


def view(run: Run, now: datetime) -> RunView:
    """A run ready for the screen."""
    placed = zip(run.checkpoints, standings(run, now=now), strict=True)
    return RunView(run, tuple(Row(run, c, s) for c, s in placed), now)


def take(
    path: Path,
    scan: Scan,
    clock: Callable[[], datetime],
    *,
    on_view: Callable[[RunView], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Snapshot:
    """Scan a root, a run, or the run of a checkpoint.

    Raises:
        CkptuiError: There is nothing there, or it cannot be listed.
    """
    began = clock()

    def found(run: Run) -> None:
        if on_view is not None:
            on_view(view(run, began))

    root = scan(path, on_run=None if on_view is None else found, cancelled=cancelled)
    chosen = None
    if [run.path for run in root.runs] == [root.path.parent]:
        chosen = root.path
        root = scan(root.path.parent, cancelled=cancelled)
    return Snapshot(
        path=root.path,
        views=tuple(view(run, began) for run in root.runs),
        problems=root.problems,
        ignored=root.ignored,
        disk_used=disk_used(root.path),
        partial=cancelled is not None and cancelled(),
        chosen=chosen,
    )


def rescan(path: Path, scan: Scan, clock: Callable[[], datetime]) -> RunView | None:
    """One run read anew; None if it is gone.

    Raises:
        CkptuiError: It cannot be listed.
    """
    began = clock()
    for run in scan(path).runs:
        if run.path == path:
            return view(run, began)
    return None


def disk_used(path: Path) -> float | None:
    """How full the disk is, 0 to 1; None where the system does not tell."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    total = usage.used + usage.free
    return usage.used / total if total else None

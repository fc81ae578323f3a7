"""What a scan found, made ready for the screen; put together in the background."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from ckptui.checkpoint import Standing, State
from ckptui.tui.pulse import Pulse, at_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Problem, Root, Run
    from ckptui.forecast import Forecast


class Scan(Protocol):
    """`ckptui.scan.scan`, or what a test puts in its place."""

    def __call__(
        self,
        path: Path,
        *,
        on_run: Callable[[Run], None] | None = None,
        on_part: Callable[[Run], None] | None = None,
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
    unread: bool = False
    """Only its name is known yet."""
    going: bool = False
    """The run's own policy removes it at the next save."""
    gone: str = ""
    """Why it is no longer in the list, while the cursor still stands on it; empty while it is."""
    hidden: bool = False
    """It is there, and the filter hides it; shown only while the cursor still stands on it."""

    @property
    def key(self) -> str:
        """What identifies it across scans."""
        return str(self.checkpoint.path)


@dataclass(frozen=True, slots=True)
class Summary:
    """What the list of runs tells of one, counted once."""

    last_saved: datetime | None = None
    troubled: bool = False
    """A checkpoint is broken or partial, or the run has a problem of its own."""
    writing: bool = False
    last_step: int | None = None
    metrics: frozenset[str] = frozenset()
    """Names that its checkpoints carry."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and the rows of its list, ascending as the run has them."""

    run: Run
    rows: tuple[Row, ...]
    when: datetime
    """When reading it began."""
    summary: Summary = field(default_factory=Summary)
    pulse: Pulse = field(default_factory=Pulse)
    forecast: Forecast | None = None
    """What its next saves bring, while it is trained."""
    read_only: str | None = None
    """Why nothing may be changed in it, in a sentence; None where it may."""
    began: float = 0.0
    """The same as `when`, on a clock that nobody sets: tells which of two readings is newer."""


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


def view(
    run: Run, now: datetime, before: RunView | None = None, *, began: float | None = None
) -> RunView:
    """A run ready for the screen.

    Args:
        run: As it was read.
        now: When reading it began.
        before: The view it replaces. Rows that say the same are handed on as they were, so that
            whoever draws them sees at once that nothing changed.
        began: When reading it began, by `time.monotonic`; None for this moment.
    """
    began = time.monotonic() if began is None else began
    found, read_only = None, None
    if run.unread:
        placed = [(c, _UNPLACED) for c in run.checkpoints]
    else:
        from ckptui.guard import why_read_only  # noqa: PLC0415 - as above
        from ckptui.standing import standings  # noqa: PLC0415 - names are shown without

        read_only = why_read_only(run.path)
        placed = list(zip(run.checkpoints, standings(run, now=now), strict=True))
        if run.live:
            from ckptui.forecast import forecast  # noqa: PLC0415 - as above

            found = forecast(run, now=now, free=_free(run.path))
    going = found.going if found is not None else frozenset()
    rows = tuple(
        Row(run, c, s, unread=c.name in run.unread and not c.staged, going=c.name in going)
        for c, s in placed
    )
    if before is not None and _same(before.rows, rows) and before.run.attempts == run.attempts:
        rows = before.rows
    return RunView(
        run,
        rows,
        now,
        summary=_summary(run),
        pulse=at_once(run),
        forecast=found,
        read_only=read_only,
        began=began,
    )


def with_pulse(view: RunView, pulse: Pulse) -> RunView:
    """The same view after another look at its lock."""
    run = view.run
    if run.owner != pulse.owner:
        run = replace(run, owner=pulse.owner)
    return replace(view, pulse=pulse, run=run)


def aside(view: RunView) -> tuple[object, ...]:
    """What a view says besides its rows."""
    run = view.run
    return (
        run.policy,
        run.trash_count,
        run.trash_size,
        run.size,
        run.live,
        run.attempts,
        run.problems,
        run.ignored,
        run.unread == frozenset(),
        view.pulse.words,
        view.forecast,
        view.read_only,
    )


_UNPLACED = Standing()


def _same(old: tuple[Row, ...], new: tuple[Row, ...]) -> bool:
    if len(old) != len(new):
        return False
    return all(
        (a.checkpoint is b.checkpoint or a.checkpoint == b.checkpoint)
        and a.going == b.going
        and a.unread == b.unread
        and (a.standing is b.standing or a.standing == b.standing)
        for a, b in zip(old, new, strict=True)
    )


def _summary(run: Run) -> Summary:
    last_saved, last_step, troubled, writing = None, None, bool(run.problems), False
    metrics: set[str] = set()
    for c in run.checkpoints:
        if c.created is not None and (last_saved is None or c.created > last_saved):
            last_saved = c.created
        if c.step is not None and c.current and c.complete:
            last_step = c.step if last_step is None else max(last_step, c.step)
        troubled = troubled or c.state is State.BROKEN or c.state is State.PARTIAL
        writing = writing or c.state is State.WRITING
        if c.metrics:
            metrics.update(c.metrics)
    return Summary(last_saved, troubled, writing, last_step, frozenset(metrics))


def take(
    path: Path,
    scan: Scan,
    clock: Callable[[], datetime],
    *,
    on_view: Callable[[RunView], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    before: Callable[[Path], RunView | None] = lambda _: None,
) -> Snapshot:
    """Scan a root, a run, or the run of a checkpoint.

    Args:
        path: What to scan.
        scan: Reads the disk.
        clock: The present time, aware.
        on_view: Called with each run as it is found, and with a large one while it is read.
        cancelled: Asked now and then; the scan ends when it says True.
        before: The view of a run that was shown so far.

    Raises:
        CkptuiError: There is nothing there, or it cannot be listed.
    """
    now, began = clock(), time.monotonic()
    known: dict[Path, RunView] = {}

    def made(run: Run) -> RunView:
        return view(run, now, before(run.path), began=began)

    def found(run: Run) -> None:
        known[run.path] = made(run)
        if on_view is not None:
            on_view(known[run.path])

    def part(run: Run) -> None:
        if on_view is not None:
            on_view(view(run, now, began=began))

    telling = on_view is not None
    root = scan(path, on_run=found, on_part=part if telling else None, cancelled=cancelled)
    chosen = None
    if [run.path for run in root.runs] == [root.path.parent]:
        chosen = root.path
        known.clear()
        root = scan(root.path.parent, on_run=found, cancelled=cancelled)
    return Snapshot(
        path=root.path,
        views=tuple(known.get(run.path) or made(run) for run in root.runs),
        problems=root.problems,
        ignored=root.ignored,
        disk_used=disk_used(root.path),
        partial=cancelled is not None and cancelled(),
        chosen=chosen,
    )


def rescan(
    path: Path, scan: Scan, clock: Callable[[], datetime], before: RunView | None = None
) -> RunView | None:
    """One run read anew; None if it is gone.

    Raises:
        CkptuiError: It cannot be listed.
    """
    now, began = clock(), time.monotonic()
    for run in scan(path).runs:
        if run.path == path:
            fresh = view(run, now, before, began=began)
            if before is None or before.pulse.owner != fresh.pulse.owner:
                return fresh
            # The same owner: what a longer look at it has told stays true.
            return replace(fresh, pulse=before.pulse)
    return None


def disk_used(path: Path) -> float | None:
    """How full the disk is, 0 to 1; None where the system does not tell."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    total = usage.used + usage.free
    return usage.used / total if total else None


def _free(path: Path) -> int | None:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None

"""What this session changes on the disk, and how to take it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ckptui import schema
from ckptui.tui import messages, work
from ckptui.tui.jobs import save_group
from ckptui.tui.pinning import Pinning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from textual.message import Message

    from ckptui.checkpoint import Run
    from ckptui.remove import TrashItem
    from ckptui.retention import PrunePlan
    from ckptui.tui.jobs import Job, Jobs
    from ckptui.tui.snapshot import Scan


class Start(Protocol):
    """`Browser.start`."""

    def __call__(
        self,
        group: str,
        label: str,
        run: Callable[[Job], Message | None],
        *,
        patient: bool = False,
    ) -> Job:
        """Do something in the background; what it returns goes to the app."""
        ...


GROUPS = ("remove", "restore", "empty")
"""Groups of work that must not be cut off half-way."""


@dataclass
class Undo:
    """What one removal of this session moved into the trash."""

    run: Path
    items: list[str] = field(default_factory=list)
    names: tuple[str, ...] = ()
    """What the removal was to move."""
    over: bool = False
    """Nothing is left of it to bring back."""


def _left(run: Path, ids: Sequence[str]) -> tuple[str, ...]:
    """The items that can still be brought back: all of them while the run itself is away."""
    if not run.is_dir():
        return tuple(ids)
    trash = run / schema.TOOL_DIR / schema.TRASH
    return tuple(item for item in ids if (trash / item).is_dir())


class Changes:
    """Starts the work that pins, moves, restores and deletes."""

    def __init__(
        self,
        scan: Scan,
        clock: Callable[[], datetime],
        jobs: Jobs,
        start: Start,
        run_at: Callable[[Path], Run | None],
    ) -> None:
        self._scan = scan
        self._clock = clock
        self._jobs = jobs
        self._start = start
        self.pins = Pinning(start, clock, run_at)
        self.undo: list[Undo] = []
        """Removals that can be taken back, the last one last."""

    @property
    def going_on(self) -> bool:
        """Whether something is being moved or deleted now."""
        return any(self._jobs.running(group) for group in GROUPS)

    def stop(self) -> None:
        """Stop whatever goes on after what it is at."""
        for group in GROUPS:
            job = self._jobs.latest(group)
            if job is not None:
                job.cancelled = True

    def save_now(self, run: Path) -> bool:
        """Ask the trainer of a run to save; False while it was asked and has not answered."""
        if self._jobs.running(save_group(run)):
            return False
        self._start(save_group(run), f"saving {run}", lambda _: work.save_now(run), patient=True)
        return True

    def remove(self, request: work.Request, shown: PrunePlan, run: Path) -> None:
        """Move to the trash what a shown plan removes."""
        scan, now = self._scan, self._clock()
        self.undo.append(Undo(run, names=tuple(row.checkpoint.name for row in shown.removals)))
        self._start(
            "remove",
            "moving checkpoints to the trash",
            lambda job: work.move_to_trash(run, request, shown, scan, now, job),
        )

    def moved(self, item: str) -> None:
        """The removal that goes on has made a trash item."""
        self.undo[-1].items.append(item)

    def removal_over(self) -> None:
        """A removal has ended; one that moved nothing leaves nothing to undo."""
        if self.undo and not self.undo[-1].items:
            self.undo.pop()

    def bring_back(self) -> str | None:
        """Restore what the last removal of this session moved; why not, if it cannot be."""
        if self.going_on:
            return "Still at work; try again in a moment."
        if not self.undo:
            return "Nothing to undo in this session; T shows the trash."
        last = self.undo[-1]  # forgotten once it is back, not before
        self.restore(last.run, last.items, last.names)
        return None

    def restore(self, run: Path, ids: Sequence[str], names: Sequence[str] = ()) -> None:
        """Put trash items back; `names` tells what was in those that are gone."""
        wanted, known = tuple(ids), tuple(names)

        def restore(job: Job) -> Message:
            done = work.restore(run, wanted, known)
            job.post(messages.RestoreEnded(run, wanted, _left(run, wanted)))
            return done

        self._start("restore", "restoring from the trash", restore)

    def restored(self, event: messages.RestoreEnded) -> None:
        """Items are back, or gone for good: what is left of them can still be undone."""
        over = set(event.ids) - set(event.left)
        for undo in self.undo:
            if undo.run == event.run and not over.isdisjoint(undo.items):
                undo.items = [item for item in undo.items if item not in over]
                undo.over = not undo.items
        self.undo = [undo for undo in self.undo if not undo.over]

    def empty_trash(self, run: Path, items: Sequence[TrashItem]) -> None:
        """Delete trash items for good."""
        self._start("empty", "deleting for good", lambda job: work.empty_trash(run, items, job))

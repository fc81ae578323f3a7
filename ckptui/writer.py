"""What one attempt saves, while training waits or beside it; both go the same way.

First the room on the disk is looked at, then the checkpoint is written and published, then what
the policy does not keep is removed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ckptui import leases
from ckptui.background import Saver, versions_of
from ckptui.errors import CkptuiError, LockedError, RefusedError, StorageError
from ckptui.resume import parent_of
from ckptui.save import save_checkpoint
from ckptui.upkeep import (
    Coming,
    free_space,
    is_full,
    make_room,
    outlook,
    prune_by_policy,
    room_for,
    shortage,
    space_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Parent
    from ckptui.lock import RunLock
    from ckptui.moment import Captured, Moment
    from ckptui.requests import Inbox, Request
    from ckptui.save import Draft
    from ckptui.upkeep import Upkeep

    Files = Mapping[str, Mapping[str, Any]]

_FEW = 3
"""So many checkpoints of room are left when the user begins to hear of it."""

_SMALL_FILES = 12
"""What a checkpoint may hold beside its tensors, before one has been written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A checkpoint to be saved."""

    draft: Draft
    moment: Moment
    files: Callable[[Path], None] | None
    """Writes further files into the folder it is given."""
    asked: tuple[Request, ...] = ()
    """Requests that were there before `moment`, so that it answers them."""


class Writer:
    """Saves the checkpoints of one attempt, one at a time.

    Args:
        lock: That makes the run ours.
        upkeep: How room is made, and who is told.
        inbox: What others ask the run to save.
        sync: Makes durable what must be so before a checkpoint's name appears.
        parent: What the attempt goes on from.
        lease: The run that keeps the source of this fork until it has saved.
        goes_on: A background save that the disk refused is told in a line and raised nowhere.
    """

    def __init__(
        self,
        *,
        lock: RunLock,
        upkeep: Upkeep,
        inbox: Inbox,
        sync: Callable[[], None],
        parent: Parent | None,
        lease: Path | None,
        goes_on: bool,
    ) -> None:
        self.parent = parent
        """What the next checkpoint goes on from."""
        self.saved = False
        self.background = Saver()
        self._lock = lock
        self._upkeep = upkeep
        self._inbox = inbox
        self._sync = sync
        self._lease = lease
        self._goes_on = goes_on
        self._extra_size = 0
        self._files = _SMALL_FILES
        self._warned: int | None = None

    def save(self, order: Order) -> Checkpoint:
        """Save while the caller waits.

        Raises:
            CkptuiError: As `TrainingRun.save`.
        """
        live = order.moment.live()
        versions = versions_of(live)

        def sync() -> None:
            if versions_of(live) != versions:
                msg = (
                    f"The weights were changed while {order.draft.name} was being written, by "
                    "another thread; nothing was published."
                )
                raise RefusedError(msg)
            self._sync()

        with self.answering(order.asked):
            captured = order.moment.capture()
            saved = self._save(order, captured, captured.files, sync=sync)
        self._inbox.answer(order.asked, checkpoint=saved.name)
        return saved

    def start(self, order: Order) -> Future[Checkpoint]:
        """Save in the background; the caller has made sure with `make_way` that nothing is."""

        def answer(future: Future[Checkpoint]) -> None:
            error = future.exception()
            if error is None:
                self._inbox.answer(order.asked, checkpoint=future.result().name)
            else:
                self._inbox.answer(order.asked, error=str(error))

        future = self.background.start(
            order.draft.name,
            order.moment,
            lambda captured, files: self._save(order, captured, files, sync=self._sync),
        )
        if order.asked:
            future.add_done_callback(answer)
        return future

    @contextlib.contextmanager
    def answering(self, asked: tuple[Request, ...]) -> Iterator[None]:
        """Tell those who asked, should what comes fail, why there is no checkpoint."""
        try:
            yield
        except BaseException as e:
            self._inbox.answer(asked, error=str(e) or type(e).__name__)
            raise

    def asked(self) -> tuple[Request, ...]:
        """What others ask for by now; what is captured after this answers it."""
        return self._inbox.take() if self._inbox.waiting else ()

    def met_by(self, standing: Checkpoint) -> None:
        """Tell those who ask by now that what they want is there already."""
        self._inbox.answer(self.asked(), checkpoint=standing.name)

    def make_way(self, name: str) -> None:
        """Wait for a save that is in flight, with a line that says so.

        Raises:
            CkptuiError: What went wrong with a former save.
        """
        busy = self.background.busy
        if busy is not None and busy != name:
            self._upkeep.report(f"{name} waits: {busy} is still being written.")
        self.settle()

    def settle(self) -> None:
        """Wait until no save is in flight.

        Raises:
            CkptuiError: What went wrong with it.
        """
        with self._tolerated():
            self.background.wait()

    def settle_quietly(self) -> None:
        """Wait until no save is in flight, and tell in a line what went wrong with it.

        Raises:
            LockedError: The run is another process's.
        """
        try:
            self.settle()
        except LockedError:
            raise
        except CkptuiError as e:
            self._upkeep.report(str(e))

    def before_step(self) -> None:
        """Wait for a copy that is being made of what an optimizer is about to change.

        Raises:
            CkptuiError: What went wrong with a former save.
        """
        with self._tolerated():
            self.background.hold()

    @contextlib.contextmanager
    def _tolerated(self) -> Iterator[None]:
        """Tell what training may go on after, instead of raising it."""
        try:
            yield
        except StorageError as e:
            if not self._goes_on:
                raise
            self._upkeep.report(f"{e} Training goes on, and saves when the next save is due.")

    def _save(
        self, order: Order, captured: Captured, files: Files, *, sync: Callable[[], None]
    ) -> Checkpoint:
        draft = replace(order.draft, parent=self.parent)

        def write(folder: Path) -> Any:
            written = captured.write(folder, files)
            if order.files is not None:
                order.files(folder)
            return written

        self._lock.show(step=draft.step, saving=draft.name)
        try:
            coming = self._coming(order.draft, captured)
            self._require_room(coming)
            try:
                saved = save_checkpoint(
                    self._upkeep.run, draft, write, lock=self._lock, before_publish=sync
                )
            except StorageError as e:
                # Who lost the run has its staging swept away: that is no fault of the disk.
                self._lock.check()
                if not is_full(e):
                    raise
                # Quotas do not show before they are met.
                room = make_room(self._upkeep, coming, refused=True)
                if not room.enough:
                    raise
                saved = save_checkpoint(
                    self._upkeep.run, draft, write, lock=self._lock, before_publish=sync
                )
        finally:
            self._lock.show(step=draft.step, saving=None)
        self.parent = parent_of(saved, forked=False)
        self.saved = True
        if self._lease is not None:
            leases.drop_lease(self._lease, draft.run_id)
            self._lease = None
        self._files = len(saved.files) + 1
        self._extra_size = max(0, sum(f.size for f in saved.files) - captured.size)
        self.prune(final=False)
        self._look_ahead(saved)
        return saved

    def _coming(self, draft: Draft, captured: Captured) -> Coming:
        return Coming(
            name=draft.name,
            step=draft.step,
            epoch=draft.epoch,
            attempt=draft.attempt,
            resumable=draft.resumable,
            metrics=draft.metrics,
            size=captured.size + self._extra_size,
            files=max(self._files, len(captured.files)),
        )

    def _require_room(self, coming: Coming) -> None:
        """Make room if there is none.

        Raises:
            StorageError: There is not enough, whatever was done.
        """
        self._lock.check()
        room = make_room(self._upkeep, coming)
        if not room.enough:
            raise StorageError(shortage(room), path=self._upkeep.run / coming.name)

    def _look_ahead(self, saved: Checkpoint) -> None:
        """Say so, while there is still time, when the disk is about to be full."""
        size = sum(file.size for file in saved.files)
        needed = space_for(size, files=self._files)
        count = room_for(free_space(self._upkeep.run), needed)
        if count is not None and count < _FEW and count != self._warned:
            self._upkeep.report(outlook(count, needed))
        self._warned = count

    def prune(self, *, final: bool) -> None:
        """Prune by the policy.

        Raises:
            LockedError: Another process took the run over; nothing was removed.
        """
        if self._upkeep.rules:
            self._lock.check()
            prune_by_policy(self._upkeep, final=final)

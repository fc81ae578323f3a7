"""Saving beside training: one save at a time, in a thread of its own.

A save first copies the state, while the next forward and backward pass read it, and then writes the
copy. `hold` stands between the two worlds: whoever changes the weights calls it first, and it
returns once the copy is made. It also raises what went wrong with a save that is over: nobody else
may be looking.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckptui.errors import RefusedError, UsageError
from ckptui.snapshot import Buffer, samples, so_far

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ckptui.checkpoint import Checkpoint
    from ckptui.moment import Captured, Moment
    from ckptui.snapshot import Copy, Files


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveTimes:
    """How long a save took, in seconds from the call that asked for it."""

    name: str
    copied: float
    """Until training could change the weights again."""
    durable: float
    """Until the checkpoint stood, whole and synced."""


class Saver:
    """Saves in the background, one after the other."""

    def __init__(self) -> None:
        self.times: SaveTimes | None = None
        """Of the last background save that succeeded."""
        self._buffer = Buffer()
        self._pool: ThreadPoolExecutor | None = None
        self._name = ""
        self._copying: Future[tuple[Captured, Copy]] | None = None
        self._saving: Future[Checkpoint] | None = None
        self._holding = threading.Lock()
        self._held = False
        """Whether somebody has waited for the copy, to change the weights after it."""
        self._process = os.getpid()
        self._worker: int | None = None
        """The thread that saves."""

    @property
    def busy(self) -> str | None:
        """The checkpoint that is being saved."""
        saving = self._saving
        return self._name if saving is not None and not saving.done() else None

    def start(
        self, name: str, moment: Moment, finish: Callable[[Captured, Files], Checkpoint]
    ) -> Future[Checkpoint]:
        """Begin to save; nothing may be in flight.

        Args:
            name: The checkpoint's.
            moment: The state to save.
            finish: Writes and publishes the state, from a copy of its files; in the thread.
        """
        asked = time.monotonic()
        changed = RefusedError(
            f"The weights were changed by something else than a registered optimizer's step while "
            f"{name} was being copied, so it was not saved. Register every optimizer; what else "
            "changes weights needs save() instead of async_save(), or wait() before it does so."
        )
        live = moment.live()
        versions = versions_of(live)
        looks = {id(tensor): samples(tensor) for tensor in moment.weights()}
        self._held = False
        begun = so_far(live)
        pool = self._thread()

        def copy() -> tuple[Captured, Copy]:
            self._worker = threading.get_ident()
            captured = moment.capture()
            made = self._buffer.copy(captured.files, begun)
            require_unchanged()
            copied = (
                (looks.get(id(tensor)), made.files[file][key])
                for file, tensors in captured.files.items()
                for key, tensor in tensors.items()
            )
            if any(look is not None and look != samples(copy) for look, copy in copied):
                raise changed
            return captured, made

        def require_unchanged() -> None:
            if versions_of(live) != versions:
                raise changed

        def save() -> Checkpoint:
            captured, made = copying.result()
            made.finish()
            if made.events and not self._held:
                require_unchanged()  # a device may still have been copying
            live.clear()
            copied = time.monotonic() - asked
            saved = finish(captured, made.files)
            self.times = SaveTimes(name=name, copied=copied, durable=time.monotonic() - asked)
            return saved

        self._name = name
        self._copying = copying = pool.submit(copy)
        self._saving = pool.submit(save)
        # Another one is handed out: nobody can cancel what training relies on.
        handed: Future[Checkpoint] = Future()
        handed.set_running_or_notify_cancel()
        self._saving.add_done_callback(lambda saving: _pass_on(saving, handed))
        return handed

    def reserve(self, moment: Moment) -> None:
        """Take the memory that a copy of such a state needs, in the background."""
        on_cuda = any(tensor.is_cuda for tensor in moment.live())
        self._thread().submit(lambda: self._buffer.reserve(moment.capture().files, pinned=on_cuda))

    def _thread(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="ckptui-save")
        return self._pool

    def hold(self) -> None:
        """Wait until no copy is being made, and raise what went wrong with a save.

        Raises:
            CkptuiError: Of a former save, or of this copy; each is raised once.
        """
        if self._is_elsewhere():
            return
        with self._holding:
            copying = self._copying
            if copying is not None:
                self._held = True
                # What went wrong with it is told by the save that needed it.
                if copying.exception() is None:
                    copying.result()[1].hold_back()
                else:
                    self._join()
                self._copying = None
        self.check()

    def check(self) -> None:
        """Raise what went wrong with a save that is over.

        Raises:
            CkptuiError: Of that save; it is raised once.
        """
        saving = self._saving
        if saving is not None and saving.done() and not self._is_elsewhere():
            self._saving = self._copying = None
            saving.result()

    def wait(self) -> None:
        """Wait until nothing is being saved any more.

        Raises:
            CkptuiError: What went wrong, if it was not raised before.
        """
        if self._is_elsewhere():
            return
        self._join()
        self.check()

    def failure(self) -> BaseException | None:
        """What went wrong with the save in flight, once it is over; nothing is raised."""
        saving = self._saving
        if saving is None or self._is_elsewhere():
            return None
        error = saving.exception()
        self._saving = self._copying = None
        return error

    def _is_elsewhere(self) -> bool:
        """Whether this is a process that was forked from the one that saves: it has no part in it.

        Raises:
            UsageError: It is the thread that saves: it would wait for itself.
        """
        if os.getpid() != self._process:
            return True
        if threading.get_ident() == self._worker and self.busy is not None:
            msg = f"What writes files of {self._name} cannot wait for {self._name} to be saved."
            raise UsageError(msg)
        return False

    def _join(self) -> None:
        if self._saving is not None:
            self._saving.exception()

    def close(self) -> None:
        """End the thread and give the memory back."""
        if self._pool is not None and os.getpid() == self._process:
            self._pool.shutdown()
        self._pool = None
        self._saving = self._copying = None
        self._buffer = Buffer()


def _pass_on(saving: Future[Checkpoint], handed: Future[Checkpoint]) -> None:
    error = saving.exception()
    if error is None:
        handed.set_result(saving.result())
    else:
        handed.set_exception(error)


def versions_of(tensors: Sequence[Any]) -> list[int]:
    """How often each tensor was changed in place, as far as torch counts that."""
    return [0 if t.is_inference() else t._version for t in tensors]

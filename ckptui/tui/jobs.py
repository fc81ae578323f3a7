"""Work that may wait for a disk, in daemon threads of our own.

Textual waits for its thread workers when it quits, so a hung mount would hold the program. These
threads are never waited for: they post messages, and the program leaves whenever it is told to.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from ckptui.errors import CkptuiError
from ckptui.tui.messages import JobCrashed, JobFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.message import Message
    from textual.message_pump import MessagePump


def save_group(run: Path) -> str:
    """The group of the work that waits for a run to be saved."""
    return f"save-now {run}"


class Job:
    """One piece of work in the background."""

    def __init__(
        self, group: str, label: str, target: MessagePump, *, patient: bool = False
    ) -> None:
        self.group = group
        self.label = label
        """What the user reads while it takes long: "scanning outputs"."""
        self.patient = patient
        """It waits for another process, so that taking long says nothing about the disk."""
        self.started = time.monotonic()
        self.finished: float | None = None
        self.cancelled = False
        """Set to ask it to stop at the next safe point."""
        self.superseded = False
        """Nobody wants its result any more: another one was started in its place."""
        self._target = target

    @property
    def running(self) -> bool:
        """Whether the work still goes on."""
        return self.finished is None

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        return (self.finished or time.monotonic()) - self.started

    @property
    def since(self) -> float:
        """Seconds since it ended; 0 while it runs."""
        return 0.0 if self.finished is None else time.monotonic() - self.finished

    def is_cancelled(self) -> bool:
        """Whether it should stop; for libraries that poll a function."""
        return self.cancelled

    def post(self, message: Message) -> None:
        """Send a message to whoever asked; nobody minds if they are gone."""
        with contextlib.suppress(RuntimeError):  # the event loop may have closed meanwhile
            self._target.post_message(message)


class Jobs:
    """All background work of the app, one latest job a group."""

    def __init__(self) -> None:
        self._latest: dict[str, Job] = {}

    def start(
        self,
        group: str,
        label: str,
        work: Callable[[Job], Message | None],
        *,
        target: MessagePump,
        crashed: MessagePump,
        patient: bool = False,
    ) -> Job:
        """Run `work` in a thread; what it returns is posted to `target`.

        A `CkptuiError` or `OSError` arrives there as `JobFailed`; anything else is a fault of ours
        and goes to `crashed`, which ends the app with a traceback.
        """
        job = Job(group, label, target, patient=patient)
        self._latest[group] = job

        def run() -> None:
            try:
                message = work(job)
            except (CkptuiError, OSError) as e:
                message = JobFailed(group, describe(e))
            except BaseException as e:  # noqa: BLE001 - handed to the app, which raises it
                with contextlib.suppress(RuntimeError):
                    crashed.post_message(JobCrashed(e))
                return
            finally:
                job.finished = time.monotonic()
            if message is not None:
                job.post(message)

        threading.Thread(target=run, name=f"ckptui-{group}", daemon=True).start()
        return job

    def latest(self, group: str) -> Job | None:
        """The job that was started last in a group."""
        return self._latest.get(group)

    def running(self, group: str) -> bool:
        """Whether the latest job of a group still goes on."""
        job = self._latest.get(group)
        return job is not None and job.running

    def oldest_running(self, *, patient: bool = True) -> Job | None:
        """The job that has been going on longest, if any; without the patient ones if told so."""
        going = [j for j in self._latest.values() if j.running and (patient or not j.patient)]
        return min(going, key=lambda job: job.started, default=None)


def describe(error: CkptuiError | OSError) -> str:
    """A failure in one sentence."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}."
    return str(error)

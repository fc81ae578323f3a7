"""Signals that ask training to stop: it saves the last optimizer step that was taken, and leaves.

A second signal leaves at once. What was saved stands; what was being written is not visible yet
and is cleared by the next start.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from recipe_integration.progress import say

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Self

SAVED_FOR_REQUEUE = 75
"""Exit code after SIGTERM and SIGUSR1: saved, start me again (EX_TEMPFAIL of sysexits.h)."""
INTERRUPTED = 130
"""Exit code after Ctrl+C."""


class StopSignals:
    """Notes SIGTERM, SIGUSR1 and SIGINT while it is entered."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        """The first signal that came."""
        self._owner = os.getpid()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """What the process ends with if it was stopped, else 0."""
        if self.received is None:
            return 0
        return INTERRUPTED if self.received is signal.SIGINT else SAVED_FOR_REQUEUE

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            return  # a data worker, between its fork and its own set-up
        if self.received is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(self._owner, number)
            return
        self.received = signal.Signals(number)
        say(f"{self.received.name}: saving the last step and leaving; once more leaves at once.")

"""Keeping the interpreter from stopping the interface while background threads are at work.

Two things make Python wait that nobody sees in a profile. A thread that wants the interpreter back
waits up to the switch interval, 5 ms at first, each time it has given it up for a moment of input
or output; a key press does that a dozen times. And a full round of the garbage collector walks
over everything there is: a tenth of a second for the records of 20,000 checkpoints, which hold no
cycle at all.
"""

from __future__ import annotations

import gc
import sys
import time

SWITCH_SECONDS = 0.0005
FULL_EVERY_SECONDS = 60.0
FELT_SECONDS = 0.02
"""A round that takes longer than this waits until no key has come for a while."""
IDLE_SECONDS = 5.0
_FROZEN = 2000
"""Rows of a run from which on what was made for them is kept out of the collector's rounds."""


class Pauses:
    """Collects garbage when the interface is idle instead of at any moment."""

    def __init__(self) -> None:
        self._before: tuple[float, bool] | None = None
        self._due = 0.0
        self._took = 0.0
        """Seconds of the last full round."""

    def begin(self) -> None:
        """Take over from the interpreter."""
        self._before = (sys.getswitchinterval(), gc.isenabled())
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.disable()
        self._due = time.monotonic() + FULL_EVERY_SECONDS

    def end(self) -> None:
        """Leave everything as it was."""
        if self._before is not None:
            interval, collecting = self._before
            sys.setswitchinterval(interval)
            if collecting:
                gc.enable()
            self._before = None

    def tidy(self, idle: float) -> None:
        """Collect young garbage, and now and then all; to be called every second or so.

        Args:
            idle: Seconds since the last key: a round that would be felt waits until nobody types.
        """
        if self._before is None:
            return
        now = time.monotonic()
        felt = self._took >= FELT_SECONDS
        if now < self._due or (felt and idle < IDLE_SECONDS):
            gc.collect(1)
            return
        gc.collect()
        self._took = time.monotonic() - now
        self._due = now + FULL_EVERY_SECONDS


def keep_from_the_collector(rows: int) -> None:
    """Take everything that exists out of the rounds to come, where that is a great deal.

    Args:
        rows: How many checkpoints were just read.
    """
    if rows >= _FROZEN:
        gc.freeze()

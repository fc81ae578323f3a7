"""How long an event loop keeps a key waiting: a callback every few milliseconds, and its delay.

A late beat has causes that call for different cures, so each is split by what the clocks of the
processor say of the time since the beat before: the loop's own thread (handlers, layout, drawing),
other threads of the process (a scan holding the interpreter's lock), and the rest, in which neither
ran: other processes of the machine, or the wait for a lock. The collector's pauses are part of the
first two and noted apart.
"""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY = 0.005
"""Seconds between two beats."""


@dataclass(frozen=True, slots=True)
class Beat:
    """One late beat; all in seconds."""

    late: float
    """Beyond the moment it was due."""
    own: float = 0.0
    """Processor time of the loop's thread since the beat before."""
    others: float = 0.0
    """Processor time of the other threads of the process."""
    collecting: float = 0.0
    """Spent in garbage collection by whichever thread."""


@dataclass(slots=True)
class Phase:
    """The beats of one stretch of work."""

    beats: list[Beat] = field(default_factory=list)

    @property
    def worst(self) -> Beat:
        return max(self.beats, key=lambda b: b.late, default=Beat(0.0))

    def as_json(self) -> dict[str, object]:
        late = sorted((b.late for b in self.beats), reverse=True)
        return {
            "worst": asdict(self.worst),
            "beats": len(late),
            "over 50 ms": sum(1 for x in late if x > 0.05),
            "next": late[1:4],
        }


class Heartbeat:
    """Beats in the running loop while it is the context of an `async with`."""

    def __init__(self, every: float = EVERY) -> None:
        self.phases: dict[str, Phase] = {}
        self._every = every
        self._phase = Phase()
        self._due = 0.0
        self._own = self._all = self._collected = self._pause_began = 0.0
        self._seen_collected = 0.0
        self._handle: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Heartbeat:
        gc.callbacks.append(self._collection)
        self._read_clocks()
        self._plan()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.cancel()
        gc.callbacks.remove(self._collection)

    @contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """Count the beats within under a name."""
        before, self._phase = self._phase, self.phases.setdefault(name, Phase())
        try:
            yield self._phase
        finally:
            # What has kept the loop until now belongs to this phase, and to no other.
            self._note()
            self._phase = before

    def _collection(self, phase: str, _: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._pause_began = now
        else:
            self._collected += now - self._pause_began

    def _read_clocks(self) -> tuple[float, float, float]:
        own, everything = time.thread_time(), time.process_time()
        found = (own - self._own, everything - self._all, self._collected - self._seen_collected)
        self._own, self._all, self._seen_collected = own, everything, self._collected
        return found

    def _plan(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self._every
        self._handle = loop.call_later(self._every, self._beat)

    def _note(self) -> None:
        now = asyncio.get_running_loop().time()
        late = now - self._due
        if late > 0:
            self._due = now
            own, everything, collecting = self._read_clocks()
            self._phase.beats.append(Beat(late, own, max(0.0, everything - own), collecting))

    def _beat(self) -> None:
        self._note()
        self._plan()

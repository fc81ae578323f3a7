"""Whether somebody trains a run, told from its lock by an observer who keeps looking."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ckptui import display

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ckptui.checkpoint import Owner, Run

QUIET_SECONDS = 30.0
"""A living owner shows itself every ten seconds."""


class Life(StrEnum):
    """How the trainer of a run is."""

    NONE = ""
    """Nobody trains it."""
    LIVE = "LIVE"
    STALE = "STALE"
    """The lock names an owner who gives no sign of life, and cannot be looked up or is stuck."""
    CRASHED = "CRASHED"
    """The lock names an owner who is gone."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The state of a run's trainer at one look."""

    life: Life = Life.NONE
    owner: Owner | None = None
    quiet: float = 0.0
    """Seconds without a sign of life, as far as we have watched."""

    @property
    def words(self) -> str:
        """What the first line says: state, step, the save in flight."""
        if self.owner is None:
            return self.life.value
        at = f" at step {self.owner.step}" if self.owner.step is not None else ""
        if self.life is Life.CRASHED:
            return f"CRASHED{at}: its trainer is gone"
        if self.life is Life.STALE:
            return f"STALE{at}: no sign of life for {self.quiet:.0f} s"
        saving = f", saving {display.visible(self.owner.saving)}" if self.owner.saving else ""
        return f"LIVE{at}{saving}"


class Pulses:
    """Remembers when each lock last changed, on our own clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Path, tuple[object, float]] = {}

    def feel(self, run: Path) -> Pulse:
        """Look at the lock of a run."""
        from ckptui import lock  # noqa: PLC0415 - not needed for the first frame

        owner = lock.read_owner(run)
        if owner is None:
            self._seen.pop(run, None)
            return Pulse()
        if not lock.is_live(owner):
            return Pulse(Life.CRASHED, owner)
        quiet = self._quiet(run, lock.signs_of_life(run, owner))
        return Pulse(Life.STALE if quiet >= QUIET_SECONDS else Life.LIVE, owner, quiet)

    def _quiet(self, run: Path, signs: object) -> float:
        now = self._clock()
        before = self._seen.get(run)
        if before is None or before[0] != signs:
            self._seen[run] = (signs, now)
            return 0.0
        return now - before[1]


def at_once(run: Run) -> Pulse:
    """What a single reading of a run tells."""
    if run.owner is None:
        return Pulse(Life.LIVE if run.live else Life.NONE)
    return Pulse(Life.LIVE if run.live else Life.CRASHED, run.owner)

"""How far a verification is: bytes, rate, time left."""

from __future__ import annotations

from dataclasses import dataclass

from ckptui import display

SETTLED = 1.0
"""Seconds before a rate means anything."""


@dataclass
class Meter:
    """Counts work that is done in pieces."""

    total: int
    """Bytes, or pieces."""
    began: float
    """On a clock that only goes forward, in seconds."""
    done: int = 0

    def add(self, count: int) -> None:
        """Count work that was done; a file that shrank meanwhile takes nothing back."""
        self.done = min(self.total, self.done + max(0, count))

    def told(self, now: float, *, bytes_counted: bool) -> str:
        """How far it is, how fast, and how long it will take at that rate."""
        share = self.done / self.total if self.total else 1.0
        if not bytes_counted:
            return f"{min(0.99, share):.0%}"
        words = f"{display.size(self.done)} of {display.size(self.total)}"
        seconds = now - self.began
        if seconds < SETTLED or not self.done:
            return words
        rate = self.done / seconds
        return (
            f"{words}, {display.size(round(rate))}/s, {_left((self.total - self.done) / rate)} left"
        )


def _left(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3600:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"

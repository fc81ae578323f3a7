"""How far a verification is, bytes, rate, time left, and what it has found so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ckptui import display

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ckptui.checkpoint import Checkpoint
    from ckptui.verify import Report

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


@dataclass
class Findings:
    """What was found in checkpoints, each meant by its identity: its name may be another one's."""

    reports: dict[tuple[object, ...], Report] = field(default_factory=dict)
    gone: set[tuple[object, ...]] = field(default_factory=set)
    """Those that were removed meanwhile."""

    def report(self, checkpoint: Checkpoint) -> Report | None:
        """What was found in one; None before it was looked at, and where it is gone."""
        return None if self.is_gone(checkpoint) else self.reports.get(of(checkpoint))

    def is_gone(self, checkpoint: Checkpoint) -> bool:
        """Whether it was removed meanwhile."""
        return of(checkpoint) in self.gone

    def left(self, checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
        """What is still to be looked at."""
        return [c for c in checkpoints if not self.is_gone(c) and of(c) not in self.reports]

    def forget(self) -> None:
        """Begin anew: another level finds other things."""
        self.reports.clear()

    def renewed(
        self, checkpoints: Iterable[Checkpoint], listed: Sequence[Checkpoint]
    ) -> tuple[Checkpoint, ...]:
        """The same checkpoints as they are listed now; those that are gone stay and are noted.

        One that stands in another one's place is another one: nothing is known of it yet.
        """
        there = {c.path: c for c in listed}
        known = {of(c) for c in listed}
        self.gone -= known
        found = []
        for c in checkpoints:
            now = there.get(c.path)
            if now is None and of(c) not in known:
                self.gone.add(of(c))
            found.append(c if now is None else now)
        return tuple(found)

    def told(self, checkpoints: Sequence[Checkpoint]) -> str:
        """How many were checked, and what came of it."""
        there = [c for c in checkpoints if not self.is_gone(c)]
        found = [r for r in map(self.report, there) if r is not None]
        checked = [r.status for r in found if r.looked]
        words = f"{len(checked)} of {len(there)} checked, {checked.count('failed')} failed"
        for count, what in (
            (checked.count("warning"), "with warnings"),
            (len(found) - len(checked), "cannot be checked"),
            (len(checkpoints) - len(there), "removed meanwhile"),
        ):
            if count:
                words += f", {count} {what}"
        return words


def of(checkpoint: Checkpoint) -> tuple[object, ...]:
    """What a finding is filed under."""
    return (checkpoint.path, *checkpoint.identity)


def found_words(report: Report | None, *, gone: bool = False) -> str:
    """What was found in a checkpoint, in a few words."""
    if gone:
        return "was removed meanwhile"
    if report is None:
        return ""
    if not report.problems:
        return "all files as they were written" if report.status == "verified" else "nothing wrong"
    first = report.problems[0]
    more = f" and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
    return f"{first.file} {first.what}".strip() + more


def _left(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3600:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"

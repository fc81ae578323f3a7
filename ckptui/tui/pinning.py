"""The pins of this session: one change of a checkpoint's pin at a time, as the keys came.

A key acts on what the one before it will have made, not on what the list still shows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ckptui.tui import work

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from ckptui.checkpoint import Checkpoint, Run
    from ckptui.tui.changes import Start
    from ckptui.tui.jobs import Job
    from ckptui.tui.messages import PinChanged

GROUP = "pin "
"""How the groups of this work begin; the checkpoint's path follows."""

Key = tuple[object, ...]
"""Path and identity of a checkpoint."""


@dataclass(frozen=True, slots=True)
class _Wish:
    checkpoint: Checkpoint
    pinned: bool
    note: str | None


@dataclass
class _Now:
    """What is known of a pin that was asked about, until the list shows it too."""

    pinned: bool
    note: str
    waiting: deque[_Wish] = field(default_factory=deque)
    busy: bool = True
    shown_by: Job | None = None
    """The reading that brings it into the list."""


class Pinning:
    """Pins checkpoints, takes pins away, and remembers the notes of those taken."""

    def __init__(
        self,
        start: Start,
        clock: Callable[[], datetime],
        run_at: Callable[[Path], Run | None],
    ) -> None:
        """Begin without a wish.

        Args:
            start: `Browser.start`.
            clock: The present time, aware.
            run_at: A run as it is known by now.
        """
        self._start = start
        self._clock = clock
        self._run_at = run_at
        self._now: dict[Key, _Now] = {}
        self._notes: dict[Key, str] = {}
        """Notes of the pins that this session took away."""

    def toggle(self, checkpoint: Checkpoint) -> bool:
        """Pin a checkpoint, or take its pin away; whether it will be pinned."""
        now = self._now.get(_key(checkpoint))
        pinned = not (checkpoint.pinned if now is None else now.pinned)
        self.set(checkpoint, pinned=pinned)
        return pinned

    def set(self, checkpoint: Checkpoint, *, pinned: bool, note: str | None = None) -> None:
        """Pin a checkpoint, or take its pin away, after what was asked of it before."""
        key = _key(checkpoint)
        wish = _Wish(checkpoint, pinned, note)
        now = self._now.get(key)
        before = self.note_of(checkpoint)
        if now is None or not now.busy:
            self._now[key] = _Now(pinned, before if note is None else note)
            self._begin(wish)
            return
        now.pinned = pinned
        now.note = before if note is None else note
        now.waiting.append(wish)

    def note_of(self, checkpoint: Checkpoint) -> str:
        """The note that its pin has, will have, or would have if it were pinned again."""
        now = self._now.get(_key(checkpoint))
        known = checkpoint.note if now is None else now.note
        return known or ("" if checkpoint.pinned else self._notes.get(_key(checkpoint), ""))

    def _begin(self, wish: _Wish) -> None:
        c = wish.checkpoint
        run, now = self._run_at(c.run), self._clock()
        again = self._notes.get(_key(c), "") if wish.pinned and wish.note is None else ""
        self._start(
            f"{GROUP}{c.path}",
            f"{'pinning' if wish.pinned else 'unpinning'} {c.name}",
            lambda _: (
                work.set_pin(c, note=wish.note, again=again)
                if wish.pinned
                else work.take_pin(c, run, now)
            ),
        )

    def ended(self, event: PinChanged, shown_by: Job | None) -> None:
        """A change was made; the next one of that checkpoint begins."""
        key = _key(event.checkpoint)
        if event.pinned:
            self._notes.pop(key, None)
        elif event.changed:
            self._notes[key] = event.note
        now = self._now.get(key)
        if now is None:
            return
        now.shown_by = shown_by
        now.busy = bool(now.waiting)
        if now.waiting:
            self._begin(now.waiting.popleft())

    def failed(self, group: str) -> None:
        """A change was refused; so is what was to follow it."""
        path = group.removeprefix(GROUP)
        self._now = {key: now for key, now in self._now.items() if str(key[0]) != path}

    def shown(self) -> None:
        """Runs were read again: what the list shows by now is known from there."""
        self._now = {
            key: now
            for key, now in self._now.items()
            if now.busy or (now.shown_by is not None and now.shown_by.running)
        }


def _key(checkpoint: Checkpoint) -> Key:
    return (checkpoint.path, *checkpoint.identity)

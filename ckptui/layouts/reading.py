"""The checkpoints of a run, read one after the other: names first, the newest before the others."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from ckptui import schema
from ckptui.checkpoint import Checkpoint, Pin, Run, order
from ckptui.layouts.memory import stamp
from ckptui.layouts.native_checkpoint import describe_checkpoint
from ckptui.layouts.unread import by_number, placeholder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ckptui.layouts.memory import Memory

MANY = 200
"""Checkpoints from which on what is known so far is told while the rest is read."""
_FIRST_PART_SECONDS = 0.1


class Entry(NamedTuple):
    """One name in a run's folder."""

    name: str
    path: str
    is_dir: bool
    """A real directory, not a link to one."""
    is_link: bool


def list_entries(folder: Path) -> list[Entry]:
    """The names in a folder.

    Raises:
        OSError: It cannot be listed.
    """
    with os.scandir(folder) as found:
        return [
            Entry(e.name, e.path, e.is_dir(follow_symlinks=False), e.is_symlink()) for e in found
        ]


def is_checkpoint_folder(entry: Entry) -> bool:
    """Whether a folder carries the name of a native checkpoint."""
    return entry.is_dir and schema.parse_name(entry.name) is not None


class Reading:
    """One pass over the checkpoints of a run."""

    def __init__(
        self,
        so_far: Run,
        named: Sequence[Entry],
        *,
        memory: Memory | None,
        on_part: Callable[[Run], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        """Prepare to read.

        Args:
            so_far: The run without its checkpoints.
            named: The folders that carry the name of one.
            memory: What earlier readings found; filled anew.
            on_part: Called now and then with the run as far as it is read.
            cancelled: Asked before each folder.
        """
        self._run = so_far
        self._named = sorted(named, key=lambda e: by_number(e.name), reverse=True)
        self._memory = memory
        self._on_part = on_part
        self._cancelled = cancelled
        self._found: list[Checkpoint] = []
        self.unread: frozenset[str] = frozenset()
        """Names that were left when the pass was cancelled."""

    def all(self, pins: Mapping[str, Pin], *, may_be_pinned: bool) -> list[Checkpoint]:
        """The checkpoints, those that were not reached as placeholders."""
        telling = self._on_part is not None and len(self._named) > MANY
        next_part = time.monotonic()
        pause = _FIRST_PART_SECONDS
        for i, entry in enumerate(self._named):
            if telling and time.monotonic() >= next_part:
                self._tell(i)
                # Ever more rarely: telling costs about as much as there is to tell.
                next_part = time.monotonic() + pause
                pause *= 2
            if self._cancelled is not None and self._cancelled():
                self.unread = frozenset(e.name for e in self._named[i:])
                return self._found + self._placeholders(i)
            unseen = Pin(name=entry.name, readable=False) if may_be_pinned else None
            found = self._read(entry, pins.get(entry.name, unseen))
            if found is not None:
                self._found.append(found)
        if self._memory is not None:
            names = {e.name for e in self._named}
            self._memory.forget_all_but(os.fspath(self._run.path), names)
        return self._found

    def _read(self, entry: Entry, pin: Pin | None) -> Checkpoint | None:
        run = self._run
        if self._memory is None:
            return describe_checkpoint(run.path, entry.name, run.attempts, pin)
        seen = stamp(entry.path)
        known = self._memory.recall(entry.path, seen, run.attempts, pin)
        if known is not None:
            return known
        found = describe_checkpoint(run.path, entry.name, run.attempts, pin)
        if found is None:
            return None
        return self._memory.keep(entry.path, seen, run.attempts, found)

    def _tell(self, at: int) -> None:
        if self._on_part is None:
            return
        checkpoints = sorted(self._found + self._placeholders(at), key=order)
        self._on_part(
            Run(
                path=self._run.path,
                name=self._run.name,
                run_id=self._run.run_id,
                layout=self._run.layout,
                owner=self._run.owner,
                live=self._run.live,
                checkpoints=tuple(checkpoints),
                policy=self._run.policy,
                attempts=self._run.attempts,
                size=sum(c.size for c in self._found),
                unread=frozenset(e.name for e in self._named[at:]),
            )
        )

    def _placeholders(self, at: int) -> list[Checkpoint]:
        """Records of names that were not read yet: nothing is known, so nothing is believed."""
        return [placeholder(self._run.path, entry.name) for entry in self._named[at:]]

"""What earlier readings of a run found, so that reading it again costs one look at each folder."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ckptui.checkpoint import Attempt, Checkpoint, Pin

SETTLED_SECONDS = 3.0
"""A folder that was touched more recently may change again without its time telling."""

Stamp = tuple[int, int, int]
"""Inode, and the times of a folder: they change when files come, go or are replaced in it."""


class _Known(NamedTuple):
    stamp: Stamp
    attempts: tuple[Attempt, ...]
    checkpoint: Checkpoint


class Memory:
    """Records of complete checkpoints by path. One thread at a time may use it (`in_use`).

    What only changes inside of a file, such as one cut short where it lies, goes unnoticed until
    everything is read again (`recheck`).
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self.in_use = threading.Lock()
        """To be held while a scan uses it."""
        self.recheck = False
        """Whether to read everything again, and only hand out old records where they are equal."""

    def recall(
        self, path: str, stamp: Stamp | None, attempts: tuple[Attempt, ...], pin: Pin | None
    ) -> Checkpoint | None:
        """The record of a folder that has not changed since it was read; None to read it."""
        known = self._known.get(path)
        if (
            self.recheck
            or known is None
            or known.stamp != stamp
            or known.attempts != attempts
            or known.checkpoint.pin != pin
        ):
            return None
        return known.checkpoint

    def keep(
        self,
        path: str,
        stamp: Stamp | None,
        attempts: tuple[Attempt, ...],
        checkpoint: Checkpoint,
    ) -> Checkpoint:
        """Remember a record; the one known before where it is equal, so that both are the same."""
        known = self._known.get(path)
        if known is not None and known.checkpoint == checkpoint:
            checkpoint = known.checkpoint
        if stamp is None or not checkpoint.complete or not _settled(stamp):
            self._known.pop(path, None)
        else:
            self._known[path] = _Known(stamp, attempts, checkpoint)
        return checkpoint

    def forget_all_but(self, folder: str, names: set[str]) -> None:
        """Forget what is no longer in a run."""
        start = folder.rstrip(os.sep) + os.sep
        gone = [
            path
            for path in self._known
            if path.startswith(start)
            and os.sep not in path[len(start) :]
            and path[len(start) :] not in names
        ]
        for path in gone:
            del self._known[path]


def stamp(path: str) -> Stamp | None:
    """The stamp of a folder; None if it cannot be looked at."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_ctime_ns


def _settled(found: Stamp) -> bool:
    newest = max(found[1], found[2]) / 1e9
    return newest < time.time() - SETTLED_SECONDS

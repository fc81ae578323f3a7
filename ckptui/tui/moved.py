"""What this session moved to the trash: rows that leave the lists without being told as gone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ckptui.tui.snapshot import RunView


class Moved:
    """Keys of checkpoints that were moved, until they are seen again where they were."""

    def __init__(self) -> None:
        self._when: dict[Path, dict[str, float]] = {}
        """By run and key, on the clock of `RunView.began`."""
        self._seen: dict[Path, float] = {}
        """The reading of a run that was looked at last."""

    def __contains__(self, key: str) -> bool:
        return any(key in moved for moved in self._when.values())

    def add(self, run: Path, key: str) -> None:
        """A checkpoint was moved just now."""
        self._when.setdefault(run, {})[key] = time.monotonic()
        self._seen.pop(run, None)

    def look_at(self, views: Mapping[Path, RunView]) -> None:
        """Forget what a reading begun after the move has found: whoever brought it back.

        Were it not forgotten, somebody else could remove it later without a word.
        """
        for run, moved in list(self._when.items()):
            view = views.get(run)
            if view is None or self._seen.get(run) == view.began:
                continue
            self._seen[run] = view.began
            there = {row.key for row in view.rows}
            back = [key for key, when in moved.items() if key in there and when < view.began]
            for key in back:
                del moved[key]
            if not moved:
                del self._when[run], self._seen[run]

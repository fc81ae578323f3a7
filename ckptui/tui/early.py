"""The names of a run's checkpoints, read before there is anything to draw them on.

Importing what draws takes longer than listing a folder, so both go on side by side, and the first
frame holds the names. Everything else about them, and whatever reads it, comes after that frame.
"""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ckptui import schema
from ckptui.checkpoint import Run, order
from ckptui.layouts.unread import by_number, placeholder
from ckptui.tui import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from ckptui.tui.snapshot import RunView


FIRST = 200
"""Names that are shown at first, the newest: more than any screen holds, and drawn in no time."""


class Early:
    """A look into one folder in a daemon thread of its own: it may hang, we do not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done = threading.Event()
        self._view: RunView | None = None
        self._error: OSError | None = None
        threading.Thread(target=self._look, name="ckptui-early", daemon=True).start()

    def _look(self) -> None:
        try:
            self._view = names_of(self._path)
        except OSError as e:
            self._error = e
        finally:
            self._done.set()

    def view(self, seconds: float) -> RunView | None:
        """The run with its names after at most so many seconds; None where they are not known."""
        self._done.wait(seconds)
        return self._view

    @property
    def failed(self) -> bool:
        """Whether the folder cannot be listed, or is none."""
        return self._error is not None


def names_of(path: Path) -> RunView | None:
    """A run with its newest names; None where the folder holds no checkpoint.

    Raises:
        OSError: It cannot be listed.
    """
    began = datetime.now(UTC)
    with os.scandir(path) as found:
        names = [
            e.name for e in found if schema.parse_name(e.name) and e.is_dir(follow_symlinks=False)
        ]
    if not names:
        return None
    run = path.absolute()
    newest = sorted(names, key=by_number)[-FIRST:]
    checkpoints = sorted((placeholder(run, name) for name in newest), key=order)
    return snapshot.view(
        Run(
            path=run,
            name=run.name,
            run_id=None,
            layout="native",
            checkpoints=tuple(checkpoints),
            unread=frozenset(names),
        ),
        began,
    )

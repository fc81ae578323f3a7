"""Modules that only keys need, brought in behind the first screen.

Imported before it they would hold it up; imported by the first key that needs them they hold up
everything, for up to a tenth of a second. In a thread of their own nobody waits for them.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from typing import Final

AFTER_SECONDS: Final = 0.5
"""How long after the first screen."""
MODULES: Final = (
    "ckptui.tui.screens.actions",
    "ckptui.tui.screens.dialogs",
    "ckptui.tui.widgets.filter_line",
    "ckptui.tui.filters",
    "ckptui.sorting",
    "ckptui.tui.changes",
    "textual.scrollbar",
    "ckptui.tui.screens.prune",
    "ckptui.tui.screens.detail",
    "ckptui.tui.screens.help",
    "ckptui.tui.every_key",
    "ckptui.tui.screens.chart",
    "ckptui.tui.screens.chart_actions",
    "ckptui.tui.screens.resume",
    "ckptui.tui.screens.compare",
    "ckptui.tui.screens.copying",
    "ckptui.tui.screens.trash",
    "ckptui.tui.screens.verify",
    "ckptui.tui.screens.journal",
)
"""Those first whose keys are pressed first."""


def bring() -> None:
    """Import them all."""
    for name in MODULES:
        with contextlib.suppress(ImportError, OSError):  # the key that needs it will tell
            importlib.import_module(name)


def begin() -> None:
    """Import them in the background."""
    threading.Thread(target=bring, name="ckptui-ahead", daemon=True).start()

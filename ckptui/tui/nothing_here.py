"""Why a key of the first screen can do nothing where there is nothing for it to act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ckptui.tui.keys import Key
    from ckptui.tui.screens.browse import BrowseScreen

_OF_RUN: Final = {"prune", "save_now", "chart", "metric", "trash", "journal"}
"""Deeds about the run that is listed."""
_OF_LIST: Final = {"mark", "copy", "range", "mark_all", "invert"}
"""Deeds about the row under the cursor, or all that are shown."""
_OF_CHOSEN: Final = {"trash_chosen", "verify", "compare"}
"""Deeds about the marked rows, wherever they are; about the one under the cursor without marks."""


def why_not(screen: BrowseScreen, key: Key) -> str | None:
    """Why there is nothing for a key to act on, in a sentence; None where there is something."""
    if key.act == "compare" and screen.run_list.has_focus:
        return None
    about_row = key.row or key.act in _OF_LIST
    about_row = about_row or (key.act in _OF_CHOSEN and not screen.marked)
    if screen.browser.reader.view is None:
        return _no_run(screen) if about_row or key.act in _OF_RUN else None
    if key.act == "prune":
        return _no_checkpoint(screen) if not screen.browser.reader.view.rows else None
    return _no_checkpoint(screen) if about_row and screen.current is None else None


def _no_run(screen: BrowseScreen) -> str:
    reader = screen.browser.reader
    looking = reader.found is None and reader.failure is None
    return "No run is found yet." if looking else "There is no run here."


def _no_checkpoint(screen: BrowseScreen) -> str:
    view = screen.browser.reader.view
    if view is None or not view.rows:
        return "There is no checkpoint in this run."
    if screen.filter_text:
        return "No checkpoint matches the filter; esc clears it."
    return "The list is still being sorted."

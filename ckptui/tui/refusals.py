"""Why a key of the main screen does nothing now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptui.checkpoint import State
from ckptui.tui import lost

if TYPE_CHECKING:
    from ckptui.tui.keys import Key
    from ckptui.tui.screens.browse import BrowseScreen
    from ckptui.tui.snapshot import Row

_OF_CHOSEN = {"trash_chosen", "verify", "compare"}
"""Deeds that are about the marked rows, or the one under the cursor where none is marked."""
_OF_ROW = {"mark", "copy"}
"""Deeds that are about the row under the cursor, whatever is marked."""
_OF_SHOWN = _OF_ROW | {"range", "mark_all", "invert"}
"""Those, and the deeds that are about all rows that are shown."""
_OF_RUN = {"save_now", "prune", "chart", "trash", "journal", "metric"}
"""Deeds that are about the run that is listed."""


def no_list(screen: BrowseScreen, key: Key) -> str | None:
    """Why nothing can be done about the list: its run is gone, or it is not on the screen."""
    of_list = key.row or key.act in _OF_SHOWN | _OF_CHOSEN
    gone = screen.browser.reader.lost
    if gone is not None and (of_list or key.act in _OF_RUN):
        return lost.words(gone, screen.browser.path)
    if of_list and screen.runs_alone and key.act != "compare":
        return "The checkpoints are not shown; enter shows them."
    return None


def nothing_there(screen: BrowseScreen, key: Key) -> str | None:
    """Why there is nothing for a key to act on, in a sentence; None where there is something."""
    if key.act == "compare" and screen.run_list.has_focus:
        return None
    about_row = key.row or key.act in _OF_SHOWN
    about_row = about_row or (key.act in _OF_CHOSEN and not screen.marked)
    if screen.browser.reader.view is None:
        return _no_run(screen) if about_row or key.act in _OF_RUN else None
    if key.act == "prune":
        return _no_checkpoint(screen) if not screen.browser.reader.view.rows else None
    return _no_checkpoint(screen) if about_row and screen.current is None else None


def no_row(screen: BrowseScreen, key: Key) -> str | None:
    """Why nothing can be done about the row under the cursor."""
    row = screen.current
    if row is None or not (row.gone or row.unread):
        return None
    if key.act == "compare" and screen.run_list.has_focus:
        return None
    begins = key.act == "range" and screen.checkpoints.marks.start not in screen.shown.index
    of_chosen = key.act in _OF_CHOSEN and not screen.marked
    if key.row or key.act in _OF_ROW or of_chosen or begins:
        return of(row)
    return None


def of(row: Row) -> str | None:
    """Why nothing can be done about a row, in a sentence."""
    if row.gone:
        return f"{row.checkpoint.name} is gone: {row.gone}."
    return f"{row.checkpoint.name} is still being read." if row.unread else None


def no_pick(row: Row) -> str | None:
    """Why a checkpoint is not handed out: there is nothing whole to be loaded."""
    if row.checkpoint.state is State.WRITING:
        return f"{row.checkpoint.name} is still being written; pick a complete one."
    if row.checkpoint.state is State.PARTIAL:
        return f"{row.checkpoint.name} is partial: its save never ended. Pick a complete one."
    return None


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

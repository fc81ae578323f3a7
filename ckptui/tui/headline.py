"""The two lines of words on the main screen: what is browsed above, what holds below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from ckptui.tui import runs
from ckptui.tui.jobs import save_group
from ckptui.tui.text import fit, fit_path, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptui.tui.app import Browser
    from ckptui.tui.screens.browse import BrowseScreen

WAITING_SECONDS = 2.0
"""How long the disk may take before the first line says that it is waited for."""
_LEAST_PATH = 14
"""Cells that a path keeps whatever else there is to say."""
_GAP = "   "


def headline(browser: Browser, width: int) -> str:
    """The first line: the path, and as much about it as fits."""
    reader = browser.reader
    view = reader.view or reader.lost
    path = plain(browser.short_path(view.run.path if view is not None else browser.path))
    parts = [plain(part) for part in _news(browser)]
    start = " ckptui  " if width >= 60 else " "
    room = width - len(start) - min(cell_len(path), _LEAST_PATH) - 3
    if parts and cell_len(parts[0]) > room:  # news before our own name
        room += len(start) - 1
        start = " "
    mark = "~" if browser.ascii_only else "…"
    tail = _joined(parts, room, mark)
    head = start + fit_path(path, width - len(start) - cell_len(tail) - 3, ellipsis=mark)
    return fit(head, width - cell_len(tail) - 1, ellipsis=mark) + tail + " "


def _joined(parts: Sequence[str], room: int, mark: str) -> str:
    """As many of the first parts as fit; the very first is cut rather than left out."""
    for count in range(len(parts), 0, -1):
        text = _GAP.join(parts[:count])
        if cell_len(text) <= room:
            return text
    return fit(parts[0], room, ellipsis=mark).rstrip() if parts else ""


def _news(browser: Browser) -> list[str]:
    reader = browser.reader
    view = reader.view
    parts = runs.head(view, reader.found) if view is not None else []
    job = browser.jobs.oldest_running(patient=False)
    if job is not None and job.seconds >= WAITING_SECONDS:
        return [f"waiting for the disk {job.seconds:.0f} s: {job.label}"]
    if reader.lost is not None:
        return ["! gone: removed or renamed"]
    if reader.failure is not None:
        return [f"! {reader.failure}"] if view is not None else []
    asked = browser.jobs.latest(save_group(view.run.path)) if view is not None else None
    if asked is not None and asked.running:
        parts = [f"asked to save {asked.seconds:.0f} s ago", *parts]
    if browser.looks_read_only is not None and view is not None:
        parts.insert(1 if view.pulse.words else 0, view.read_only or "read-only")
    if browser.paused:
        return ["PAUSED", *parts]
    if reader.found is None:
        return [*parts, "scanning, esc stops"]
    return [*parts, "scan stopped"] if reader.found.partial else parts


def status(screen: BrowseScreen, width: int) -> str:
    """The last line above the keys: what was said, the filter, the order, the marks."""
    key, descending = screen.sort
    left = screen.said
    if screen.complaint is not None:
        left = screen.complaint
    elif screen.has_class("-filtering"):
        left = ""
    elif screen.filter_text and not left:
        left = f"/ {screen.filter_text}"
    right = []
    if screen.marked:
        right.append(f"{len(screen.marked)} marked")
    if screen.current is not None and screen.current.hidden:
        right.append("hidden by the filter")
    elif screen.filter_text and screen.said:
        right.append("filtered")
    right.append(_order(key, screen.browser.reader.metric, descending=descending))
    right.append(_place(screen))
    left = plain(left)
    room = max(0, width - cell_len(left) - 4) if left else width - 2
    # What is said comes first, then the marks and the place in the list, then the order.
    tail = _GAP.join(right)
    while right and cell_len(tail) > room:
        right.pop(max(0, len(right) - 2))
        tail = _GAP.join(right)
    mark = "~" if screen.browser.ascii_only else "…"
    return " " + fit(left, width - cell_len(tail) - 2, ellipsis=mark) + tail + " "


_NAMED: Final = 3
"""How many are named of those that came in out of sight, where there is room."""
_ORDERS: Final = {
    "state": ("state, ok first", "state, ok last"),
    "size": ("size, smallest first", "size, largest first"),
    "age": ("age, newest first", "age, oldest first"),
    "kept": ("what keeps it, a to z", "what keeps it, z to a"),
}
"""What the order is called, ascending and descending, where that is not lowest and highest."""


def _order(key: str, metric: str | None, *, descending: bool) -> str:
    """The order of the list in words."""
    if key in _ORDERS:
        return f"by {_ORDERS[key][descending]}"
    word = plain(metric or "metric") if key == "metric" else key
    return f"by {word}, {'highest' if descending else 'lowest'} first"


def _place(screen: BrowseScreen) -> str:
    """Where the cursor stands among how many."""
    table, view = screen.checkpoints, screen.browser.reader.view
    if not table.rows:
        return "none"
    total = len(view.rows) if view is not None else 0
    more = f", {total} in all" if len(table.rows) < total else ""
    news = [plain(name) for name in table.news_above]
    named = " ".join(news[: _NAMED if screen.size.width >= 100 else 1])
    above = f", {len(news)} new above: {named}" if news else ""
    return f"{table.cursor + 1} of {len(table.rows)}{more}{above}"

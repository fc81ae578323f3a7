"""What any screen can do about one checkpoint that it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from ckptui.errors import RefusedError
from ckptui.tui import inspecting, work
from ckptui.tui.screens.compare import CompareScreen
from ckptui.tui.screens.copying import CopyMenu, entries
from ckptui.tui.screens.prune import PruneScreen
from ckptui.tui.screens.verify import VerifyScreen
from ckptui.tui.snapshot import Row

if TYPE_CHECKING:
    from ckptui.checkpoint import Run
    from ckptui.tui.app import Browser
    from ckptui.tui.screens.base import BrowserScreen


@dataclass
class ParentRead(Message):
    """The parent of a checkpoint lies in a run that is not open here, and was read."""

    parent: Row
    child: Row


def open_verify(browser: Browser, row: Row) -> None:
    """Compare its files with their digests."""
    browser.push_screen(VerifyScreen([row.checkpoint]))


def open_copy(browser: Browser, row: Row) -> None:
    """Choose what of it to copy."""
    found = entries(row, browser.reader.views)
    browser.push_screen(CopyMenu(f"Copy of {row.checkpoint.name}", found))


def open_trash(browser: Browser, run: Run, row: Row) -> None:
    """Show the plan that moves it to the trash, or why that is refused."""
    chosen = (row.checkpoint,)
    try:
        # A first look at what the screen knows, so that a refusal costs no dialog.
        work.plan_for(run, work.ByName(chosen), browser.clock())
    except RefusedError as e:
        browser.explain("Not moved to the trash", str(e))
        return
    browser.push_screen(PruneScreen(run, chosen))


def compare_with_parent(screen: BrowserScreen, row: Row) -> None:
    """Compare it with its parent; one in another run is read first and sent as `ParentRead`."""
    reader = screen.browser.reader
    known = inspecting.known_parent(reader.views, row)
    if known is not None:
        screen.browser.push_screen(CompareScreen(known, row))
        return
    scan = reader.scan
    screen.browser.start(
        "parent",
        "reading the parent",
        lambda _: ParentRead(inspecting.read_parent(row, scan), row),
        target=screen,
    )

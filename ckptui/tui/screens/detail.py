"""Everything about one checkpoint, its files included."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from ckptui import display
from ckptui.tui import facts
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.text import safe
from ckptui.tui.widgets.detail import fact_lines
from ckptui.tui.widgets.keybar import KeyBar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ckptui.tui.listing import Look
    from ckptui.tui.snapshot import Row

MAX_FILES = 500
"""Files that are listed; a checkpoint of more says how many there are."""


class DetailScreen(BrowserScreen):
    """A page to scroll through."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "back", "back", show=False),
        Binding("y", "copy", "copy the path", show=False),
    ]

    def __init__(self, row: Row, look: Look) -> None:
        super().__init__()
        self._row = row
        self._look = look

    def parts(self) -> Iterable[Widget]:
        """The page."""
        with VerticalScroll(id="page") as page:
            page.border_title = safe(self._row.checkpoint.name)
            yield Static(id="page-text")
        yield KeyBar([("up down", "scroll"), ("y", "copy path"), ("esc", "back")])

    def on_mount(self) -> None:
        """Scroll with the keys."""
        self.query_one("#page").focus()

    def on_resize(self) -> None:
        """Wrap to the width there is."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        files = self._row.checkpoint.files
        found = [*facts.full(self._row, self._look), facts.Fact("Files", f"{len(files)} listed")]
        found += [facts.Fact("", f"{display.size(f.size):>9}  {f.name}") for f in files[:MAX_FILES]]
        width = self.query_one("#page").scrollable_content_region.width
        self.query_one("#page-text", Static).update(fact_lines(found, width))

    def action_copy(self) -> None:
        """Copy the checkpoint's path."""
        self.browser.copy(str(self._row.checkpoint.path))

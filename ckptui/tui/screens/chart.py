"""The curve of a metric on the whole screen; the cursor snaps to checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Static

from ckptui.tui import curve
from ckptui.tui.screens import actions
from ckptui.tui.screens.base import BrowserScreen
from ckptui.tui.text import safe
from ckptui.tui.widgets.chart import Chart
from ckptui.tui.widgets.keybar import KeyBar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ckptui.tui.snapshot import Row

HINTS = [
    ("left right", "move"),
    ("m", "metric"),
    ("L", "log scale"),
    ("p", "pin"),
    ("r", "resume"),
    ("esc", "back"),
]


class ChartScreen(BrowserScreen):
    """One curve, large."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h,left_square_bracket", "step(-1)", "previous checkpoint", show=False),
        Binding("right,l,right_square_bracket", "step(1)", "next checkpoint", show=False),
        Binding("home,g", "step(-100000)", "first checkpoint", show=False),
        Binding("end,G", "step(100000)", "last checkpoint", show=False),
        Binding("m", "metric", "next metric", show=False),
        Binding("L", "log", "log scale", show=False),
        Binding("p", "pin", "pin", show=False),
        Binding("n", "note", "note", show=False),
        Binding("r", "resume", "resume", show=False),
        Binding("c", "back", "back", show=False),
    ]

    def __init__(self, key: str | None) -> None:
        super().__init__()
        self._key = key
        self._log = False

    def parts(self) -> Iterable[Widget]:
        """The chart and the words below it."""
        yield Chart(id="large-chart", ascii_only=self.browser.ascii_only)
        yield Static(id="status")
        yield KeyBar(HINTS)

    def on_mount(self) -> None:
        """Draw what is known."""
        self.state_changed()

    @property
    def _rows(self) -> list[Row]:
        view = self.browser.reader.view
        return curve.stepped(view.rows) if view is not None else []

    @property
    def current(self) -> Row | None:
        """The checkpoint under the cursor."""
        return next((row for row in self._rows if row.key == self._key), None)

    def state_changed(self) -> None:
        """Draw anew."""
        rows, look = self._rows, self.browser.main.look
        if self.current is None:
            self._key = rows[-1].key if rows else None
        chart = self.query_one(Chart)
        curve.fill(chart, rows, look, log=self._log)
        chart.set_cursor(self._key)
        chart.border_title = safe(curve.title(look, log=self._log))

    def say(self, words: str) -> None:
        """Show a line of words."""
        self.query_one("#status", Static).update(safe(f" {words}"))

    def action_step(self, by: int) -> None:
        """Go to another checkpoint, in the list too."""
        rows = self._rows
        keys = [row.key for row in rows]
        if not keys:
            return
        at = keys.index(self._key) if self._key in keys else len(keys) - 1
        self._key = keys[max(0, min(len(keys) - 1, at + by))]
        self.query_one(Chart).set_cursor(self._key)
        self.browser.main.select(Path(self._key))

    def action_metric(self) -> None:
        """Go on to the next metric."""
        actions.next_metric(self.browser)

    def action_log(self) -> None:
        """Switch between a linear and a logarithmic scale."""
        self._log = not self._log
        self.state_changed()

    def action_pin(self) -> None:
        """Pin the checkpoint under the cursor, or take its pin away."""
        if self.current is not None:
            actions.toggle_pin(self.browser, self.current)

    def action_note(self) -> None:
        """Give it a note."""
        if self.current is not None:
            actions.ask_note(self.browser, self.current)

    def action_resume(self) -> None:
        """Show how to resume from it."""
        if self.current is not None:
            actions.open_resume(self.browser, self.current)

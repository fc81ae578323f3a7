"""The line that a filter is typed into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from ckptui.tui.widgets.line import Line

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.timer import Timer

TYPING_SECONDS = 0.03
"""How long keys are collected before the list is arranged for them."""
_HINT = "words, step>=2000, state:ok"


class FilterLine(Horizontal):
    """Tells what is typed; of keys that come faster than a list is arranged, the last counts."""

    @dataclass
    class Typed(Message):
        """What stands in the line has changed."""

        value: str

    def __init__(self) -> None:
        super().__init__(id="filter-line")
        self._waiting: str | None = None
        """What was typed and is not told yet."""
        self._timer: Timer | None = None
        self.before = ""
        """The filter that held when the line was opened."""

    def compose(self) -> ComposeResult:
        """A mark and the line itself."""
        yield Static(" / ")
        yield Line(id="filter", compact=True, placeholder=_HINT, select_on_focus=False)

    def open(self, text: str) -> None:
        """Show the line with a filter in it, ready to be typed into."""
        self.before = text
        # At once, not when styles are made: the next key is on its way.
        self.display = True
        line = self.query_one(Line)
        line.value = text
        line.cursor_position = len(text)
        self.screen.set_focus(line)

    def close(self) -> None:
        """Hide it; what was typed last is forgotten unless `take` has it."""
        self._waiting = None
        self.display = False

    def take(self) -> str | None:
        """What was typed and is not told yet; it is told by this."""
        waiting, self._waiting = self._waiting, None
        return waiting

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._waiting = event.value
        if self._timer is None:
            self._timer = self.set_timer(TYPING_SECONDS, self._tell)

    def _tell(self) -> None:
        self._timer = None
        value = self.take()
        if value is not None:
            self.post_message(self.Typed(value))

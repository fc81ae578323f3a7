"""The names of the pages of a screen in one line; brackets tell which is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ckptui.tui.text import safe

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tabs(Widget, can_focus=False):
    """One line: a digit and a name for each page, as far as there is room."""

    class Chosen(Message):
        """A name was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, names: Sequence[str], *, id: str | None = None) -> None:  # noqa: A002 - as widgets
        super().__init__(id=id)
        self._names = tuple(names)
        self._current = 0
        self._right = ""

    def show(self, current: int, right: str = "") -> None:
        """Mark a page as open; `right` stands at the end of the line where there is room."""
        self._current, self._right = current, right
        self.refresh()

    def render(self) -> Content:
        """The names that fit, the open one in brackets."""
        parts, width = self._parts()
        pieces = [
            Content.assemble((text, "bold reverse" if i == self._current else ""))
            for i, text in parts
        ]
        room = self.size.width - width - cell_len(self._right) - 2
        end = [Content(" " * (room + 1)), safe(self._right)] if self._right and room > 0 else []
        return Content("").join([Content(" ").join(pieces), *end])

    def _parts(self) -> tuple[list[tuple[int, str]], int]:
        """Indexes with texts, in full or, where there is no room, the open one and its number."""
        for form in ("[{0} {1}]", "[{1}]"):
            parts = [
                (i, form.format(i + 1, n) if i == self._current else f"{i + 1} {n}")
                for i, n in enumerate(self._names)
            ]
            width = sum(len(text) for _, text in parts) + len(parts) - 1
            if width <= self.size.width:
                return parts, width
        text = (
            f"[{self._names[self._current]}] {self._current + 1} of {len(self._names)}, tab: next"
        )
        return [(self._current, text)], len(text)

    def on_click(self, event: events.Click) -> None:
        """Open the page whose name was clicked."""
        at = 0
        for i, text in self._parts()[0]:
            if at <= event.x < at + len(text):
                self.post_message(self.Chosen(i))
            at += len(text) + 1

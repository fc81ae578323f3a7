"""Buttons of one line that need no colour to be told from text, nor the one with the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Button

from ckptui.tui.text import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.geometry import Size


class FlatButton(Button):
    """A button of one line: brackets make it one, and angles tell that it has the focus."""

    def __init__(self, label: str, id: str, *, letter: str = "") -> None:  # noqa: A002 - as widgets
        super().__init__(safe(label), id=id, compact=True)
        self.letter = letter
        """The key that presses it; its dialog binds it."""
        self.waiting = False
        """Whether pressing it does nothing yet; it keeps the focus meanwhile."""
        self.terse = False
        """Whether there is no room to show that key."""

    def watch_label(self) -> None:
        """Another label takes another width."""
        self.refresh(layout=True)

    def get_content_width(self, container: Size, viewport: Size) -> int:  # noqa: ARG002 - fixed
        """The label with what stands around it, and the cell that Textual adds on each side."""
        return self._text().cell_length + 2

    def render(self) -> Content:
        """The label as it is, never as markup."""
        return self._text()

    def _text(self) -> Content:
        label = self.label if isinstance(self.label, Content) else safe(self.label)
        letter = f" ({self.letter})" if self.letter and not self.terse else ""
        left, right = ("[>", "<]") if self.has_focus else ("[ ", " ]")
        if self.disabled:
            left = right = "  "
        elif self.waiting:
            left, right = left.replace("[", " "), right.replace("]", " ")
        return Content(left) + label + Content(letter + right)


def button(label: str, id: str, *, letter: str = "") -> FlatButton:  # noqa: A002 - as widgets
    """A flat one-line button that shows its label as it is."""
    return FlatButton(label, id, letter=letter)


class Buttons(Horizontal):
    """Buttons side by side: without their keys, or one below the other, where there is no room."""

    class Stood(Message):
        """They may take another number of lines now."""

    def __init__(self, *buttons: FlatButton) -> None:
        super().__init__(*buttons, classes="buttons")

    def on_resize(self) -> None:
        """Choose how they stand."""
        self.stand()

    def stand(self) -> None:
        """Choose how they stand, after a label has changed."""
        shown = [b for b in self.query(FlatButton) if b.display]
        self._set_terse(shown, terse=False)
        if self._need(shown) > self.size.width:
            self._set_terse(shown, terse=True)
        stacked = self._need(shown) > self.size.width
        self.set_class(stacked, "-stacked")
        if stacked:
            self._set_terse(shown, terse=False)
        self.post_message(self.Stood())

    def _need(self, shown: Sequence[FlatButton]) -> int:
        return sum(b.get_content_width(self.size, self.size) for b in shown)

    def _set_terse(self, shown: Sequence[FlatButton], *, terse: bool) -> None:
        for b in shown:
            if b.terse is not terse:
                b.terse = terse
                b.refresh(layout=True)

"""What every screen of the browser shares: a way back, and a sentence where there is no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from ckptui.tui.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.widget import Widget

    from ckptui.tui.app import Browser

R = TypeVar("R")

TOO_SMALL = "ckptui needs at least 40 columns and 10 lines. Make the window larger; q quits."


class BrowserScreen(Screen[None]):
    """A whole screen: opaque, left by Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", show=False),
        Binding("q", "app.leave", "quit", show=False),
        Binding("question_mark,f1", "app.help", "help", show=False),
    ]

    @property
    def browser(self) -> Browser:
        """The app, by its own type."""
        return cast("Browser", self.app)

    def compose(self) -> ComposeResult:
        """The screen's own parts, and what stands there when they have no room."""
        with Vertical(id="all"):
            yield from self.parts()
        yield Static(safe(TOO_SMALL), id="too-small")

    def parts(self) -> Iterable[Widget]:
        """The widgets of the screen; each has its own."""
        # Not an abstract method: the metaclass that checks those is not the one Textual brings.
        raise NotImplementedError

    def state_changed(self) -> None:
        """The app knows more than before; screens that show it draw anew."""

    def say(self, words: str) -> None:
        """Show a line of words, where the screen has a place for it."""

    def action_back(self) -> None:
        """Go back to where this screen was opened."""
        self.dismiss()


class Dialog(ModalScreen[R]):
    """A box over the screen; Esc leaves it without an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "back", show=False)]

    @property
    def browser(self) -> Browser:
        """The app, by its own type."""
        return cast("Browser", self.app)

    def action_back(self) -> None:
        """Leave without an answer."""
        self.dismiss(None)

    def action_scroll_text(self, by: int) -> None:
        """Scroll what does not fit."""
        self.query_one(".dialog-text").scroll_relative(y=by, animate=False)

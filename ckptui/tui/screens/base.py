"""What every screen of the browser shares: its keys, a way back, words where there is no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from ckptui.tui import keys
from ckptui.tui.text import safe
from ckptui.tui.widgets.keybar import QUIT, KeyBar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.widget import Widget

    from ckptui.tui.app import Browser
    from ckptui.tui.keys import Key
    from ckptui.tui.messages import CheckpointRemoved, Copied, RemovalEnded
    from ckptui.tui.widgets.keybar import Hint

R = TypeVar("R")

STYLE = "../screens.tcss"
"""How all screens but the first look; read when the first of them is opened."""

LEAST = (40, 10)
"""Columns and lines; where the classes `-tiny-width` and `-tiny-height` of the app end."""
TOO_SMALL = "ckptui needs at least 40 columns and 10 lines. Make the window larger; q quits."


class BrowserScreen(Screen[None]):
    """A whole screen: opaque, left by Esc."""

    CSS_PATH: ClassVar[str | None] = STYLE
    KEYS: ClassVar[tuple[Key, ...]] = ()
    """What the key bar shows and the help lists; `BINDINGS = keys.bindings(KEYS)` obeys them."""
    HEADING: ClassVar[str] = ""
    """What the help calls this screen."""
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
        """The screen's own parts and its keys."""
        with Vertical(id="all"):
            yield from self.parts()
            if self.KEYS:
                yield KeyBar(self.hints())

    def on_resize(self) -> None:
        """Say that there is no room, where there is none."""
        tiny = self.app.size.width < LEAST[0] or self.app.size.height < LEAST[1]
        if tiny and not self.query("#too-small"):
            self.mount(Static(safe(TOO_SMALL), id="too-small"))

    def parts(self) -> Iterable[Widget]:
        """The widgets of the screen; each has its own."""
        # Not an abstract method: the metaclass that checks those is not the one Textual brings.
        raise NotImplementedError

    def state_changed(self) -> None:
        """The app knows more than before; screens that show it draw anew."""

    def say(self, words: str) -> None:
        """Show a line of words, where the screen has a place for it."""

    def progressed(self, event: CheckpointRemoved) -> None:
        """One target of a removal was dealt with."""

    def ended(self, event: RemovalEnded) -> None:
        """A removal is over."""

    def failed(self, what: str) -> None:
        """A removal was refused."""

    def copied(self, event: Copied) -> None:
        """A text went to the clipboard."""

    # Keys

    def hints(self) -> list[Hint]:
        """What the key bar shows now."""
        lost = self.lost_keys
        there = [key for key in self.KEYS if key.act not in lost]
        return keys.hints(there, shown=self.browser.wishes.shown_key, usable=self.usable)

    def line_hints(self) -> tuple[list[Hint], Hint] | None:
        """While a line is typed, its keys and the way out of it: letters are letters there."""
        return None

    def show_keys(self) -> None:
        """Show the keys that are of use now."""
        hints, last = self.line_hints() or (self.hints(), QUIT)
        for bar in self.query(KeyBar):
            bar.set_hints(hints, last=last)

    @property
    def lost_keys(self) -> tuple[str, ...]:
        """Deeds of this screen whose key the user has given to another one of it."""
        own = self.browser.wishes.preferences.keys
        acts = {key.act for key in self.KEYS}
        given = {part.strip() for act in own.keys() & acts for part in own[act].split(",")}
        return tuple(
            key.act for key in self.KEYS if key.act not in own and given >= set(key.key.split(","))
        )

    def usable(self, key: Key) -> bool:
        """Whether a key is worth a place in the key bar now."""
        return self.why_not(key) is None or (key.changes and not self.browser.looks_read_only)

    def why_not(self, key: Key) -> str | None:
        """Why a key does nothing now, in a sentence; None where it does what it says."""
        return self.browser.read_only if key.changes else None

    async def action_press(self, act: str) -> None:
        """What the key of a deed does: the deed, or a sentence why not."""
        key = next(k for k in self.KEYS if k.act == act)
        reason = self.why_not(key)
        if reason is not None:
            self.refuse(reason)
        else:
            await self.perform(act)

    def refuse(self, reason: str) -> None:
        """Say why a key does nothing now."""
        self.say(reason)

    async def perform(self, act: str) -> None:
        """Do the deed of this name."""
        await self.run_action(act)

    def action_help(self) -> None:
        """Show what the keys do."""
        self.browser.action_help()

    def action_back(self) -> None:
        """Go back to where this screen was opened."""
        self.dismiss()


class Dialog(ModalScreen[R]):
    """A box over the screen; Esc leaves it without an answer."""

    CSS_PATH = STYLE
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "back", show=False)]

    @property
    def browser(self) -> Browser:
        """The app, by its own type."""
        return cast("Browser", self.app)

    def state_changed(self) -> None:
        """The app knows more than before; dialogs that promise something look whether it holds."""

    def copied(self, event: Copied) -> None:
        """A text went to the clipboard."""

    def not_copied(self, words: str) -> None:
        """A text did not go there, and why."""

    def action_back(self) -> None:
        """Leave without an answer."""
        self.dismiss(None)

    def action_scroll_text(self, by: int) -> None:
        """Scroll what does not fit."""
        self.query_one(".dialog-text").scroll_relative(y=by, animate=False)

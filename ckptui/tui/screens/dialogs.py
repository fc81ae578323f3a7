"""Small dialogs: a message, a question, a line to fill in, a menu."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from ckptui.tui.screens.base import Dialog
from ckptui.tui.text import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult


def button(label: str, id: str) -> Button:  # noqa: A002 - the name that every widget uses
    """A flat one-line button that shows its label as it is."""
    return Button(safe(label), id=id, compact=True)


class MessageDialog(Dialog[None]):
    """Something the user must have read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "back", "close", show=False),
        Binding("up,k", "scroll_text(-1)", "up", show=False),
        Binding("down,j", "scroll_text(1)", "down", show=False),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._heading = title
        self.text = text

    def compose(self) -> ComposeResult:
        """The text and one button."""
        with Vertical(classes="box") as box:
            box.border_title = safe(self._heading)
            with VerticalScroll(classes="dialog-text", can_focus=False):
                yield Static(safe(self.text), id="text")
            with Horizontal(classes="buttons"):
                yield button("Close", "close")

    @on(Button.Pressed)
    def close(self) -> None:
        """Done reading."""
        self.dismiss(None)


class QuestionDialog(Dialog[bool]):
    """A question whose safe answer has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,right,up,down", "app.focus_next", "other", show=False),
        Binding("n", "back", "no", show=False),
    ]

    def __init__(self, title: str, text: str, *, yes: str, no: str) -> None:
        super().__init__()
        self._heading = title
        self.text = text
        self._yes, self._no = yes, no

    def compose(self) -> ComposeResult:
        """The question, the safe answer first."""
        with Vertical(classes="box") as box:
            box.border_title = safe(self._heading)
            yield Static(safe(self.text), id="text")
            with Horizontal(classes="buttons"):
                yield button(self._no, "no")
                yield button(self._yes, "yes")

    def on_mount(self) -> None:
        """Enter right away does no harm."""
        self.query_one("#no").focus()

    @on(Button.Pressed)
    def answer(self, event: Button.Pressed) -> None:
        """Hand the answer back."""
        self.dismiss(event.button.id == "yes")


class InputDialog(Dialog[str]):
    """One line of text."""

    def __init__(
        self, title: str, text: str, *, value: str = "", wanted: str | None = None
    ) -> None:
        """Ask for a line.

        Args:
            title: What it is about.
            text: What to type.
            value: What stands there at first.
            wanted: Only this is accepted as an answer.
        """
        super().__init__()
        self._heading = title
        self.text = text
        self._value = value
        self._wanted = wanted

    def compose(self) -> ComposeResult:
        """The words, the line, and what is wrong with it."""
        with Vertical(classes="box") as box:
            box.border_title = safe(self._heading)
            yield Static(safe(self.text), id="text")
            yield Input(self._value, id="line", compact=True, select_on_focus=False)
            yield Static(safe("enter accepts, esc cancels"), id="hint", classes="dim")

    @on(Input.Submitted)
    def accept(self, event: Input.Submitted) -> None:
        """Hand the line back, if it is what was wanted."""
        if self._wanted is not None and event.value.strip() != self._wanted:
            self.query_one("#hint", Static).update(
                safe(f"type {self._wanted} to go on, or esc to cancel")
            )
            return
        self.dismiss(event.value)


class MenuDialog(Dialog[str]):
    """A choice among a few."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "back", "close", show=False),
        Binding("j", "down", "down", show=False),
        Binding("k", "up", "up", show=False),
    ]

    def __init__(self, title: str, options: Sequence[tuple[str, str]], chosen: str) -> None:
        super().__init__()
        self._heading = title
        self._options = tuple(options)
        self._chosen = chosen

    def compose(self) -> ComposeResult:
        """The options, one a line."""
        with Vertical(classes="box menu") as box:
            box.border_title = safe(self._heading)
            yield OptionList(*(Option(safe(label), id=key) for key, label in self._options))

    def on_mount(self) -> None:
        """Start at what holds now."""
        options = self.query_one(OptionList)
        keys = [key for key, _ in self._options]
        options.highlighted = keys.index(self._chosen) if self._chosen in keys else 0

    def action_down(self) -> None:
        """Next option."""
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        """Previous option."""
        self.query_one(OptionList).action_cursor_up()

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Hand the key of the option back."""
        self.dismiss(event.option_id)

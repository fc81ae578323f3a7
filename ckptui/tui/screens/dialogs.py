"""Small dialogs: a message, a question, a line to fill in, menus of one or of several choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from ckptui.tui.screens.base import Dialog
from ckptui.tui.text import lines, plain, safe
from ckptui.tui.widgets.buttons import Buttons, button
from ckptui.tui.widgets.line import Line
from ckptui.tui.widgets.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from textual.app import ComposeResult
    from textual.widget import Widget

    from ckptui.tui.messages import Copied

R = TypeVar("R")

Words = str | Sequence[str]
"""A text in one piece, or its lines: a line break within a piece is shown, not obeyed."""


class Box(Dialog[R]):
    """A frame in the middle of the screen: what does not fit scrolls, the buttons always show."""

    CLASSES: ClassVar[str] = "box"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._heading = title
        self._room = 0
        """Lines for what scrolls."""

    def compose(self) -> ComposeResult:
        """The frame around the parts."""
        with Vertical(classes=self.CLASSES) as box:
            box.border_title = safe(self._heading)
            yield from self.parts()

    def parts(self) -> Iterable[Widget]:
        """What is in the frame; at most one of class `scrolls` gives way where there is no room."""
        # Not an abstract method: the metaclass that checks those is not the one Textual brings.
        raise NotImplementedError

    def on_resize(self) -> None:
        """Give what scrolls the lines that the others leave."""
        self.call_after_refresh(self.fit)

    @on(Buttons.Stood)
    def _stood(self) -> None:
        self.call_after_refresh(self.fit)

    def fit(self) -> None:
        """Give what scrolls the lines that the others leave."""
        box = self.query_one(f".{self.CLASSES.split()[0]}")
        others = [w for w in box.children if w.display and not w.has_class("scrolls")]
        taken = sum(w.outer_size.height + w.styles.margin.height for w in others)
        room = max(1, self.size.height - box.gutter.height - taken)
        if room != self._room:
            self._room = room
            for scrolling in box.query(".scrolls"):
                scrolling.styles.max_height = room
                if isinstance(scrolling, OptionList):
                    self.call_after_refresh(scrolling.scroll_to_highlight)
            self.call_after_refresh(self.fit)  # the others may stand otherwise now


def scrolled(*widgets: Widget) -> VerticalScroll:
    """A part that scrolls where there is no room for all of it."""
    return VerticalScroll(*widgets, classes="dialog-text scrolls", can_focus=False)


def said(text: Words) -> Static:
    """The words of a dialog."""
    return Static(lines(*([text] if isinstance(text, str) else text)), id="text")


class MessageDialog(Box[None]):
    """Something the user must have read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "back", "close", show=False),
        Binding("up,k", "scroll_text(-1)", "up", show=False),
        Binding("down,j", "scroll_text(1)", "down", show=False),
    ]

    def __init__(self, title: str, text: Words) -> None:
        super().__init__(title)
        self.text = text

    def parts(self) -> Iterable[Widget]:
        """The text and one button."""
        yield scrolled(said(self.text))
        yield Buttons(button("Close", "close"))

    @on(Button.Pressed)
    def close(self) -> None:
        """Done reading."""
        self.dismiss(None)


class QuestionDialog(Box[bool]):
    """A question whose safe answer has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,right", "app.focus_next", "other", show=False),
        Binding("up,k", "scroll_text(-1)", "up", show=False),
        Binding("down,j", "scroll_text(1)", "down", show=False),
        Binding("n", "back", "no", show=False),
        Binding("y", "yes", "yes", show=False),
    ]

    def __init__(self, title: str, text: Words, *, yes: str, no: str) -> None:
        super().__init__(title)
        self.text = text
        self._yes, self._no = yes, no

    def parts(self) -> Iterable[Widget]:
        """The question, the safe answer first."""
        yield scrolled(said(self.text))
        yield Buttons(
            button(self._no, "no", letter="n"),
            button(self._yes, "yes", letter="y"),
        )

    def on_mount(self) -> None:
        """Enter right away does no harm."""
        self.set_focus(self.query_one("#no"))

    def action_yes(self) -> None:
        """Agree."""
        self.dismiss(True)

    @on(Button.Pressed)
    def answer(self, event: Button.Pressed) -> None:
        """Hand the answer back."""
        self.dismiss(event.button.id == "yes")


class InputDialog(Box[str]):
    """One line of text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_text(-1)", "up", show=False),
        Binding("down", "scroll_text(1)", "down", show=False),
        Binding("ctrl+y", "copy", "copy the command", show=False),
    ]

    def __init__(
        self,
        title: str,
        text: Words,
        *,
        value: str = "",
        wanted: str | None = None,
        command: Callable[[str], str] | None = None,
    ) -> None:
        """Ask for a line.

        Args:
            title: What it is about.
            text: What to type.
            value: What stands there at first.
            wanted: Only this is accepted as an answer.
            command: The command line that does the same with what is typed.
        """
        super().__init__(title)
        self._command = command
        self.text = text
        self._value = value
        self._wanted = wanted

    def parts(self) -> Iterable[Widget]:
        """The words, the line in its frame, what is wrong with it, the same as a command."""
        yield scrolled(said(self.text), Static(self._same(self._value), id="same", classes="dim"))
        yield Line(self._value, id="line", classes="framed", select_on_focus=False)
        yield Static(safe("enter accepts, esc cancels"), id="hint", classes="dim")

    def on_mount(self) -> None:
        """Type right away."""
        self.query_one("#same").display = self._command is not None
        self.set_focus(self.query_one("#line"))

    def _same(self, value: str) -> Content:
        command = self._command
        return safe("" if command is None else f"ctrl+y copies: {command(value)}")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if self._command is not None:
            self.query_one("#same", Static).update(self._same(event.value))
            self.call_after_refresh(self.fit)

    def action_copy(self) -> None:
        """Copy the command line that does the same."""
        if self._command is not None:
            self.browser.copy(self._command(self.query_one("#line", Line).value))

    def copied(self, event: Copied) -> None:
        """Say which way it went."""
        self.query_one("#hint", Static).update(safe(f"copied by {event.way}: {event.what}"))

    def not_copied(self, words: str) -> None:
        """Say why it did not go anywhere."""
        self.query_one("#hint", Static).update(safe(words))

    @on(Input.Submitted)
    def accept(self, event: Input.Submitted) -> None:
        """Hand the line back, if it is what was wanted."""
        if self._wanted is not None and event.value.strip() != self._wanted:
            self.query_one("#hint", Static).update(
                safe(f"type {self._wanted} to go on, or esc to cancel")
            )
            return
        self.dismiss(event.value)


class Choices(Options):
    """Options, one a line each, each with the key it stands for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "down", show=False),
        Binding("k", "cursor_up", "up", show=False),
        Binding("g", "first", "first", show=False),
        Binding("G", "last", "last", show=False),
    ]

    def __init__(self, options: Iterable[tuple[str, str]]) -> None:
        super().__init__(
            *(Option(safe(f" {label}"), id=f"o{i}") for i, (_, label) in enumerate(options)),
            classes="scrolls",
        )


class MenuDialog(Box[str]):
    """A choice among a few."""

    CLASSES = "box menu"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "back", "close", show=False)]

    def __init__(self, title: str, options: Sequence[tuple[str, str]], chosen: str) -> None:
        super().__init__(title)
        self._options = tuple(options)
        self._chosen = chosen

    def parts(self) -> Iterable[Widget]:
        """The options, one a line; a star tells what holds now."""
        yield Choices(
            (key, f"{'*' if key == self._chosen else ' '} {words}") for key, words in self._options
        )

    def on_mount(self) -> None:
        """Start at what holds now."""
        options = self.query_one(Choices)
        keys = [key for key, _ in self._options]
        options.highlighted = keys.index(self._chosen) if self._chosen in keys else 0
        self.set_focus(options)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Hand the key of the option back."""
        self.dismiss(self._options[event.option_index][0])


class MultiMenuDialog(Box[list[str]]):
    """A choice of several among many: what is chosen carries an x."""

    CLASSES = "box menu"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "back", "close", show=False),
        Binding("space,x", "flip", "choose", show=False),
        Binding("a", "all", "all or none", show=False),
    ]

    def __init__(
        self, title: str, options: Sequence[tuple[str, str]], chosen: Collection[str]
    ) -> None:
        """Ask for several.

        Args:
            title: What they are.
            options: Key and words of each.
            chosen: Keys of those chosen at first.
        """
        super().__init__(title)
        self._options = tuple(options)
        self.chosen = {key for key, _ in options if key in chosen}
        """Keys of those chosen now."""

    def parts(self) -> Iterable[Widget]:
        """The options, one a line, and how to choose."""
        yield Choices((key, self._label(key, words)) for key, words in self._options)
        yield Static(safe("space chooses, a all or none, enter accepts"), classes="dim")

    def on_mount(self) -> None:
        """Start at the first of those chosen."""
        options = self.query_one(Choices)
        options.highlighted = next(
            (i for i, (key, _) in enumerate(self._options) if key in self.chosen), 0
        )
        self.set_focus(options)

    def _label(self, key: str, words: str) -> str:
        return f"[{'x' if key in self.chosen else ' '}] {plain(words)}"

    def _show(self) -> None:
        options = self.query_one(Choices)
        for i, (key, words) in enumerate(self._options):
            options.replace_option_prompt_at_index(i, safe(f" {self._label(key, words)}"))

    def action_flip(self) -> None:
        """Choose the option under the cursor, or not."""
        at = self.query_one(Choices).highlighted
        if at is not None:
            self.chosen ^= {self._options[at][0]}
            self._show()

    def action_all(self) -> None:
        """Choose all, or none where all are chosen."""
        every = {key for key, _ in self._options}
        self.chosen = set() if self.chosen == every else every
        self._show()

    @on(OptionList.OptionSelected)
    def accept(self) -> None:
        """Hand the keys of those chosen back, in their order."""
        self.dismiss([key for key, _ in self._options if key in self.chosen])

"""Texts to copy: shown whole, so that they can also be selected, and told which way they went."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Button, OptionList, Static

from ckptui.checkpoint import State
from ckptui.tui import clipboard, inspecting, work
from ckptui.tui.screens.dialogs import Box, Choices, scrolled
from ckptui.tui.text import safe
from ckptui.tui.widgets.buttons import Buttons, button

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.widget import Widget

    from ckptui.checkpoint import Checkpoint
    from ckptui.tui.messages import Copied
    from ckptui.tui.snapshot import Row, RunView

Entry = tuple[str, str]
"""What it is, and the text itself."""


class _Copying(Box[None]):
    """What both dialogs share: a line that says what became of the text."""

    def copied(self, event: Copied) -> None:
        """Say which way a text went."""
        self.query_one("#hint", Static).update(safe(clipboard.told(event.way)))

    def not_copied(self, words: str) -> None:
        """Say why not."""
        self.query_one("#hint", Static).update(safe(words))


class CopyDialog(_Copying):
    """One text, copied as it is shown."""

    CLASSES = "box wide"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q", "back", "close", show=False),
        Binding("y", "again", "copy again", show=False),
        Binding("up,k", "scroll_text(-1)", "up", show=False),
        Binding("down,j", "scroll_text(1)", "down", show=False),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title)
        self.text = text

    def parts(self) -> Iterable[Widget]:
        """The text, what became of it, a way out."""
        yield scrolled(Static(safe(self.text), id="text"))
        yield Static(id="hint", classes="dim")
        yield Buttons(button("Close", "close"), button("Copy again", "again", letter="y"))

    def on_mount(self) -> None:
        """Copy right away."""
        self.set_focus(self.query_one("#close"))
        self.browser.copy(self.text)

    def action_again(self) -> None:
        """Copy once more."""
        self.browser.copy(self.text)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "again":
            self.action_again()
        else:
            self.dismiss(None)


class CopyMenu(_Copying):
    """Several texts: the one under the cursor is shown whole, Enter copies it."""

    CLASSES = "box wide menu"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "back", "close", show=False),
        Binding("y", "copy_it", "copy", show=False),
    ]

    def __init__(self, title: str, entries: Sequence[Entry]) -> None:
        super().__init__(title)
        self._entries = tuple(entries)

    def parts(self) -> Iterable[Widget]:
        """What there is, the text of one, and what became of it."""
        yield Choices((str(i), label) for i, (label, _) in enumerate(self._entries))
        yield Static(safe(self._entries[0][1]), id="line")
        yield Static(safe("enter copies, esc closes"), id="hint", classes="dim")

    def on_mount(self) -> None:
        """Start at the first."""
        options = self.query_one(Choices)
        options.highlighted = 0
        self.set_focus(options)

    @on(OptionList.OptionHighlighted)
    def _show(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#line", Static).update(safe(self._entries[event.option_index][1]))
        self.call_after_refresh(self.fit)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.browser.copy(self._entries[event.option_index][1])

    def action_copy_it(self) -> None:
        """Copy what is shown."""
        self.query_one(Choices).action_select()


def entries(row: Row, views: Mapping[Path, RunView]) -> list[Entry]:
    """What people want to take along of a checkpoint: its path first, then commands that work.

    Args:
        row: The checkpoint.
        views: The runs that are open, to see whether its parent is still there.
    """
    c = row.checkpoint
    path = str(c.path)
    found: list[Entry] = [
        ("path", path),
        ("name", c.name),
        ("path of the run", str(row.run.path)),
    ]
    for what, words in _commands(row, views):
        found.append((f"command: {what}", shlex.join(["ckptui", *words])))
    return found


def _commands(row: Row, views: Mapping[Path, RunView]) -> Iterable[tuple[str, list[str]]]:
    """The commands that are not refused for what is known of a checkpoint."""
    c = row.checkpoint
    if c.staged:
        return  # it has no name yet by which a command finds it
    path = str(c.path)
    yield "show everything", ["show", path]
    if c.pinned:
        yield "unpin", ["unpin", path]
    elif c.state is not State.UNKNOWN:
        yield "pin", ["pin", path]
    if c.complete and c.resumable:
        yield "resume from it", ["resume-cmd", path]
    if c.state is not State.UNKNOWN:
        yield "verify every file", ["verify", path, "--full"]
    if work.may_go(row.run, c):
        yield "move to the trash", ["rm", path]
    before = _parent_path(row, views)
    if before is not None:
        yield f"differences to {before.name}", ["diff", str(before), path]


def _parent_path(row: Row, views: Mapping[Path, RunView]) -> Path | None:
    """Where its parent lies; None where it is gone, as far as the open runs tell."""
    parent = row.checkpoint.parent
    known = inspecting.known_parent(views, row)
    if known is not None:
        return known.checkpoint.path
    if parent is None or parent.path is None:
        return None
    there = Path(parent.path)
    return None if there.parent in views else there


def pin_line(checkpoint: Checkpoint, note: str) -> str:
    """The command line that pins a checkpoint with a note, or takes its note away."""
    words = ["ckptui", "pin", str(checkpoint.path)]
    given = note.strip()
    return shlex.join([*words, "--note", given] if given or checkpoint.note else words)
